package messages_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

const (
	perContact = 100
	// The people have names of one length, so that the pages of all sizes have as many bytes.
	sqlPeople = `
INSERT INTO contacts (org_id, id, account_id, phone_number, name, name_key, marketing, updated_at)
SELECT $1, ulid($3::timestamptz), $2, '+3519' || lpad(n::text, 8, '0'), 'Person ' || lpad(n::text, 8, '0'), 'person ' || lpad(n::text, 8, '0'), 'unknown', $3
FROM generate_series(1, $4::int) AS n`
	sqlThreads = `
INSERT INTO conversations (org_id, id, account_id, contact_id, status, unread_count, last_message_at, updated_at)
SELECT org_id, ulid($2::timestamptz), account_id, id, 'open', 0, $2, $2 FROM contacts WHERE org_id = $1`
	// Of a hundred messages ten are images and one is an audio, and one has failed. The id of the request is that of the message.
	sqlSaid = `
WITH threads AS MATERIALIZED (
    SELECT id, contact_id, row_number() OVER (ORDER BY contact_id) - 1 AS n FROM conversations WHERE org_id = $1
), said AS MATERIALIZED (
    SELECT n, ulid($3::timestamptz + n * $5::interval) AS id FROM generate_series(1, $4::int) AS n
), made AS (
    INSERT INTO messages (org_id, id, account_id, conversation_id, contact_id, direction, type, source, request_id, to_number, content)
    SELECT $1, s.id, $2, t.id, t.contact_id, CASE WHEN hashint4(s.n) % 2 = 0 THEN 'inbound' ELSE 'outbound' END,
        CASE WHEN s.n % 100 = 7 THEN 'audio' WHEN s.n % 10 = 3 THEN 'image' ELSE 'text' END, 'api', s.id, '+351910000001',
        '{"body":"Your order is ready, come by until six in the evening."}'
    FROM said s
    JOIN threads t ON t.n = abs(hashint4(s.n * 31)) % $6::int
)
INSERT INTO message_states (org_id, id, status, provider_id, sent_at)
SELECT $1, id, CASE WHEN n % 100 = 11 THEN 'failed' WHEN n % 2 = 0 THEN 'read' ELSE 'delivered' END, 'wamid.' || n, $3 FROM said`
)

// database is one in which populations are made.
type database struct {
	*factory.World

	url   string
	sql   *pgx.Conn
	asked *lastStatement
}

// population is an account with many messages.
type population struct {
	*database

	org     orgs.ID
	account accounts.Account
	size    int
	// began is the time of the first message, every the time between two.
	began time.Time
	every time.Duration
	// Some of its messages, with their conversations and contacts.
	some          []messages.ID
	conversations []conversations.ID
	contacts      []contacts.ID
}

// lastStatement keeps the last statement that read messages.
type lastStatement struct {
	sql  string
	args []any
}

func (l *lastStatement) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if !strings.Contains(data.SQL, "FROM messages m") {
		return ctx
	}
	l.sql, l.args = data.SQL, data.Args
	if named, is := data.Args[0].(pgx.QueryRewriter); is {
		l.sql, l.args, _ = named.RewriteQuery(ctx, conn, data.SQL, nil) // it never fails
	}
	return ctx
}

func (l *lastStatement) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (l *lastStatement) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (l *lastStatement) TraceBatchQuery(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchQueryData) {
	l.TraceQueryStart(ctx, conn, pgx.TraceQueryStartData{SQL: data.SQL, Args: data.Args})
}

func (l *lastStatement) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func newDatabase(t *testing.T) *database {
	t.Helper()
	d := &database{url: pgtest.URL(t), asked: &lastStatement{}}
	db, err := postgres.Open(t.Context(), postgres.Config{
		URL: d.url, Name: "populations", MaxConns: 4, StatementTimeout: 5 * time.Minute, Tracers: []pgx.QueryTracer{d.asked},
	})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	d.World = factory.On(t, db)
	d.sql, err = pgx.Connect(t.Context(), d.url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.sql.Close(context.WithoutCancel(t.Context())) })
	return d
}

// populate makes an organization with one account and its messages.
func (d *database) populate(t *testing.T, size int, began time.Time, every time.Duration) *population {
	t.Helper()
	p := &population{database: d, size: size, began: began, every: every}
	p.org, _ = d.Org(t)
	p.account = d.Account(t, p.org)
	people := max(1, size/perContact)
	d.run(t, sqlPeople, p.org, p.account.ID, p.began, people)
	d.run(t, sqlThreads, p.org, p.began)
	d.run(t, sqlSaid, p.org, p.account.ID, p.began, size, every, people)
	rows, err := d.sql.Query(t.Context(), `
SELECT id, conversation_id, contact_id FROM messages WHERE org_id = $1 ORDER BY hashtext(id::text) LIMIT 500`, p.org)
	require.NoError(t, err)
	var one struct {
		id   messages.ID
		of   conversations.ID
		with contacts.ID
	}
	_, err = pgx.ForEachRow(rows, []any{&one.id, &one.of, &one.with}, func() error {
		p.some, p.conversations, p.contacts = append(p.some, one.id), append(p.conversations, one.of), append(p.contacts, one.with)
		return nil
	})
	require.NoError(t, err)
	return p
}

// vacuum collects the statistics of the planner, and sets the visibility map, so that index-only scans do not
// read the table.
func (d *database) vacuum(t *testing.T) {
	t.Helper()
	for _, table := range []string{"contacts", "conversations", "messages", "message_states"} {
		d.run(t, `VACUUM (ANALYZE) `+table)
	}
}

func (d *database) run(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := d.sql.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// explain runs the last statement again as a list does, with one plan for all arguments, and returns that
// plan without the partitions that it did not read.
func (d *database) explain(t *testing.T) string {
	t.Helper()
	tx, err := d.sql.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	run := func(sql string) {
		_, err := tx.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
	}
	run(`SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_seqscan = off; PREPARE listed AS ` + d.asked.sql)
	described, err := d.sql.Prepare(t.Context(), "", d.asked.sql)
	require.NoError(t, err)
	values := make([]string, len(described.ParamOIDs))
	for i, oid := range described.ParamOIDs {
		text, err := d.sql.TypeMap().Encode(oid, pgx.TextFormatCode, d.asked.args[i], nil)
		require.NoError(t, err)
		values[i] = "'" + string(text) + "'"
	}
	rows, err := tx.Query(t.Context(), `EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) EXECUTE listed (`+strings.Join(values, ", ")+`)`,
		pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	run(`DEALLOCATE listed`)
	var shown []string
	for i := 0; i < len(lines); i++ {
		if strings.Contains(lines[i], "(never executed)") {
			for i+1 < len(lines) && !strings.Contains(lines[i+1], "->") {
				i++
			}
			continue
		}
		shown = append(shown, lines[i])
	}
	return strings.Join(shown, "\n")
}

// question is a list with values for its filter, and a condition in SQL that means the same.
type question struct {
	filter messages.Filter
	after  *messages.ID
	sql    string
	args   []any
}

func (p *population) at(share float64) time.Time {
	return p.began.Add(time.Duration(share * float64(p.size) * float64(p.every))).Truncate(time.Millisecond)
}

// questions are the lists that are measured. Each call has other random values.
func (p *population) questions() map[string]func() question {
	number := func() int { return rand.N(len(p.some)) }
	early, middle, late := p.at(0.3), p.at(0.5), p.at(1-20/float64(p.size))
	return map[string]func() question{
		"no filter": func() question { return question{sql: `true`} },
		"deep page": func() question {
			i := number()
			return question{after: &p.some[i], sql: `m.id < $2`, args: []any{p.some[i]}}
		},
		"conversation_id": func() question {
			i := number()
			return question{filter: messages.Filter{ConversationID: &p.conversations[i]}, sql: `m.conversation_id = $2`, args: []any{p.conversations[i]}}
		},
		"contact_id": func() question {
			i := number()
			return question{filter: messages.Filter{ContactID: &p.contacts[i]}, sql: `m.contact_id = $2`, args: []any{p.contacts[i]}}
		},
		"both": func() question {
			i := number()
			return question{
				filter: messages.Filter{ConversationID: &p.conversations[i], ContactID: &p.contacts[i]}, sql: `m.contact_id = $2`, args: []any{p.contacts[i]},
			}
		},
		"conversation_id, status": func() question {
			i := number()
			return question{
				filter: messages.Filter{ConversationID: &p.conversations[i], Status: messages.Failed},
				sql:    `m.conversation_id = $2 AND st.status = 'failed'`, args: []any{p.conversations[i]},
			}
		},
		"direction": func() question {
			return question{filter: messages.Filter{Direction: messages.Inbound}, sql: `m.direction = 'inbound'`}
		},
		"status, frequent": func() question {
			return question{filter: messages.Filter{Status: messages.Read}, sql: `st.status = 'read'`}
		},
		"status, rare": func() question {
			return question{filter: messages.Filter{Status: messages.Failed}, sql: `st.status = 'failed'`}
		},
		"status, none": func() question {
			return question{filter: messages.Filter{Status: messages.Queued}, sql: `st.status = 'queued'`}
		},
		"type, frequent": func() question { return question{filter: messages.Filter{Type: "text"}, sql: `m.type = 'text'`} },
		"type, rare":     func() question { return question{filter: messages.Filter{Type: "audio"}, sql: `m.type = 'audio'`} },
		"type, none":     func() question { return question{filter: messages.Filter{Type: "sticker"}, sql: `m.type = 'sticker'`} },
		"created_after, a few": func() question {
			return question{filter: messages.Filter{CreatedAfter: &late}, sql: `m.id > ulid_of($2, true)`, args: []any{late}}
		},
		"created_after, half": func() question {
			return question{filter: messages.Filter{CreatedAfter: &middle}, sql: `m.id > ulid_of($2, true)`, args: []any{middle}}
		},
		"created_before": func() question {
			return question{filter: messages.Filter{CreatedBefore: &middle}, sql: `m.id < ulid_of($2, false)`, args: []any{middle}}
		},
		"created_after and before, type": func() question {
			return question{
				filter: messages.Filter{CreatedAfter: &early, CreatedBefore: &middle, Type: "audio"},
				sql:    `m.id > ulid_of($2, true) AND m.id < ulid_of($3, false) AND m.type = 'audio'`, args: []any{early, middle},
			}
		},
	}
}

// ask reads one page.
func (p *population) ask(t *testing.T, q question) paging.Page[messages.Message, messages.ID] {
	t.Helper()
	page, err := p.Messages.List(t.Context(), p.org, p.account, q.filter, paging.Slice[messages.ID]{Limit: 25, After: q.after})
	require.NoError(t, err)
	return page
}

// requireAll compares all pages of a list with a count by SQL.
func (p *population) requireAll(t *testing.T, name string, q question) {
	t.Helper()
	p.run(t, `CREATE OR REPLACE FUNCTION pg_temp.ulid_of(at timestamptz, after boolean) RETURNS uuid LANGUAGE sql AS $$
SELECT (lpad(to_hex(floor(extract(epoch FROM at) * 1000)::bigint + CASE WHEN after THEN 1 ELSE 0 END), 12, '0') || repeat('0', 20))::uuid $$`)
	var wanted int
	require.NoError(t, p.sql.QueryRow(t.Context(), `
SELECT count(*) FROM messages m JOIN message_states st USING (org_id, id) WHERE m.org_id = $1 AND `+
		strings.ReplaceAll(q.sql, "ulid_of", "pg_temp.ulid_of"), append([]any{p.org}, q.args...)...).Scan(&wanted))
	seen := map[messages.ID]bool{}
	var last *messages.ID
	for {
		page := p.ask(t, q)
		for _, one := range page.Items {
			require.True(t, last == nil || one.ID.Any().Compare(last.Any()) < 0, "%s: newest first", name)
			last = &one.ID
			seen[one.ID] = true
		}
		if q.after = page.Next; q.after == nil {
			break
		}
	}
	require.Len(t, seen, wanted, name)
}

// timed is the median and the 99th percentile of durations, and the mean number of messages.
type timed struct {
	p50, p99 time.Duration
	rows     float64
}

// fetch is the question that is no list.
const fetch = "fetch"

// slower prints how long the questions take of a small population and of a large one, and returns
// those that take more than 1.5 times as long of the large one. What seems slow is asked again, more often: among some
// fifty comparisons one exceeds the limit by chance.
func slower(t *testing.T, small, large *population) []string {
	t.Helper()
	all := append(slices.Sorted(maps.Keys(small.questions())), fetch)
	compare(t, 1, all, small, large)
	late := printSlower(t, all, compare(t, 5, all, small, large))
	if len(late) == 0 {
		return nil
	}
	return printSlower(t, late, compare(t, 25, late, small, large))
}

func printSlower(t *testing.T, names []string, took map[string][]timed) (late []string) {
	t.Helper()
	t.Logf("%-32s %10s %10s %6s %6s   %s", "p99", "of small", "of large", "ratio", "of p50", "messages in an answer")
	for _, name := range names {
		alone, in := took[name][0], took[name][1]
		ratio := float64(in.p99) / float64(alone.p99)
		t.Logf("%-32s %10s %10s %6.2f %6.2f   %.1f, %.1f", name, alone.p99.Round(time.Microsecond), in.p99.Round(time.Microsecond),
			ratio, float64(in.p50)/float64(alone.p50), alone.rows, in.rows)
		if ratio > 1.5 {
			late = append(late, name)
		}
	}
	return late
}

// compare asks all populations in turn, so that other work on the machine slows all of them alike. The
// result is the median of several rounds. A round has so many answers that its p99 is not the slowest of them: that one
// tells of the machine, unless all take long.
func compare(t *testing.T, rounds int, questions []string, populations ...*population) map[string][]timed {
	t.Helper()
	all := map[string][]timed{}
	for _, name := range questions {
		halves, slowest := make([][]time.Duration, len(populations)), make([][]time.Duration, len(populations))
		rows, times := make([]int, len(populations)), 120
		if strings.HasSuffix(name, "rare") || strings.HasSuffix(name, "none") {
			times = 20 // each reads up to paging.MaxRead rows, so a disturbance of a millisecond is a small part of it
		}
		for range rounds {
			took := make([][]time.Duration, len(populations))
			for range times {
				for i, p := range populations {
					began := time.Now()
					if name == fetch {
						_, err := p.Messages.Get(t.Context(), p.org, p.account, p.some[rand.N(len(p.some))])
						require.NoError(t, err)
						rows[i]++
					} else {
						rows[i] += len(p.ask(t, p.questions()[name]()).Items)
					}
					took[i] = append(took[i], time.Since(began))
				}
			}
			for i := range populations {
				halves[i], slowest[i] = append(halves[i], percentile(took[i], 50)), append(slowest[i], percentile(took[i], 99))
			}
		}
		for i := range populations {
			all[name] = append(all[name], timed{
				p50: percentile(halves[i], 50), p99: percentile(slowest[i], 50), rows: float64(rows[i]) / float64(rounds*times),
			})
		}
	}
	return all
}

func percentile(of []time.Duration, percent int) time.Duration {
	slices.Sort(of)
	return of[len(of)*percent/100]
}
