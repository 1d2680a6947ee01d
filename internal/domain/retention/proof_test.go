package retention_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/domain/messages/content"
	"github.com/parley-chat/parley/internal/domain/retention"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/proof"
	"github.com/parley-chat/parley/schema"
)

// One message in ten has an event, one in twenty a file. A conversation has a hundred messages.
const (
	sqlHistoryPeople = `
WITH made AS (
    INSERT INTO contacts (org_id, id, account_id, phone_number, marketing, updated_at)
    SELECT $1, ulid($3::timestamptz), $2, '+3518' || lpad(n::text, 8, '0'), 'unknown', $3 FROM generate_series(1, $4::int) AS n
    RETURNING id
)
INSERT INTO conversations (org_id, id, account_id, contact_id, status, unread_count, last_message_at, updated_at)
SELECT $1, ulid($3::timestamptz), $2, id, 'open', 1, $3, $3 FROM made`
	sqlHistory = `
WITH threads AS MATERIALIZED (
    SELECT id, contact_id, row_number() OVER (ORDER BY id) - 1 AS n FROM conversations WHERE org_id = $1
), given AS MATERIALIZED (
    SELECT n, ulid($3::timestamptz + n * interval '1 second') AS id FROM generate_series($4::int, $5::int) AS n
), said AS (
    INSERT INTO messages (org_id, id, account_id, conversation_id, contact_id, direction, type, source, to_number, content)
    SELECT $1, g.id, $2, t.id, t.contact_id, 'inbound', 'text', 'phone', '+351910000001',
        '{"body":"Your order is ready, come by until six in the evening."}'
    FROM given g
    JOIN threads t ON t.n = g.n % (SELECT count(*) FROM threads)
), states AS (
    INSERT INTO message_states (org_id, id, status, provider_id, sent_at, media_key)
    SELECT $1, id, 'read', 'wamid.' || md5(id::text), $3, CASE WHEN n % 20 = 0 THEN md5(id::text) END FROM given
), named AS (
    INSERT INTO provider_messages (org_id, provider_id, message_id) SELECT $1, 'wamid.' || md5(id::text), id FROM given
)
INSERT INTO events (org_id, id, key, type, audience, message_id, body)
SELECT $1, id, id::text, 'message.received', 'public', id, convert_to(repeat('a', 800), 'UTF8') FROM given WHERE n % 10 = 0`
)

// history stores that many messages of a tenant, one a second from a time on.
func (o *tenant) history(t *testing.T, sql *pgx.Conn, from time.Time, size int) {
	t.Helper()
	const portion = 50_000
	_, err := sql.Exec(t.Context(), sqlHistoryPeople, o.org, o.account.ID, from, max(1, size/100))
	require.NoError(t, err)
	for first := 0; first < size; first += portion {
		_, err := sql.Exec(t.Context(), sqlHistory, o.org, o.account.ID, from, first, min(first+portion, size)-1)
		require.NoError(t, err)
	}
	_, err = sql.Exec(t.Context(), `
		UPDATE conversations c SET last_message_id = m.id
		FROM (SELECT conversation_id, max(id::text)::uuid AS id FROM messages WHERE org_id = $1 GROUP BY 1) m
		WHERE c.org_id = $1 AND c.id = m.conversation_id`, o.org)
	require.NoError(t, err)
}

// slowest keeps how long the longest statement took.
type slowest struct {
	mu   sync.Mutex
	took time.Duration
}

// reset returns the time of the longest statement so far, and begins anew.
func (s *slowest) reset() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := s.took
	s.took = 0
	return took
}

type beganKey struct{}

func (s *slowest) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, beganKey{}, time.Now())
}

func (s *slowest) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if began, is := ctx.Value(beganKey{}).(time.Time); is {
		s.mu.Lock()
		s.took = max(s.took, time.Since(began))
		s.mu.Unlock()
	}
}

// pools opens a pool for requests and one for background work, as a process does.
func pools(t *testing.T, url string, live *slowest) (requests, work *postgres.DB) {
	t.Helper()
	open := func(config postgres.Config) *postgres.DB {
		config.URL, config.Name, config.AcquireWait = url, t.Name(), 10*time.Second
		config.Enter, config.EnterAll = schema.EnterOrganization, schema.EnterAll()
		db, err := postgres.Open(t.Context(), config)
		require.NoError(t, err)
		t.Cleanup(db.Close)
		return db
	}
	return open(postgres.Config{MaxConns: 16, Tracers: []pgx.QueryTracer{live}}), open(postgres.Config{MaxConns: 12, Steady: true})
}

type measured struct {
	rate float64
	p99  time.Duration
}

// load sends, lists and fetches messages of tenants with 8 clients, pace requests a second (0: as many as possible), until the
// context ends. Each client asks at least once.
func load(ctx context.Context, t *testing.T, pace float64, tenants ...*tenant) measured {
	t.Helper()
	hello, err := content.Parse(provider.TypeText, json.RawMessage(`{"body":"Hello"}`))
	require.NoError(t, err)
	var took []time.Duration
	var mu sync.Mutex
	var next atomic.Int64
	var running sync.WaitGroup
	began := time.Now()
	for range 8 {
		running.Go(func() {
			for first := true; first || ctx.Err() == nil; first = false {
				n := next.Add(1)
				due := time.Now()
				if pace > 0 {
					due = began.Add(time.Duration(float64(n) / pace * float64(time.Second)))
					time.Sleep(time.Until(due))
				}
				if err := tenants[int(n)%len(tenants)].ask(t.Context(), n, hello); err != nil {
					t.Errorf("live traffic: %v", err)
					return
				}
				mu.Lock()
				took = append(took, time.Since(due))
				mu.Unlock()
			}
		})
	}
	running.Wait()
	slices.Sort(took)
	return measured{rate: float64(len(took)) / time.Since(began).Seconds(), p99: took[len(took)*99/100]}
}

func (o *tenant) ask(ctx context.Context, n int64, hello content.Content) error {
	if n%4 < 2 {
		_, err := o.Messages.Send(ctx, o.org, o.account, messages.Terms{MonthlyLimit: 100_000_000},
			messages.Draft{To: fmt.Sprintf("+35191%07d", n%1000), Content: hello, Source: messages.FromAPI})
		return err
	}
	page, err := o.Messages.List(ctx, o.org, o.account, messages.Filter{}, paging.Slice[messages.ID]{Limit: 25})
	if err == nil && n%4 == 3 && len(page.Items) > 0 {
		_, err = o.Messages.Get(ctx, o.org, o.account, page.Items[0].ID)
	}
	return err
}

// Two million messages expire while others send and read: half row by row, half with their month. Retention works for half a
// minute, then rests for 10 s; the medians of their p99 are compared, because the host takes processor time now and then. `make
// proof-retention` measures at full size; otherwise it is small and checks only what is gone and what is left.
func TestRetention_MillionsExpire_LiveTrafficUndisturbed(t *testing.T) { //nolint:paralleltest // it measures
	size := proof.Sized(4_000, 2_000_000)
	if asked, err := strconv.Atoi(os.Getenv("PARLEY_PROOF_ROWS")); err == nil {
		size = asked
	}
	f := newFixtureOn(t, pgtest.URL(t))
	expiring, dropped, live := f.tenant(t, "free"), f.tenant(t, "platform"), f.tenant(t, "platform")
	now := f.World.Clock.Now()
	expiring.history(t, f.sql, now.Add(-7*day-time.Duration(size/2)*time.Second), size/2)
	dropped.history(t, f.sql, time.Date(now.Year()-1, now.Month()-1, 1, 0, 0, 0, 0, time.UTC), size/2)
	_, err := f.sql.Exec(t.Context(), `VACUUM (ANALYZE)`)
	require.NoError(t, err)
	t.Logf("%d messages are stored", size)

	span := func(of time.Duration) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), of)
		t.Cleanup(cancel)
		return ctx
	}
	capacity := load(span(proof.Sized(100*time.Millisecond, 5*time.Second)), t, 0, live, expiring).rate
	f.live.reset()
	require.NoError(t, f.retention.Start(t.Context()))
	var took time.Duration
	var alones, besides []time.Duration
	for !f.done(t) {
		alone := load(span(proof.Sized(200*time.Millisecond, 10*time.Second)), t, 0.3*capacity, live, expiring)
		began := time.Now()
		beside := f.loadBesideWork(t, 0.3*capacity, live, expiring)
		took += time.Since(began)
		alones, besides = append(alones, alone.p99), append(besides, beside.p99)
		t.Logf("round %d: p99 alone %s at %.0f/s, beside retention %s at %.0f/s", len(alones), alone.p99, alone.rate, beside.p99, beside.rate)
	}
	ratio, slow := median(besides).Seconds()/median(alones).Seconds(), f.live.reset()
	t.Logf("%d messages expired in %s (%.0f/s); capacity %.0f/s; slowest statement %s",
		size, took.Round(time.Millisecond), float64(size)/took.Seconds(), capacity, slow)
	t.Logf("p99 in the median of %d rounds: alone %s, beside retention %s (%.2f)", len(alones), median(alones), median(besides), ratio)
	for _, one := range []*tenant{expiring, dropped} {
		require.Zero(t, one.old(t, "messages"))
		require.Zero(t, one.old(t, "message_states"))
		require.Zero(t, one.count(t, `SELECT count(*) FROM provider_messages WHERE org_id = @org_id`))
		require.Equal(t, size/2/20, one.count(t, `SELECT count(*) FROM media_deletions WHERE org_id = @org_id`))
	}
	require.Zero(t, expiring.old(t, "events"))
	require.Positive(t, live.count(t, `SELECT count(*) FROM messages WHERE org_id = @org_id`))
	if proof.Full() {
		require.Less(t, slow, time.Second)
		require.LessOrEqual(t, ratio, 1.5)
	}
}

func median(of []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}

// loadBesideWork is load while retention works, for 30 seconds or until nothing is left to expire.
func (f *fixture) loadBesideWork(t *testing.T, pace float64, tenants ...*tenant) measured {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	defer f.work(t)()
	var beside measured
	var measuring sync.WaitGroup
	measuring.Go(func() { beside = load(ctx, t, pace, tenants...) })
	for ctx.Err() == nil && !f.done(t) {
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	measuring.Wait()
	return beside
}

// old counts rows that are older than any that live traffic wrote.
func (o *tenant) old(t *testing.T, table string) int {
	t.Helper()
	return o.count(t, `SELECT count(*) FROM `+table+` WHERE org_id = @org_id AND id < ulid('2026-03-07')`)
}

func (o *tenant) count(t *testing.T, sql string) int {
	t.Helper()
	rows, err := postgres.One[int](t.Context(), o.DB.Of(o.org), sql, nil)
	require.NoError(t, err)
	return rows
}

// newFixtureOn is a fixture with pools and turns as in a process.
func newFixtureOn(t *testing.T, url string) *fixture {
	t.Helper()
	f := &fixture{live: &slowest{}}
	requests, work := pools(t, url, f.live)
	f.World = factory.On(t, requests)
	behind := factory.On(t, work)
	f.makePartitions(t)
	f.retention = retention.New(retention.Deps{
		Work: work, Clock: f.World.Clock, Jobs: behind.Jobs, Messages: behind.Messages, Webhooks: behind.Webhooks, Logger: f.Logger,
	})
	f.workDB = work
	var err error
	f.sql, err = pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.sql.Close(context.WithoutCancel(t.Context())) })
	return f
}
