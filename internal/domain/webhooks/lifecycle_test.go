package webhooks_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/receiver"
)

// disable has the endpoint answer 410 to one event.
func (s *fixture) disable(t *testing.T) {
	t.Helper()
	s.receiver.Answer(receiver.Always(receiver.Answer{Status: 410}))
	s.Customer(t, s.org)
	require.Eventually(t, func() bool { return s.subscription(t).Status == webhooks.Disabled }, patience, tick)
	s.rest(t)
}

func TestDisabled_OnlyResumingIsAccepted(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.disable(t)
	before := s.subscription(t)
	delivery := s.deliveries(t)[0]
	_, replayed := s.Webhooks.Replay(t.Context(), s.org, audit.Operator(), delivery.ID)
	_, tested := s.Webhooks.Test(t.Context(), s.org, s.Subscription.ID, example(t))
	refused := []error{replayed, tested}
	for _, change := range []webhooks.Patch{
		{},
		{URL: to("https://example.com/new")},
		{Description: to("x")},
		{Status: to(webhooks.Paused)},
		{Backlog: to(webhooks.Discard)},
		{Events: to(s.Subscription.Events[:1])},
	} {
		_, err := s.Webhooks.Update(t.Context(), s.org, s.Subscription.ID, change)
		refused = append(refused, err)
	}
	for i, err := range refused {
		require.Equal(t, fault.WebhookSubscriptionDisabled, fault.Of(err), "%d: %v", i, err)
	}
	require.Equal(t, before, s.subscription(t))

	minted, err := s.Webhooks.MintSecret(t.Context(), s.org, audit.Operator(), s.Subscription.ID, webhooks.SecretDraft{})
	require.NoError(t, err)
	_, err = s.Webhooks.RevokeSecret(t.Context(), s.org, audit.Operator(), s.Subscription.ID, minted.ID)
	require.NoError(t, err)
	_, err = s.Webhooks.Delete(t.Context(), s.org, s.Subscription.ID)
	require.NoError(t, err)
}

// All deliveries that were held arrive at the new URL, those of each customer in order, the
// failed ones without waiting for their retry.
func TestResume_WithNewURL_AllHeldDeliveriesArrive(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.receiver.Answer(receiver.Always(receiver.Answer{Status: 500}))
	made := s.customers(t, 3)
	for _, customer := range made {
		s.await(t, customer, webhooks.Failed, 1)
	}
	s.disable(t)
	for range 5 {
		for _, customer := range made {
			s.Clock.Move(time.Millisecond)
			s.rename(t, customer, "Renamed "+s.Clock.Now().Format("05.000"))
		}
	}
	held := s.list(t, webhooks.Filter{})
	require.Len(t, held, 3+1+15)
	better := receiver.New(t)
	changed := s.patch(t, webhooks.Patch{Status: to(webhooks.Active), URL: to(better.URL + "/new?a=1")})
	require.Equal(t, webhooks.Active, changed.Status)
	require.Nil(t, changed.DisabledReason)
	require.Zero(t, changed.ConsecutiveFailures)
	s.awaitCount(t, webhooks.Succeeded, len(held))
	last := map[string]string{}
	for _, request := range better.WaitCount(t, len(held), patience) {
		require.Equal(t, "/new?a=1", request.Path)
		customer := customerOf(t, request).ID
		require.Less(t, last[customer], request.EventUID(), "the events of one customer are in order")
		last[customer] = request.EventUID()
	}
	require.Len(t, better.Events(), len(held))
	require.Equal(t, 1, better.CountDelivery(held[0].ID.String()))
}

// The test reads the lane, because deliveries that are sent at once arrive in any order:
// failed, held behind a failed one, and not yet tried, by age.
func TestResume_OldestDeliveryFirst(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]webhooks.Patch{
		"disabled": {Status: to(webhooks.Active)}, "disabled, new URL": {Status: to(webhooks.Active), URL: to("https://example.com/")},
		"active, new URL": {URL: to("https://example.com/")}, "paused": {Status: to(webhooks.Active)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newIdleFixture(t)
			made := s.customers(t, 4)
			s.Clock.Move(10 * time.Second)
			for _, customer := range made {
				s.rename(t, customer, "Second")
				s.rename(t, customer, "Third") // a millisecond ahead of the clock, so not due yet
			}
			for _, i := range []int{0, 1, 3} {
				s.exec(t, `
WITH failed AS (SELECT id, subject_id FROM webhook_deliveries WHERE org_id = @org_id AND subject_id = @subject ORDER BY id LIMIT 1),
row AS (UPDATE lane_rows SET due_at = @later FROM failed WHERE lane_id = @lane AND lane_rows.id = failed.id)
INSERT INTO lane_keys (lane_id, key, holder, until) SELECT @lane, subject_id, id, @later FROM failed`, postgres.Args{
					"subject": made[i].ID, "lane": s.Subscription.ID, "later": s.Clock.Now().Add(time.Hour),
				})
			}
			status, reason := name, any(nil)
			switch {
			case name[:4] == "disa":
				status, reason = "disabled", "endpoint_gone"
			case name[:4] == "acti":
				status = "active"
			}
			s.exec(t, `UPDATE webhook_subscriptions SET status = @status, disabled_reason = @reason WHERE org_id = @org_id`,
				postgres.Args{"status": status, "reason": reason})
			s.patch(t, change)
			ordered, err := postgres.Many[webhooks.DeliveryID](t.Context(), s.DB.Of(s.org),
				`SELECT r.id FROM lane_rows r JOIN lanes USING (lane_id) WHERE org_id = @org_id ORDER BY priority, due_at, r.id`, nil)
			require.NoError(t, err)
			var oldest, line []string
			for _, delivery := range slices.Backward(s.list(t, webhooks.Filter{})) {
				oldest = append(oldest, delivery.ID.String())
			}
			for _, id := range ordered {
				line = append(line, id.String())
			}
			require.Equal(t, oldest, line)
		})
	}
}

func TestPause_KeepsAllDeliveries(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.receiver.Answer(receiver.Always(receiver.Answer{Status: 500}))
	failed := s.Customer(t, s.org)
	s.await(t, failed, webhooks.Failed, 1)
	s.receiver.Answer(receiver.Always(receiver.Answer{}))
	s.pause(t)
	s.customers(t, 25)
	s.Pass(t, 3*time.Hour)
	s.quiet(t)
	require.Equal(t, 1, s.receiver.Count())
	for _, delivery := range s.list(t, webhooks.Filter{Status: new(webhooks.Pending)}) {
		require.Zero(t, delivery.AttemptCount)
	}
	// Changes of other fields leave it paused.
	s.patch(t, webhooks.Patch{URL: to(s.receiver.URL + "/other"), Description: to("x")})
	s.Pass(t, time.Hour)
	s.quiet(t)
	require.Equal(t, 1, s.receiver.Count())
	s.resume(t)
	s.awaitCount(t, webhooks.Succeeded, 26)
	require.Len(t, s.receiver.Events(), 26)
	s.resume(t) // again changes nothing
	require.Equal(t, 27, s.receiver.Count())
}

// The delivery that failed still comes before those behind it.
func TestPause_LongerThanARetry_OrderIsKept(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.receiver.Answer(receiver.Always(receiver.Answer{Status: 500}))
	made := s.customers(t, 4)
	for _, customer := range made {
		s.await(t, customer, webhooks.Failed, 1)
		s.rename(t, customer, "1")
	}
	s.Clock.Move(time.Second)
	for _, customer := range made {
		s.rename(t, customer, "2")
	}
	s.pause(t)
	s.Pass(t, time.Hour)
	s.quiet(t)
	better := receiver.New(t)
	s.patch(t, webhooks.Patch{Status: to(webhooks.Active), URL: to(better.URL)})
	s.awaitCount(t, webhooks.Succeeded, 12)
	last := map[string]string{}
	for _, request := range better.Requests() {
		customer := customerOf(t, request).ID
		require.Less(t, last[customer], request.EventUID())
		last[customer] = request.EventUID()
	}
}

// Deliveries that have not begun when the drainer learns of the pause wait.
func TestPause_DuringADrain_NoFurtherCalls(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.pause(t)
	s.customers(t, 300)
	hold := make(chan struct{})
	s.receiver.Answer(receiver.Always(receiver.Answer{Hold: hold}))
	s.resume(t)
	s.receiver.WaitCount(t, 5, patience)
	s.pause(t)
	s.awaitBeats(t, 3) // the second heartbeat began after the pause and was answered before the third
	close(hold)
	s.rest(t)
	require.LessOrEqual(t, s.receiver.Count(), 8, "those that had begun")
	s.receiver.Answer(receiver.Always(receiver.Answer{}))
	s.resume(t)
	s.awaitCount(t, webhooks.Succeeded, 300)
	require.Len(t, s.receiver.Events(), 300)
}

// awaitBeats waits for that many heartbeats of the drainer. With each it learns whether it may
// go on.
func (s *fixture) awaitBeats(t *testing.T, beats int) {
	t.Helper()
	const progress = `SELECT progress FROM lanes WHERE org_id = @org_id AND lane_id = @id`
	before := s.count(t, progress, postgres.Args{"id": s.Subscription.ID})
	require.Eventually(t, func() bool {
		return s.count(t, progress, postgres.Args{"id": s.Subscription.ID}) >= before+beats
	}, patience, tick)
}

// Deliveries that are queued after the discard, in its millisecond, are sent. Those before are dead and can be replayed.
func TestDiscard_EndsOnlyWhatWaited(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.receiver.Answer(receiver.Always(receiver.Answer{Status: 500}))
	s.await(t, s.Customer(t, s.org), webhooks.Failed, 1)
	s.pause(t)
	s.customers(t, 5)
	s.Clock.Move(time.Millisecond)
	hold := make(chan struct{})
	s.receiver.Answer(receiver.Always(receiver.Answer{Hold: hold}))
	changed := s.patch(t, webhooks.Patch{Status: to(webhooks.Active), Backlog: to(webhooks.Discard)})
	require.Equal(t, webhooks.Active, changed.Status)
	for range 12 {
		s.Customer(t, s.org)
	}
	s.Wake(t)
	require.Eventually(t, func() bool { return len(s.list(t, webhooks.Filter{Status: new(webhooks.Dead)})) == 6 }, 2*patience, tick, "the job has run")
	close(hold)
	require.Eventually(t, func() bool {
		s.Pass(t, 10*time.Second) // a request may have timed out if the job took long
		return len(s.list(t, webhooks.Filter{Status: new(webhooks.Succeeded)})) == 12
	}, 2*patience, 20*time.Millisecond, "what came after is delivered")
	dead := s.list(t, webhooks.Filter{Status: new(webhooks.Dead)})
	require.Len(t, dead, 6)
	for _, delivery := range dead {
		require.Equal(t, "discarded", *delivery.ErrorCode)
		require.Nil(t, delivery.NextAttemptAt)
	}
	require.Len(t, s.receiver.Events(), 13)
	s.Pass(t, 24*time.Hour)
	s.barrier(t)
	require.Len(t, s.receiver.Events(), 14)
	require.Zero(t, s.replayDead(t, webhooks.ReplayDraft{}).Matched, "a bulk replay leaves out what was discarded")
	_, err := s.Webhooks.Replay(t.Context(), s.org, audit.Operator(), dead[0].ID)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(s.receiver.Events()) == 15 }, 2*patience, tick)
}

// A delivery that is discarded during its attempt has no retry when the attempt fails.
func TestDiscard_AttemptUnderWayFails_StaysDiscarded(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	hold := make(chan struct{})
	s.receiver.Answer(receiver.Always(receiver.Answer{Status: 500, Hold: hold}))
	customer := s.Customer(t, s.org)
	s.receiver.WaitCount(t, 1, patience)
	s.Clock.Move(time.Millisecond)
	s.patch(t, webhooks.Patch{Status: to(webhooks.Active), Backlog: to(webhooks.Discard)})
	s.awaitCount(t, webhooks.Dead, 1)
	close(hold)
	require.Eventually(t, func() bool {
		return s.count(t, `SELECT count(*) FROM webhook_attempts WHERE org_id = @org_id`, nil) == 1
	}, patience, tick, "the attempt is settled")
	discarded := s.of(t, customer)
	require.Equal(t, webhooks.Dead, discarded.Status)
	require.Equal(t, "discarded", *discarded.ErrorCode)
	require.Nil(t, discarded.NextAttemptAt)
}

// After a resume the first tries start in the order of age. As many as run at once may overtake each other.
func TestResume_FirstTries_StartInOrderOfAge(t *testing.T) {
	t.Parallel()
	const waiting, apart = 300, 100
	s := newFixture(t)
	s.pause(t)
	s.customers(t, waiting)
	age := map[string]int{}
	for i, delivery := range s.list(t, webhooks.Filter{}) {
		age[delivery.ID.String()] = waiting - 1 - i // the list has the newest first
	}
	require.Len(t, age, waiting)
	s.resume(t)
	require.Eventually(t, func() bool { return len(s.receiver.Events()) == waiting }, 4*patience, tick)
	for started, request := range s.receiver.Requests() {
		require.InDelta(t, age[request.DeliveryID()], started, apart, "the delivery of this age started as number %d", started)
	}
}

func TestDiscard_KeepsEndedDeliveries(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	arrived := s.Customer(t, s.org)
	s.await(t, arrived, webhooks.Succeeded, 1)
	s.pause(t)
	s.customers(t, 3)
	s.exec(t, `UPDATE webhook_deliveries SET status = 'dead', troubled = true WHERE org_id = @org_id AND id = @id`,
		postgres.Args{"id": s.deliveries(t)[0].ID})
	s.Clock.Move(time.Millisecond)
	s.patch(t, webhooks.Patch{Status: to(webhooks.Active), Backlog: to(webhooks.Discard)})
	s.Wake(t)
	s.awaitCount(t, webhooks.Pending, 0)
	s.awaitCount(t, webhooks.Dead, 3)
	require.Nil(t, s.deliveries(t)[0].ErrorCode, "the one that was dead before has its own reason")
	s.await(t, arrived, webhooks.Succeeded, 1)
}

func TestDelete_RemovesWaitingDeliveries(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	other := s.subscribe(t, webhooks.Draft{URL: s.receiver.URL + "/other"})
	s.awaitCount(t, webhooks.Succeeded, 0)
	s.Customer(t, s.org)
	s.awaitCount(t, webhooks.Succeeded, 2)
	s.pause(t)
	s.customers(t, 7)
	s.awaitCount(t, webhooks.Succeeded, 2+7)
	_, err := s.Webhooks.Delete(t.Context(), s.org, s.Subscription.ID)
	require.NoError(t, err)
	s.Wake(t)
	s.awaitCount(t, webhooks.Pending, 0)
	require.NoError(t, s.Lanes.Sweep(t.Context()))
	require.Len(t, s.list(t, webhooks.Filter{SubscriptionID: &s.Subscription.ID}), 1, "what arrived is history")
	require.Len(t, s.list(t, webhooks.Filter{SubscriptionID: &other.ID}), 8)
	for _, table := range []string{"lanes", "lane_rows", "lane_keys"} {
		require.Zero(t, s.count(t, `SELECT count(*) FROM `+table+` WHERE lane_id = @id AND @org_id::uuid IS NOT NULL`,
			postgres.Args{"id": s.Subscription.ID}))
	}
	require.Zero(t, s.count(t, `SELECT count(*) FROM webhook_secrets WHERE org_id = @org_id AND subscription_id = @id`,
		postgres.Args{"id": s.Subscription.ID}))
	_, err = s.Webhooks.Replay(t.Context(), s.org, audit.Operator(), s.list(t, webhooks.Filter{SubscriptionID: &s.Subscription.ID})[0].ID)
	require.Equal(t, fault.ResourceNotFound, fault.Of(err))
	_, err = s.Webhooks.Delete(t.Context(), s.org, s.Subscription.ID)
	require.Equal(t, fault.ResourceNotFound, fault.Of(err))
	s.Customer(t, s.org)
	s.awaitCount(t, webhooks.Succeeded, 10)
}
