package messages_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/testkit/apitest"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/proof"
	"github.com/parley-chat/parley/schema"
)

// What happened to each message of a population, whose number is in its provider's id. A tenth had two attempts that failed. Each has
// two events with one delivery each. A twentieth of the deliveries is dead after ten attempts and was replayed.
const (
	sqlLogged = `
INSERT INTO api_log (org_id, id, key_id, method, path, route, status, code, duration_us, user_agent, replayed)
SELECT org_id, id, id, 'POST', '/v1/100000000000001/messages', '/{phone_number_id}/messages', 202, '', 4000, 'curl/8', false
FROM messages WHERE org_id = $1`
	sqlTried = `
INSERT INTO send_attempts (org_id, message_id, attempt, begun_at, ended_at, outcome, error_code, provider_code)
SELECT org_id, id, n, $2::timestamptz, $2::timestamptz + interval '100 ms', 'failed', 'app_rate_limited', 130429
FROM message_states CROSS JOIN generate_series(1, 2) AS n
WHERE org_id = $1 AND substr(provider_id, 7)::int % 10 = 3`
	sqlHappened = `
INSERT INTO events (org_id, id, key, type, audience, message_id, body)
SELECT org_id, ulid($2::timestamptz + substr(provider_id, 7)::int * $3::interval + n * interval '1 second'), provider_id, 'message.status',
       'public', id, convert_to('{"entry":[{"changes":[{"value":{"statuses":[{"id":"' || provider_id || '","status":"delivered",
"timestamp":"1773480000","recipient_id":"351910000001","conversation":{"id":"0123456789abcdef","origin":{"type":"utility"}}}]}}]}]}', 'UTF8')
FROM message_states CROSS JOIN generate_series(1, 2) AS n
WHERE org_id = $1`
	sqlDelivered = `
INSERT INTO webhook_deliveries
    (org_id, id, subscription_id, event_id, event_key, event_type, status, troubled, attempt_count, last_attempt_at, response_status, duration_ms)
SELECT org_id, ulid(timestamptz 'epoch' + ('x' || substr(replace(id::text, '-', ''), 1, 12))::bit(48)::bigint * interval '1 ms'), $2, id, key, type,
       CASE WHEN dead THEN 'dead' ELSE 'succeeded' END, dead, CASE WHEN dead THEN 10 ELSE 1 END, $3, CASE WHEN dead THEN 500 ELSE 200 END, 20
FROM (SELECT org_id, id, key, type, hashtext(id::text) % 20 = 0 AS dead FROM events WHERE org_id = $1) AS e`
	sqlReplayed = `
INSERT INTO webhook_deliveries
    (org_id, id, subscription_id, event_id, event_key, event_type, status, attempt_count, last_attempt_at, response_status, duration_ms, replayed_from)
SELECT org_id, ulid($2::timestamptz), subscription_id, event_id, event_key, event_type, 'succeeded', 1, $2, 200, 20, id
FROM webhook_deliveries WHERE org_id = $1 AND troubled`
	sqlDeliveryTried = `
INSERT INTO webhook_attempts (org_id, id, delivery_id, attempt, response_status, duration_ms, error_code)
SELECT org_id, ulid($2::timestamptz - (10 - n) * interval '1 second'), id, n, 500, 20, 'status'
FROM webhook_deliveries CROSS JOIN generate_series(1, 10) AS n
WHERE org_id = $1 AND troubled`
)

// told is a population in whose timelines something happened, behind the API.
type told struct {
	*population

	server *apitest.Server
	key    string
	client http.Client
}

func newTold(t *testing.T, size int) *told {
	t.Helper()
	server := apitest.New(t)
	d := &database{World: server.World, url: server.DatabaseURL(server.Name), asked: &lastStatement{}}
	var err error
	d.sql, err = pgx.Connect(t.Context(), d.url)
	require.NoError(t, err)
	t.Cleanup(func() { // the check for secrets would read all rows
		_, err := d.sql.Exec(context.WithoutCancel(t.Context()),
			`TRUNCATE messages, message_states, api_log, send_attempts, events, webhook_deliveries, webhook_attempts`)
		require.NoError(t, err)
		_ = d.sql.Close(context.WithoutCancel(t.Context()))
	})
	began := pgtest.Start().Add(-time.Duration(size+100) * time.Second)
	for day := began; day.Before(pgtest.Start()); day = day.AddDate(0, 0, 1) {
		require.NoError(t, d.DB.EnsurePartitions(t.Context(), schema.Partitioned(), day))
	}
	p := &told{population: d.populate(t, size, began, time.Second), server: server}
	_, p.key = d.Key(t, p.org)
	subscription, err := d.Webhooks.Create(t.Context(), p.org, audit.Operator(), webhooks.Draft{
		URL: "https://hooks.example/", Events: []events.Type{events.MessageSent},
	})
	require.NoError(t, err)
	now := pgtest.Start()
	d.run(t, sqlLogged, p.org)
	d.run(t, sqlTried, p.org, now)
	d.run(t, sqlHappened, p.org, began, time.Second)
	d.run(t, sqlDelivered, p.org, subscription.ID, now)
	d.run(t, sqlDeliveryTried, p.org, now)
	d.run(t, sqlReplayed, p.org, now)
	d.vacuum(t)
	for _, table := range []string{"api_log", "send_attempts", "events", "webhook_deliveries", "webhook_attempts"} {
		d.run(t, `VACUUM (ANALYZE) `+table)
	}
	return p
}

const (
	sqlAny = `
SELECT id FROM messages WHERE org_id = $1 ORDER BY hashtext(id::text) LIMIT $2`
	sqlTroubled = `
SELECT e.message_id FROM webhook_deliveries d JOIN events e ON e.org_id = $1 AND e.id = d.event_id
WHERE d.org_id = $1 AND d.troubled ORDER BY hashtext(d.id::text) LIMIT $2`
)

// choose returns messages at random.
func (p *told) choose(t *testing.T, count int, sql string) []messages.ID {
	t.Helper()
	rows, err := p.sql.Query(t.Context(), sql, p.org, count)
	require.NoError(t, err)
	chosen, err := pgx.CollectRows(rows, pgx.RowTo[messages.ID])
	require.NoError(t, err)
	require.NotEmpty(t, chosen)
	return chosen
}

func (p *told) path(id messages.ID) string {
	return "/" + *p.account.PhoneNumberID + "/messages/" + id.String() + "/timeline?limit=100"
}

// measure fetches timelines over HTTP one after the other and returns how long each took.
func (p *told) measure(t *testing.T, of []messages.ID) (took []time.Duration) {
	t.Helper()
	for _, id := range of {
		p.server.Clock.Move(5 * time.Millisecond) // the rate limit
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.server.URL+"/v1"+p.path(id), nil)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+p.key)
		began := time.Now()
		response, err := p.client.Do(request)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		took = append(took, time.Since(began))
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, 200, response.StatusCode, "%s", body)
	}
	return took
}

// requireWhole compares the entries of a timeline with counts by SQL.
func (p *told) requireWhole(t *testing.T, id messages.ID) {
	t.Helper()
	answer := p.server.Anonymous().WithKey(p.key).Get(t, p.path(id))
	require.Equal(t, 200, answer.Status, "%s", answer.Body)
	got := map[any]int{}
	for _, one := range answer.List(t) {
		got[one["kind"]]++
	}
	var attempts, recorded, delivered, tried int
	require.NoError(t, p.sql.QueryRow(t.Context(), `
WITH e AS MATERIALIZED (SELECT id, key FROM events WHERE org_id = $1 AND message_id = $2), d AS MATERIALIZED (
    SELECT d.id FROM webhook_deliveries d JOIN e ON e.id = d.event_id WHERE d.org_id = $1 AND d.event_key = ANY (ARRAY(SELECT key FROM e))
)
SELECT (SELECT count(*) FROM send_attempts WHERE org_id = $1 AND message_id = $2), (SELECT count(*) FROM e), (SELECT count(*) FROM d),
       (SELECT count(*) FROM webhook_attempts WHERE org_id = $1 AND delivery_id = ANY (ARRAY(SELECT id FROM d)))`, p.org, id).
		Scan(&attempts, &recorded, &delivered, &tried))
	want := map[any]int{"request": 1, "accepted": 1, "event": recorded, "delivery": delivered + tried}
	if attempts > 0 {
		want["attempt"] = attempts
	}
	if got["status"] > 0 { // only outbound messages have one
		want["status"] = 1
	}
	require.Equal(t, want, got)
	require.Empty(t, answer.JSON(t)["left_out"])
}

// TestTimelines_AmongAMillion_Within20ms fetches timelines of messages of one account, over HTTP: any messages, and those with a dead webhook
// delivery. In CI it compares a few among a thousand messages with SQL.
func TestTimelines_AmongAMillion_Within20ms(t *testing.T) { //nolint:paralleltest // measures
	const most = 20 * time.Millisecond
	began := time.Now()
	p := newTold(t, proof.Sized(1_000, 1_000_000))
	t.Logf("loaded in %s", time.Since(began).Round(time.Second))
	for _, id := range append(p.choose(t, 20, sqlAny), p.choose(t, 10, sqlTroubled)...) {
		p.requireWhole(t, id)
	}
	if !proof.Full() {
		return
	}
	for name, chosen := range map[string][]messages.ID{"any": p.choose(t, 3_000, sqlAny), "troubled": p.choose(t, 1_000, sqlTroubled)} {
		took := p.measure(t, chosen)
		p50, p99 := percentile(took, 50), percentile(took, 99)
		t.Logf("%s: %d timelines, p50 %s, p99 %s, slowest %s", name, len(took), p50.Round(time.Microsecond), p99.Round(time.Microsecond),
			took[len(took)-1].Round(time.Microsecond))
		require.LessOrEqual(t, p99, most, name)
	}
}
