package webhooks_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/receiver"
	"github.com/parley-chat/parley/openapi"
)

// kill makes deliveries dead and takes them out of their lanes.
func (s *fixture) kill(t *testing.T) {
	t.Helper()
	s.exec(t, `UPDATE webhook_deliveries SET status = 'dead', troubled = true, attempt_count = 10, next_attempt_at = NULL
WHERE org_id = @org_id AND status <> 'succeeded'`, nil)
	s.exec(t, `DELETE FROM lane_rows WHERE lane_id IN (SELECT lane_id FROM lanes WHERE org_id = @org_id)`, nil)
	s.exec(t, `DELETE FROM lane_keys WHERE lane_id IN (SELECT lane_id FROM lanes WHERE org_id = @org_id)`, nil)
}

// replayDead starts a bulk replay and returns its counts.
func (s *fixture) replayDead(t *testing.T, draft webhooks.ReplayDraft) webhooks.Replayed {
	t.Helper()
	replayed, err := s.Webhooks.ReplayDead(t.Context(), s.org, audit.Operator(), draft)
	require.NoError(t, err)
	return replayed
}

func TestReplay_One_NewDeliveryOfTheSameEvent(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	customer := s.Customer(t, s.org)
	first := s.await(t, customer, webhooks.Succeeded, 1)
	seen := map[webhooks.DeliveryID]bool{first.ID: true}
	for range 5 { // also twice in one millisecond
		replayed, err := s.Webhooks.Replay(t.Context(), s.org, audit.Operator(), first.ID)
		require.NoError(t, err)
		require.False(t, seen[replayed.ID], "each answer names its own delivery")
		seen[replayed.ID] = true
		require.Equal(t, first.ID, *replayed.ReplayedFrom)
		require.Equal(t, webhooks.Pending, replayed.Status)
		require.Equal(t, first.EventID, replayed.EventID)
	}
	s.awaitCount(t, webhooks.Succeeded, 6)
	for _, request := range s.receiver.WaitCount(t, 6, patience) {
		require.Equal(t, s.receiver.Requests()[0].Body, request.Body)
		require.Equal(t, first.EventID.String(), request.EventUID())
		require.Equal(t, 1, request.Attempt())
		require.Equal(t, 1, s.receiver.CountDelivery(request.DeliveryID()))
	}
	again, err := s.Webhooks.Replay(t.Context(), s.org, audit.Operator(), s.deliveries(t)[0].ID)
	require.NoError(t, err)
	require.NotNil(t, again.ReplayedFrom, "a replay can be replayed")
	_, err = s.Webhooks.Replay(t.Context(), s.otherOrg(t), audit.Operator(), first.ID)
	require.Equal(t, fault.ResourceNotFound, fault.Of(err))
}

// Events are kept for 30 days; a late replay of one is kept longer.
func TestReplay_EventExpired_DeliveryIsStillShown(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	delivery := s.of(t, s.Customer(t, s.org))
	s.exec(t, `DELETE FROM events WHERE org_id = @org_id`, nil)
	detail, err := s.Webhooks.Delivery(t.Context(), s.org, delivery.ID)
	require.NoError(t, err)
	require.Nil(t, detail.Body)
	_, err = s.Webhooks.Replay(t.Context(), s.org, audit.Operator(), delivery.ID)
	require.Equal(t, fault.ResourceNotFound, fault.Of(err))
}

func TestReplayDead_EventsOfACustomerInOrder(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.pause(t)
	for range 6 {
		s.liveThrough(t, "Customer 01", 8)
	}
	s.kill(t)
	s.resume(t)
	s.Pass(t, time.Minute)
	require.Equal(t, webhooks.Replayed{Matched: 60, Replayed: 60}, s.replayDead(t, webhooks.ReplayDraft{}))
	s.Wake(t)
	s.awaitCount(t, webhooks.Succeeded, 60)
	last := map[string]string{}
	for _, request := range s.receiver.Requests() {
		customer := customerOf(t, request).ID
		require.Less(t, last[customer], request.EventUID(), "in order")
		last[customer] = request.EventUID()
	}
	require.Len(t, last, 6)
	s.awaitCount(t, webhooks.Dead, 60)
	require.Zero(t, s.count(t, `SELECT count(*) FROM webhook_replays WHERE org_id = @org_id`, nil), "it is over")
}

func TestReplayDead_Filters(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	other := s.subscribe(t, webhooks.Draft{URL: s.receiver.URL + "/other"})
	off := s.subscribe(t, webhooks.Draft{URL: s.receiver.URL + "/off"})
	made := s.customers(t, 4)
	after := s.Clock.Now()
	s.Clock.Move(time.Hour)
	s.rename(t, made[0], "x")
	s.kill(t)
	s.exec(t, `UPDATE webhook_subscriptions SET status = 'disabled', disabled_reason = 'x' WHERE org_id = @org_id AND id = @id`,
		postgres.Args{"id": off.ID})
	s.Clock.Move(time.Hour)
	later := after.Add(time.Hour)
	for name, test := range map[string]struct {
		draft webhooks.ReplayDraft
		want  int
	}{
		"all but the disabled": {webhooks.ReplayDraft{}, 10},
		"one subscription":     {webhooks.ReplayDraft{SubscriptionID: &other.ID}, 5},
		"a disabled one":       {webhooks.ReplayDraft{SubscriptionID: &off.ID}, 0},
		"a type":               {webhooks.ReplayDraft{EventType: new(events.CustomerUpdated)}, 2},
		"a type without any":   {webhooks.ReplayDraft{EventType: new(events.MessageSent)}, 0},
		"after":                {webhooks.ReplayDraft{CreatedAfter: &after}, 2},
		"before":               {webhooks.ReplayDraft{CreatedBefore: &later}, 8},
		"before, exclusive":    {webhooks.ReplayDraft{CreatedBefore: &after}, 6},
		"between":              {webhooks.ReplayDraft{CreatedAfter: &after, CreatedBefore: &later}, 0},
		"the future":           {webhooks.ReplayDraft{CreatedAfter: new(s.Clock.Now().Add(time.Hour))}, 0},
	} {
		test.draft.DryRun = true
		require.Equal(t, webhooks.Replayed{Matched: test.want}, s.replayDead(t, test.draft), name)
	}
	require.Zero(t, s.count(t, `SELECT count(*) FROM webhook_replays WHERE org_id = @org_id`, nil), "a dry run does nothing")
	require.Equal(t, webhooks.Replayed{Matched: 1, Replayed: 1},
		s.replayDead(t, webhooks.ReplayDraft{SubscriptionID: &other.ID, CreatedAfter: &after}))
	require.Equal(t, webhooks.Replayed{Matched: 8, Replayed: 8}, s.replayDead(t, webhooks.ReplayDraft{CreatedBefore: &later}))
	s.Work(t)
	s.awaitCount(t, webhooks.Succeeded, 9)
	for _, delivery := range s.list(t, webhooks.Filter{Status: new(webhooks.Succeeded)}) {
		require.NotNil(t, delivery.ReplayedFrom)
		require.NotEqual(t, off.ID, delivery.SubscriptionID)
	}
	_, err := s.Webhooks.ReplayDead(t.Context(), s.otherOrg(t), audit.Operator(), webhooks.ReplayDraft{SubscriptionID: &other.ID})
	require.Equal(t, fault.ResourceNotFound, fault.Of(err))
	elsewhere, err := s.Webhooks.ReplayDead(t.Context(), s.otherOrg(t), audit.Operator(), webhooks.ReplayDraft{})
	require.NoError(t, err)
	require.Zero(t, elsewhere.Matched, "another organization's")
}

const sqlManyDead = `
WITH one AS (
    SELECT subscription_id, event_id, event_key, event_type FROM webhook_deliveries WHERE org_id = @org_id ORDER BY id LIMIT 1
)
INSERT INTO webhook_deliveries (org_id, id, subscription_id, event_id, event_key, event_type, status, troubled, attempt_count)
SELECT @org_id, ulid(@now), subscription_id, event_id, event_key, event_type, 'dead', true, 10 FROM one, generate_series(1, @many::int)`

// The worker stops between the portions.
func TestReplayDead_WorkerRestarts_AllAreReplayed(t *testing.T) {
	t.Parallel()
	const many = 1_234
	s := newIdleFixture(t)
	s.Customer(t, s.org)
	s.kill(t)
	s.exec(t, sqlManyDead, postgres.Args{"now": s.Clock.Now(), "many": many - 1})
	s.Clock.Move(time.Hour)
	require.Equal(t, webhooks.Replayed{Matched: many, Replayed: many}, s.replayDead(t, webhooks.ReplayDraft{}))
	made := func(least int) func() bool {
		return func() bool {
			return s.count(t, `SELECT count(*) FROM webhook_deliveries WHERE org_id = @org_id AND replayed_from IS NOT NULL`, nil) >= least
		}
	}
	t.Run("the first worker", func(t *testing.T) { // its end ends the worker
		s.Work(t)
		require.Eventually(t, made(1), patience, tick)
	})
	require.False(t, made(many)(), "it goes in portions")
	s.Work(t)
	require.Eventually(t, func() bool { s.Pass(t, time.Second); return made(many)() }, 2*patience, 50*time.Millisecond)
	s.awaitCount(t, webhooks.Succeeded, many)
	require.Equal(t, many, s.count(t, `SELECT count(DISTINCT replayed_from) FROM webhook_deliveries WHERE org_id = @org_id`, nil), "each once")
	require.Equal(t, many, s.count(t, `SELECT count(*) FROM webhook_deliveries WHERE org_id = @org_id AND replayed_from IS NOT NULL`, nil))
}

// Replays have the second priority of their lane, which starts one of them now and then.
// Deliveries that are sent at once arrive in any order.
func TestReplay_LiveEventsFirst(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.pause(t)
	s.customers(t, 20)
	s.kill(t)
	s.replayDead(t, webhooks.ReplayDraft{})
	s.Wake(t)
	s.awaitCount(t, webhooks.Pending, 20)
	s.Pass(t, time.Second)
	s.customers(t, 5)
	waiting := func(replays bool) (priorities []int) {
		priorities, err := postgres.Many[int](t.Context(), s.DB.Of(s.org), `
			SELECT r.priority FROM lane_rows r JOIN webhook_deliveries d ON d.id = r.id
			WHERE d.org_id = @org_id AND (d.replayed_from IS NOT NULL) = @replays ORDER BY r.priority`, postgres.Args{"replays": replays})
		require.NoError(t, err)
		return priorities
	}
	live, again := waiting(false), waiting(true)
	require.Len(t, live, 5)
	require.Len(t, again, 20)
	require.Less(t, live[4], again[0])
	s.resume(t)
	s.awaitCount(t, webhooks.Succeeded, 25)
}

// It sends the example of each of the sixteen events, whatever the subscription names.
func TestTest_SendsTheExampleOfTheContract(t *testing.T) {
	t.Parallel()
	contract, err := openapi.Load()
	require.NoError(t, err)
	s := newFixture(t)
	s.patch(t, webhooks.Patch{Events: to([]events.Type{events.MessageSent})})
	for _, of := range events.Catalogue() {
		body, err := contract.WebhookExample(string(of))
		require.NoError(t, err)
		draft, err := events.Example(of, body, time.Now())
		require.NoError(t, err)
		delivery, err := s.Webhooks.Test(t.Context(), s.org, s.Subscription.ID, draft)
		require.NoError(t, err)
		require.Equal(t, of, delivery.EventType)
		s.receiver.WaitDelivery(t, delivery.ID.String(), 1, patience)
		requests := s.receiver.Requests()
		request := requests[len(requests)-1]
		require.Equal(t, draft.Body, request.Body, of)
		require.NotEqual(t, body, request.Body, "each test has an id of its own")
		require.Contains(t, string(request.Body), strings.TrimSuffix(draft.Key, ":sent"))
		schema, err := contract.Webhook(string(of))
		require.NoError(t, err)
		shown, err := jsonschema.UnmarshalJSON(bytes.NewReader(request.Body))
		require.NoError(t, err)
		require.NoError(t, schema.Validate(shown))
		require.Equal(t, string(of), request.Event())
		require.Equal(t, of.Source(), request.Header.Get("X-Svc-Source"))
		require.Equal(t, delivery.EventKey, request.Header.Get("X-Svc-Event-Id"))
	}
	s.awaitCount(t, webhooks.Succeeded, 16)
	other := s.subscribe(t, webhooks.Draft{})
	_, err = s.Webhooks.Test(t.Context(), s.org, s.Subscription.ID, example(t))
	require.NoError(t, err)
	s.awaitCount(t, webhooks.Succeeded, 17)
	require.Empty(t, s.list(t, webhooks.Filter{SubscriptionID: &other.ID}), "a test is for one subscription")
}

// As after a move: all waiting deliveries are sent, those of each customer in order, and a
// paused subscription stays paused.
func TestRestore_LanesAreRebuilt(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	paused := s.subscribe(t, webhooks.Draft{URL: s.receiver.URL + "/paused"})
	_, err := s.Webhooks.Update(t.Context(), s.org, paused.ID, webhooks.Patch{Status: to(webhooks.Paused)})
	require.NoError(t, err)
	s.receiver.Answer(receiver.Always(receiver.Answer{Status: 404}))
	made := s.customers(t, 3)
	for _, customer := range made {
		require.Eventually(t, func() bool {
			return s.count(t, `SELECT count(*) FROM webhook_deliveries WHERE org_id = @org_id AND subject_id = @id AND status = 'failed'`,
				postgres.Args{"id": customer.ID}) == 1
		}, patience, tick)
		s.rename(t, customer, "behind")
		s.rename(t, customer, "further behind")
	}
	s.Pass(t, 100*time.Millisecond)
	s.rest(t)
	before := s.receiver.Count()
	s.RebuildLanes(t, s.org)
	s.receiver.Answer(receiver.Always(receiver.Answer{}))
	s.barrier(t)
	require.Equal(t, before+1, s.receiver.Count(), "later events wait for the retry")
	s.Pass(t, time.Hour)
	s.awaitCount(t, webhooks.Succeeded, 9+1)
	last := map[string]string{}
	for _, request := range s.receiver.Requests()[before:] {
		if !isBarrier(request) {
			customer := customerOf(t, request).ID
			require.Less(t, last[customer], request.EventUID(), "in order")
			require.Equal(t, "/", request.Path)
			last[customer] = request.EventUID()
		}
	}
	s.awaitCount(t, webhooks.Pending, 9)
	_, err = s.Webhooks.Update(t.Context(), s.org, paused.ID, webhooks.Patch{Status: to(webhooks.Active)})
	require.NoError(t, err)
	s.awaitCount(t, webhooks.Succeeded, 19)
}
