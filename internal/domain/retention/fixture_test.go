package retention_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/retention"
	"github.com/parley-chat/parley/internal/platform/bucket"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/schema"
)

const day = 24 * time.Hour

// fixture is a cell with partitions of more than a year, and retention in very short turns.
type fixture struct {
	*factory.World

	retention *retention.Service
	// workDB is the pool of jobs. live and sql are those of a proof: the slowest statement of requests, and a connection for
	// plain statements.
	workDB *postgres.DB
	live   *slowest
	sql    *pgx.Conn
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{World: factory.New(t)}
	f.workDB = f.DB
	f.makePartitions(t)
	f.retention = retention.New(retention.Deps{
		Work: f.DB, Clock: f.World.Clock, Jobs: f.Jobs, Messages: f.Messages, Webhooks: f.Webhooks, Logger: f.Logger,
		Turn: time.Nanosecond, OrgTurn: time.Nanosecond,
	})
	return f
}

// makePartitions makes those of the last 430 days.
func (f *fixture) makePartitions(t *testing.T) {
	t.Helper()
	cut := slices.DeleteFunc(schema.Partitioned(), func(p postgres.Partitioned) bool { return tables()[p.Table] == 0 })
	for at := pgtest.Start().Add(-430 * day); at.Before(pgtest.Start()); at = at.Add(4 * 7 * day) {
		require.NoError(t, f.DB.EnsurePartitions(t.Context(), cut, at))
	}
}

// work works the jobs of retention until stop is called or the test ends. A job that has begun is finished first.
func (f *fixture) work(t *testing.T) (stop func()) {
	t.Helper()
	set := jobs.NewSet()
	set.Queue(jobs.Maintenance, 2, 10*time.Millisecond)
	f.retention.Handle(set)
	runner, err := jobs.NewRunner(f.workDB, f.World.Clock, f.Logger, set)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var group sync.WaitGroup
	group.Go(func() { _ = runner.Run(ctx) })
	stop = func() {
		cancel()
		group.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// walk starts retention and waits until no job of it is left.
func (f *fixture) walk(t *testing.T) {
	t.Helper()
	require.NoError(t, f.retention.Start(t.Context()))
	require.Eventually(t, func() bool { return f.done(t) }, 3*time.Minute, 10*time.Millisecond)
}

// done tells whether no job of retention is left. A month that cannot be dropped, for example because PostgreSQL analyzes it,
// has a job that is due a minute later: then the clock is moved.
func (f *fixture) done(t *testing.T) bool {
	t.Helper()
	if f.waiting(t) {
		f.Pass(t, time.Minute)
	}
	left, err := postgres.One[int](t.Context(), f.DB.System("test"), `
		SELECT count(*) FROM `+jobs.Table+` WHERE kind = 'retention' AND state NOT IN ('completed', 'cancelled', 'discarded')`, nil)
	require.NoError(t, err)
	return left == 0
}

// noteJobs keeps the arguments of all jobs that are added from now on, because River deletes jobs that ended.
func (f *fixture) noteJobs(t *testing.T) {
	t.Helper()
	f.define(t, `CREATE TABLE noted (id bigint PRIMARY KEY, args jsonb NOT NULL)`,
		`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN INSERT INTO public.noted VALUES (NEW.id, NEW.args); RETURN NEW; END'`,
		`CREATE TRIGGER note AFTER INSERT ON `+jobs.Table+` FOR EACH ROW EXECUTE FUNCTION note()`)
}

func (f *fixture) define(t *testing.T, statements ...string) {
	t.Helper()
	_, err := postgres.InSystemTx(t.Context(), f.DB, "test", func(tx *postgres.Tx) (int64, error) {
		for _, statement := range statements {
			if _, err := tx.Exec(t.Context(), statement, nil); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	require.NoError(t, err)
}

// noted returns what the jobs say of the organization that is left.
func (o *tenant) noted(t *testing.T, field string) []string {
	t.Helper()
	all, err := postgres.Many[string](t.Context(), o.DB.System("test"), `
		SELECT l ->> '`+field+`'
		FROM noted, jsonb_array_elements(args -> 'unfinished') AS l
		WHERE l ->> 'org' = '`+o.org.String()+`' AND l ? '`+field+`'
		ORDER BY id`, nil)
	require.NoError(t, err)
	return all
}

// tenant is an organization with a number and a conversation.
type tenant struct {
	*fixture

	org          orgs.ID
	account      accounts.Account
	conversation conversations.Conversation
}

func (f *fixture) tenant(t *testing.T, plan string) *tenant {
	t.Helper()
	org, _, err := f.Orgs.Create(t.Context(), audit.Operator(), orgs.Draft{Name: plan, Plan: plan})
	require.NoError(t, err)
	one := &tenant{fixture: f, org: org.OrgID}
	one.account = f.Account(t, one.org)
	one.conversation = f.Conversation(t, one.org, one.account)
	return one
}

// Each message has all that hangs on it, an event with a delivery and an attempt, and a delivery of a replay that was made now.
const sqlSay = `-- locks: own rows
WITH given AS MATERIALIZED (
    SELECT ulid(@at::timestamptz) AS id, @mark || n AS mark FROM generate_series(1, @count::int) AS n
), said AS (
    INSERT INTO messages (org_id, id, account_id, conversation_id, contact_id, direction, type, source, content)
    SELECT @org_id, id, @account, @conversation, @contact, 'inbound', 'text', 'phone', '{}' FROM given
), states AS (
    INSERT INTO message_states (org_id, id, status, provider_id, second_provider_id, edit_history, media_state, media_key)
    SELECT @org_id, id, 'read', mark, mark || '-second', json_build_array(json_build_object('id', mark || '-edit')), 'ready', @key
    FROM given
), tries AS (
    INSERT INTO send_attempts (org_id, message_id, attempt, begun_at, ended_at, outcome)
    SELECT @org_id, id, 1, @at, @at, 'failed' FROM given
), named AS (
    INSERT INTO provider_messages (org_id, provider_id, message_id)
    SELECT @org_id, mark || part, id FROM given, unnest(ARRAY['', '-second', '-edit']) AS part
), recorded AS (
    INSERT INTO events (org_id, id, key, type, audience, body) SELECT @org_id, id, mark, 'message.received', 'public', '{}' FROM given
), delivered AS (
    INSERT INTO webhook_deliveries (org_id, id, subscription_id, event_id, event_key, event_type, status)
    SELECT @org_id, delivery, @conversation, id, mark, 'message.received', 'dead'
    FROM given, unnest(ARRAY[id, ulid(@now::timestamptz)]) AS delivery
)
INSERT INTO webhook_attempts (org_id, id, delivery_id, attempt, duration_ms)
SELECT @org_id, ulid(@at::timestamptz + interval '1 hour'), id, 1, 1 FROM given`

// say stores messages of that age, and returns the key of their file.
func (o *tenant) say(t *testing.T, age time.Duration, count int) (key string) {
	t.Helper()
	sum := sha256.Sum256([]byte(o.org.String() + age.String()))
	key = base64.RawURLEncoding.EncodeToString(sum[:])
	_, err := o.Files.Put(t.Context(), key, bucket.File{ContentType: "image/png"}, strings.NewReader("a file"))
	require.NoError(t, err)
	o.exec(t, sqlSay, postgres.Args{
		"at": o.World.Clock.Now().Add(-age), "now": o.World.Clock.Now(), "count": count, "account": o.account.ID,
		"conversation": o.conversation.ID, "contact": o.conversation.ContactID, "key": key, "mark": mark(age),
	})
	o.exec(t, `UPDATE conversations SET last_message_id = (SELECT max(id::text)::uuid FROM messages WHERE org_id = @org_id)
		WHERE org_id = @org_id AND id = @id`, postgres.Args{"id": o.conversation.ID})
	return key
}

func mark(age time.Duration) string { return fmt.Sprintf("%d-", age/day) }

func (o *tenant) exec(t *testing.T, sql string, args postgres.Args) {
	t.Helper()
	_, err := postgres.InTx(t.Context(), o.DB, o.org, func(tx *postgres.Tx) (int64, error) { return tx.Exec(t.Context(), sql, args) })
	require.NoError(t, err)
}

// tables are those with a row for each message, and how many rows one message has.
func tables() map[string]int {
	return map[string]int{
		"messages": 1, "message_states": 1, "send_attempts": 1, "provider_messages": 3, "events": 1, "webhook_deliveries": 2,
		"webhook_attempts": 1,
	}
}

// requireLeft requires that this many messages are left, with all that hangs on them, and this many events.
func (o *tenant) requireLeft(t *testing.T, messages, events int) {
	t.Helper()
	for table, each := range tables() {
		sql, want := `SELECT count(*) FROM `+table+` WHERE org_id = @org_id`, messages
		if table == "events" || strings.HasPrefix(table, "webhook") {
			want = events
		}
		if table == "events" {
			sql += ` AND type = 'message.received'`
		}
		rows, err := postgres.One[int](t.Context(), o.DB.Of(o.org), sql, nil)
		require.NoError(t, err)
		require.Equal(t, want*each, rows, table)
	}
}

// stored tells whether the bucket has a file.
func (f *fixture) stored(t *testing.T, key string) bool {
	t.Helper()
	return f.Files.Exists(t.Context(), key) == nil
}

// files uploads a file to the library and lets every message carry it, and returns its key.
func (o *tenant) files(t *testing.T) string {
	t.Helper()
	teams, err := postgres.Many[orgs.TeamID](t.Context(), o.DB.Of(o.org), `SELECT id FROM teams WHERE org_id = @org_id`, nil)
	require.NoError(t, err)
	key := "library-file-of-a-message-that-has-expired"
	_, err = o.Files.Put(t.Context(), key, bucket.File{ContentType: "image/png"}, strings.NewReader("a file"))
	require.NoError(t, err)
	o.exec(t, `INSERT INTO library_files (org_id, id, team_id, type, mime_type, size, key)
		VALUES (@org_id, ulid(@now), @team, 'image', 'image/png', 1, @key)`,
		postgres.Args{"now": o.World.Clock.Now(), "team": teams[0], "key": key})
	o.exec(t, `UPDATE message_states SET media_key = @key WHERE org_id = @org_id AND provider_id LIKE '%7'`, postgres.Args{"key": key})
	return key
}

// points tells whether the conversation names its last message.
func (o *tenant) points(t *testing.T) bool {
	t.Helper()
	named, err := postgres.One[bool](t.Context(), o.DB.Of(o.org),
		`SELECT last_message_id IS NOT NULL FROM conversations WHERE org_id = @org_id AND id = @id`, postgres.Args{"id": o.conversation.ID})
	require.NoError(t, err)
	return named
}

// waiting tells whether a job waits for its time.
func (f *fixture) waiting(t *testing.T) bool {
	t.Helper()
	found, err := postgres.One[bool](t.Context(), f.DB.System("test"),
		`SELECT EXISTS (SELECT FROM `+jobs.Table+` WHERE kind = 'retention' AND state = 'scheduled')`, nil)
	require.NoError(t, err)
	return found
}
