package cell_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/bucket"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/ratelimit"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/proc"
	"github.com/parley-chat/parley/schema"
)

// rowsOf has a row of a number for each table with personal data. $1 is the organization, $2 the number, $3 its
// phone_number_id, $4 a time, $5 a ULID, $6 the marker, $7 the generation.
func rowsOf() map[string]string {
	return map[string]string{
		"accounts":     ``, // it exists
		"contacts":     `INSERT INTO contacts (org_id, id, account_id, marketing, updated_at) VALUES ($1, $5, $2, 'unknown', $4)`,
		"contact_keys": `INSERT INTO contact_keys (org_id, account_id, key, contact_id, since) VALUES ($1, $2, 'k', $5, $4)`,
		"messages": `INSERT INTO messages (org_id, id, account_id, conversation_id, contact_id, direction, type, source)
			VALUES ($1, $5, $2, $5, $5, 'inbound', 'text', 'phone')`,
		"message_states":    `INSERT INTO message_states (org_id, id, status) VALUES ($1, $5, 'read')`,
		"provider_messages": `INSERT INTO provider_messages (org_id, provider_id, message_id) VALUES ($1, 'p', $5)`,
		"erased_messages":   `INSERT INTO erased_messages (org_id, hash, erased_at) VALUES ($1, '', $4)`,
		"parked_statuses": `INSERT INTO parked_statuses (org_id, provider_id, status, id, account_id, body, due_at)
			VALUES ($1, 'p', 'read', $5, $2, '', 'infinity')`,
		"receipts": `INSERT INTO receipts (org_id, id, account_id, provider_id, typing) VALUES ($1, $5, $2, 'p', false)`,
		"media_downloads": `INSERT INTO media_downloads (org_id, id, account_id, provider_media_id, url, mime_type, filename, key)
			VALUES ($1, $5, $2, 'p', 'u', 'm', 'f', 'k')`,
		"media_deletions": `INSERT INTO media_deletions (org_id, key, due_at) VALUES ($1, 'k', $4)`,
		"events": `INSERT INTO events (org_id, id, key, type, audience, phone_number_id, body, contact_id)
			VALUES ($1, $5, 'k', 'message.received', 'public', $3, '', $5)`,
		"webhook_deliveries": `INSERT INTO webhook_deliveries (org_id, id, subscription_id, event_id, event_key, event_type, status)
			VALUES ($1, $5, $5, $5, 'k', 'message.received', 'dead')`,
		"webhook_attempts": `INSERT INTO webhook_attempts (org_id, id, delivery_id, attempt, duration_ms) VALUES ($1, $5, $5, 1, 1)`,
		"callbacks":        `INSERT INTO callbacks (org_id, id, phone_number_id, generation, body) VALUES ($1, $5, $3, $7, '')`,
		"callback_items": `INSERT INTO callback_items (org_id, id, state, reason, field, phone_number_id, generation, body)
			VALUES ($1, $5, 'dead', 'r', 'f', $3, $7, '')`,
		"directory.quarantine": `INSERT INTO directory.quarantine (id, reason, phone_number_id, body) VALUES ($5, 'r', $3, $6)`,
		"api_log": `INSERT INTO api_log (org_id, id, key_id, method, path, route, status, code, duration_us, user_agent, replayed)
			VALUES ($1, $5, $5, 'GET', 'p', 'r', 200, '', 1, 'u', false)`,
		"idempotency_keys": `INSERT INTO idempotency_keys (org_id, key, created_at, fingerprint, answer) VALUES ($1, 'k', $4, '', '')`,
		"idempotency_leases": `INSERT INTO idempotency_leases (org_id, key, created_at, fingerprint, holder, expires_at)
			VALUES ($1, 'k', $4, '', $5, $4)`,
		"audit_log": `INSERT INTO audit_log (org_id, id, actor_kind, actor_id, action, target, detail)
			VALUES ($1, $5, 'user', $6, 'a', $6, jsonb_build_object('m', $6::text))`, // it refuses updates
	}
}

// planted is a number with a marker in everything personal that it has.
type planted struct {
	*factory.World

	sql     *pgx.Conn
	org     orgs.ID
	account accounts.Account
	mark    string
}

func plant(t *testing.T, w *factory.World, sql *pgx.Conn, mark string) *planted {
	t.Helper()
	p := &planted{World: w, sql: sql, mark: mark}
	p.org, _ = w.Org(t)
	p.account = w.Account(t, p.org)
	now := w.Clock.Now()
	var id string
	require.NoError(t, sql.QueryRow(t.Context(), `SELECT ulid($1)::text`, now).Scan(&id))
	rows := rowsOf()
	for _, one := range schema.Personal() { // parents stand before children
		if one.Number == schema.Stays || len(one.Personal) == 0 {
			continue
		}
		row, known := rows[one.Place]
		require.True(t, known, "a row of %s to plant", one.Place)
		for n, value := range []any{p.org.String(), p.account.ID.String(), *p.account.PhoneNumberID, now, id, mark, p.account.Generation} {
			row = strings.ReplaceAll(row, fmt.Sprintf("$%d", n+1), literal(value))
		}
		p.run(t, row)
		for _, column := range one.Personal {
			p.write(t, one.Place, column)
		}
	}
	_, err := w.Files.Put(t.Context(), mark, bucket.File{ContentType: "text/plain"}, strings.NewReader(mark))
	require.NoError(t, err)
	return p
}

func literal(value any) string {
	if at, is := value.(time.Time); is {
		value = at.Format(time.RFC3339Nano)
	}
	return fmt.Sprintf("'%v'", value)
}

func (p *planted) run(t *testing.T, sql string) {
	t.Helper()
	_, err := p.sql.Exec(t.Context(), sql)
	require.NoError(t, err, sql)
}

// write writes the marker into a column of the row, in the form of its type.
func (p *planted) write(t *testing.T, table, column string) {
	t.Helper()
	if table == "audit_log" || table == "directory.quarantine" {
		return // inserted with it
	}
	var kind string
	require.NoError(t, p.sql.QueryRow(t.Context(), `
		SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = $1::regclass AND attname = $2`, table, column).Scan(&kind))
	value := map[string]string{
		"text": literal(p.mark), "bytea": literal(p.mark), "json": `'[{"id":"` + p.mark + `"}]'`, "inet": `'203.0.113.7'`,
	}[kind]
	require.NotEmpty(t, value, "a marker of type %s", kind)
	p.run(t, fmt.Sprintf(`UPDATE %s SET %s = %s WHERE org_id = %s`, table, column, value, literal(p.org.String())))
}

// found counts the rows with the marker in each table, the files with it and the values in Redis.
func (p *planted) found(t *testing.T, store *redis.Client) map[string]int {
	t.Helper()
	count := map[string]int{}
	require.NoError(t, pgtest.EachRow(t.Context(), p.sql, func(row pgtest.Row) {
		if bytes.Contains(row.Text, []byte(p.mark)) {
			count[row.Table]++
		}
	}))
	require.NoError(t, filepath.WalkDir(p.FilesDir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if strings.Contains(path, p.mark) || bytes.Contains(content, []byte(p.mark)) {
			count["bucket"]++
		}
		return err
	}))
	keys, err := store.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	for _, key := range keys {
		value, err := store.Dump(t.Context(), key).Result()
		if err != nil && !errors.Is(err, redis.Nil) { // it has expired
			require.NoError(t, err)
		}
		if strings.Contains(key+value, p.mark) {
			count["redis"]++
		}
	}
	return count
}

// A disconnected number leaves nothing behind: its purge takes most, and the periods take the rest. Another organization keeps
// all that it has.
func TestPurge_MarkersInEveryPersonalColumn_NoneLeft(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	w, ctx := factory.On(t, pgtest.Connect(t, url)), t.Context()
	sql, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = sql.Close(context.WithoutCancel(ctx)) })
	gone, other := plant(t, w, sql, "MARKER-of-the-number-that-goes"), plant(t, w, sql, "SIGN-of-the-number-that-stays")
	store := limited(t, gone.org, other.org)
	planted := other.found(t, store)
	for _, one := range schema.Personal() {
		if one.Number != schema.Stays && len(one.Personal) > 0 {
			require.NotZero(t, planted[one.Place], one.Place)
		}
	}

	w.Work(t)
	_, err = w.Accounts.Disconnect(ctx, gone.org, audit.Operator(), *gone.account.PhoneNumberID, nil)
	require.NoError(t, err)
	w.Pass(t, 2*time.Minute)
	require.Eventually(t, func() bool {
		w.Wake(t)
		left, err := postgres.One[int](ctx, w.DB.Of(gone.org), `SELECT count(*) FROM accounts WHERE org_id = @org_id`, nil)
		return err == nil && left == 0
	}, 3*time.Minute, 20*time.Millisecond)
	left := gone.found(t, store)
	for _, one := range schema.Personal() {
		if one.Number == schema.Deleted {
			require.Zero(t, left[one.Place], "the purge takes %s", one.Place)
		}
	}
	kept := other.found(t, store)
	require.Equal(t, planted, kept, "the other organization lost nothing")

	for range 2 { // files are deleted at once and again
		_, err = w.Media.DeleteDue(ctx)
		require.NoError(t, err)
		w.Pass(t, time.Hour)
	}
	w.Pass(t, 435*day)
	require.NoError(t, w.DB.StoreRound(ctx, w.Clock.Now()), "an operator confirms the clock")
	expiry := postgres.NewExpiry(w.DB, schema.Partitioned())
	for dropped := []string{"some"}; len(dropped) > 0; {
		dropped, err = expiry.Round(ctx, w.Clock.Now(), 0)
		require.NoError(t, err)
	}
	require.NoError(t, w.Directory.ExpireQuarantine(ctx))
	require.NoError(t, w.Messages.ForgetErased(ctx, gone.org, w.Clock.Now().Add(-messages.ErasedFor)))
	require.Empty(t, gone.found(t, store))
}

const day = 24 * time.Hour

// limited starts Redis with the rate limits of organizations in it.
func limited(t *testing.T, all ...orgs.ID) *redis.Client {
	t.Helper()
	server := proc.NewRedis(t)
	client, err := ratelimit.Connect(server.URL(), time.Minute)
	require.NoError(t, err)
	limiter := ratelimit.New(ratelimit.Options{Redis: client, Clock: clock.NewSynced(), Budget: time.Minute})
	t.Cleanup(limiter.Close)
	for _, org := range all {
		for range 60 {
			limiter.Spend(t.Context(), org.String(), ratelimit.Limit{PerSecond: 1, Burst: 100})
		}
	}
	store := redis.NewClient(&redis.Options{Addr: server.Address})
	t.Cleanup(func() { _ = store.Close() })
	require.NotZero(t, store.DBSize(t.Context()).Val())
	return store
}
