package timeline_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/apilogs"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/domain/messages/content"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/timeline"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/requestid"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/schema"
)

// statements keeps the statements that run.
type statements struct {
	mu  sync.Mutex
	all []string
}

func (s *statements) note(sql string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, sql)
}

// during returns the statements of do.
func (s *statements) during(do func()) []string {
	s.mu.Lock()
	s.all = nil
	s.mu.Unlock()
	do()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// fixture is a message whose event has a delivery that failed once, with nothing at work.
type fixture struct {
	*factory.World

	url        string
	statements *statements
	org        orgs.ID
	account    accounts.Account
	message    messages.Message
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{url: pgtest.URL(t), statements: &statements{}}
	f.World = factory.On(t, pgtest.Connect(t, f.url, pgtest.Each(f.statements.note)))
	f.org, _ = f.Org(t)
	f.account = f.Account(t, f.org)
	_, err := f.Webhooks.Create(t.Context(), f.org, audit.Operator(), webhooks.Draft{
		URL: "https://hooks.example/secret", Events: []events.Type{events.MessageSent},
	})
	require.NoError(t, err)
	text, err := content.Parse("text", json.RawMessage(`{"body":"Hello"}`))
	require.NoError(t, err)
	request := apilogs.NewRequestID(f.Clock.Now())
	f.Logs.Add(apilogs.Entry{OrgID: f.org, ID: request, Method: "POST", Path: "/v1/1/messages", Status: 202})
	f.Logs.Flush()
	f.message, err = f.Messages.Send(requestid.With(t.Context(), request.Any()), f.org, f.account, messages.Terms{MonthlyLimit: 1000},
		messages.Draft{To: "+351910000001", Content: text, Source: messages.FromAPI})
	require.NoError(t, err)
	f.record(t, events.Draft{Type: events.MessageSent, Key: f.message.ID.String() + ":sent", Message: f.message.ID.Any(), Data: 1})
	f.exec(t, `UPDATE webhook_deliveries SET status = 'failed', troubled = true, attempt_count = 1 WHERE org_id = @org_id`, nil)
	return f
}

func (f *fixture) exec(t *testing.T, sql string, args postgres.Args) {
	t.Helper()
	_, err := postgres.InTx(t.Context(), f.DB, f.org, func(tx *postgres.Tx) (int64, error) { return tx.Exec(t.Context(), sql, args) })
	require.NoError(t, err)
}

func (f *fixture) record(t *testing.T, drafts ...events.Draft) {
	t.Helper()
	_, err := postgres.InTx(t.Context(), f.DB, f.org, func(tx *postgres.Tx) (struct{}, error) {
		return struct{}{}, f.Events.RecordTx(t.Context(), tx, drafts...)
	})
	require.NoError(t, err)
}

// read returns the whole timeline.
func (f *fixture) read(t *testing.T) timeline.Page {
	t.Helper()
	page, err := f.Timeline.Read(t.Context(), f.org, f.account, f.message.ID, paging.Slice[timeline.Position]{Limit: 10_000})
	require.NoError(t, err)
	return page
}

func kinds(of timeline.Page) (all []timeline.Kind) {
	for _, one := range of.Items {
		all = append(all, one.Kind)
	}
	return all
}

var (
	named     = regexp.MustCompile(`(?:FROM|JOIN) ([a-z_]+)\b`)
	condition = regexp.MustCompile(`Index Cond: (.*)`)
	filter    = regexp.MustCompile(`Filter: (.*)`)
)

// TestTimeline_Statements_OneIndexedReadPerTable explains every statement as it is planned for any arguments.
func TestTimeline_Statements_OneIndexedReadPerTable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	require.Equal(t, []timeline.Kind{timeline.Request, timeline.Accepted, timeline.Event, timeline.Delivery}, kinds(f.read(t)))
	tables := map[string]int{}
	for _, sql := range f.statements.during(func() { f.read(t) }) {
		of := 0
		for _, name := range named.FindAllStringSubmatch(sql, -1) {
			if slices.Contains(schema.Tenant(), name[1]) {
				tables[name[1]]++
				of++
			}
		}
		if of == 0 {
			continue
		}
		// With pruning the arguments of the plan, which are null, would leave no partition of a table.
		plan := pgtest.Plan(t, f.url, sql, `SET LOCAL enable_seqscan = off`, `SET LOCAL enable_partition_pruning = off`, `ANALYZE`)
		require.NotContains(t, plan, "Seq Scan on", plan)
		found := condition.FindAllStringSubmatch(plan, -1)
		require.NotEmpty(t, found, plan)
		for _, one := range found {
			require.Regexp(t, `^\(\(org_id = \$\d+\) AND \(\w+ = `, one[1], "more than the organization is looked up:\n%s", plan)
		}
		for _, one := range filter.FindAllStringSubmatch(plan, -1) {
			require.Regexp(t, `departure|^\(id >= `, one[1], "no other row is read:\n%s", plan) // the time selects partitions
		}
	}
	require.Equal(t, map[string]int{
		// A contact is read by its id, and before it the id of the contact that it was merged into.
		"messages": 1, "message_states": 1, "contacts": 2, "send_attempts": 1, "api_log": 1, "events": 1, "webhook_deliveries": 1,
		"webhook_attempts": 1, "webhook_subscriptions": 1,
	}, tables)
}

// TestTimeline_ManyReplays_CutAndSaid: bulk replays make any number of deliveries of one event.
func TestTimeline_ManyReplays_CutAndSaid(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(t, `
INSERT INTO webhook_deliveries (org_id, id, subscription_id, event_id, event_key, event_type, status, replayed_from)
SELECT org_id, ulid(@now::timestamptz + n * interval '1 second'), subscription_id, event_id, event_key, event_type, 'pending', id
FROM webhook_deliveries CROSS JOIN generate_series(1, 500) AS n
WHERE org_id = @org_id`, postgres.Args{"now": f.Clock.Now()})
	page := f.read(t)
	require.Len(t, page.Items, 3+500)
	require.Equal(t, []timeline.LeftOut{{
		Kind: timeline.Delivery, Reason: timeline.TooMany,
		Message: "Only the first webhook deliveries and attempts are shown. List all with GET /webhook_deliveries?event_id=…",
	}}, page.LeftOut)
	require.Contains(t, page.Items[2].Detail.Summary, "for one webhook delivery.", "replays are not counted")

	f.exec(t, `DELETE FROM webhook_deliveries WHERE org_id = @org_id AND replayed_from IS NOT NULL`, nil)
	f.exec(t, `
INSERT INTO webhook_attempts (org_id, id, delivery_id, attempt, duration_ms, error_code)
SELECT org_id, ulid(@now::timestamptz + n * interval '1 second'), id, n, 1, 'timeout'
FROM webhook_deliveries CROSS JOIN generate_series(1, 1001) AS n
WHERE org_id = @org_id`, postgres.Args{"now": f.Clock.Now()})
	page = f.read(t)
	require.Len(t, page.Items, 4+1000)
	require.Equal(t, timeline.TooMany, page.LeftOut[0].Reason)
}

// TestTimeline_ManyEdits_CutAndSaid: each edit of a message is an event with a key of its own.
func TestTimeline_ManyEdits_CutAndSaid(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 100 {
		f.Clock.Move(time.Second)
		f.record(t, events.Draft{Type: events.MessageEdited, Message: f.message.ID.Any(), Data: i})
	}
	page := f.read(t)
	require.Len(t, page.Items, 3+100)
	require.Equal(t, []timeline.LeftOut{{Kind: timeline.Event, Reason: timeline.TooMany, Message: "Only the first 100 events are shown."}}, page.LeftOut)
	require.Contains(t, page.Items[5].Detail.Summary, "It has no webhook delivery: no subscription of then asked for it")
}

// TestTimeline_SubscriptionStates_Explained: why a delivery waits.
func TestTimeline_SubscriptionStates_Explained(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(t, `UPDATE webhook_deliveries SET status = 'pending', troubled = false, attempt_count = 0 WHERE org_id = @org_id`, nil)
	shown := func() timeline.Detail { return f.read(t).Items[3].Detail }
	told := func() string { return shown().Summary }
	require.Equal(t, f.Clock.Now(), time.Time(*shown().NextAttemptAt))
	require.Equal(t, "The event waits to be sent to the receiver (hooks.example). The next attempt is at 2026-03-14 09:26:53 UTC.", told())
	for _, state := range []struct{ change, says, due string }{
		{
			`breaker_until = '2026-03-14 10:00:00Z'`, "The receiver fails, so that Parley sends it nothing before 2026-03-14 10:00:00 UTC.",
			"2026-03-14T10:00:00.000Z",
		},
		{
			`breaker_until = '2026-03-14 09:00:00Z'`, "The next attempt is at 2026-03-14 09:26:53 UTC.",
			f.Clock.Now().Format("2006-01-02T15:04:05.000Z"),
		},
		{`status = 'paused'`, "Its subscription is paused: it is sent when that is resumed.", ""},
		{`status = 'disabled', disabled_reason = 'endpoint_gone'`, "Its subscription is disabled, because the receiver failed", ""},
	} {
		f.exec(t, `UPDATE webhook_subscriptions SET `+state.change+` WHERE org_id = @org_id`, nil)
		require.Contains(t, told(), state.says)
		due := ""
		if at := shown().NextAttemptAt; at != nil {
			due = time.Time(*at).Format("2006-01-02T15:04:05.000Z")
		}
		require.Equal(t, state.due, due, state.change)
	}
	f.exec(t, `UPDATE webhook_deliveries SET status = 'dead', troubled = true, error_code = 'discarded' WHERE org_id = @org_id`, nil)
	require.Contains(t, told(), "The event was not sent to the receiver (hooks.example). The delivery waited when its subscription was resumed with")
	f.exec(t, `DELETE FROM webhook_subscriptions WHERE org_id = @org_id`, nil)
	require.Contains(t, told(), "The event was not sent to the receiver. ")
}

// TestTimeline_LastAttempt_SaysWhatFollows: the next attempt waits behind a breaker, and never comes after the subscription's deletion.
func TestTimeline_LastAttempt_SaysWhatFollows(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(t, `
INSERT INTO webhook_attempts (org_id, id, delivery_id, attempt, duration_ms, error_code)
SELECT org_id, ulid(@now::timestamptz), id, 1, 1, 'timeout'
FROM webhook_deliveries
WHERE org_id = @org_id`, postgres.Args{"now": f.Clock.Now()})
	require.Contains(t, f.read(t).Items[4].Detail.Summary, "The next attempt is at 2026-03-14 09:26:53 UTC.")
	for _, state := range []struct {
		change, says string
		due          bool
	}{
		{
			`UPDATE webhook_subscriptions SET breaker_until = '2026-03-14 10:00:00Z' WHERE org_id = @org_id`,
			"The receiver fails, so that Parley sends it nothing before 2026-03-14 10:00:00 UTC.", true,
		},
		{`DELETE FROM webhook_subscriptions WHERE org_id = @org_id`, "Its subscription was deleted.", false},
	} {
		f.exec(t, state.change, nil)
		delivery, attempt := f.read(t).Items[3].Detail, f.read(t).Items[4].Detail
		require.Contains(t, delivery.Summary, state.says)
		require.Contains(t, attempt.Summary, state.says)
		require.Equal(t, delivery.NextAttemptAt, attempt.NextAttemptAt)
		require.Equal(t, state.due, attempt.NextAttemptAt != nil)
	}
}

func TestTimeline_OtherNumberOrOrganization_NotFound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other, _ := f.Org(t)
	for _, asked := range []struct {
		org orgs.ID
		of  accounts.Account
	}{{f.org, f.Account(t, f.org)}, {other, f.Account(t, other)}, {other, f.account}} {
		_, err := f.Timeline.Read(t.Context(), asked.org, asked.of, f.message.ID, paging.Slice[timeline.Position]{Limit: 1})
		require.Equal(t, fault.ResourceNotFound, fault.Of(err))
	}
}

// TestKept_EqualsThePeriodsOfTheTables: what a timeline calls expired is what the tables drop.
func TestKept_EqualsThePeriodsOfTheTables(t *testing.T) {
	t.Parallel()
	periods := map[string]time.Duration{}
	for _, table := range schema.Partitioned() {
		periods[table.Table] = table.Keep
	}
	for table, kept := range map[string]time.Duration{
		"api_log": apilogs.Kept, "events": events.Kept, "webhook_deliveries": events.Kept, "webhook_attempts": events.Kept,
	} {
		require.Equal(t, periods[table], kept, table)
	}
	require.Zero(t, periods["send_attempts"], "attempts go with their message")
}
