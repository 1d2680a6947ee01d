package webhooks_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/receiver"
)

// Rows that may start now, and lanes that are being drained.
const sqlBusy = `
SELECT (
    SELECT count(*)
    FROM lane_rows r
    JOIN lanes l USING (lane_id)
    WHERE l.org_id = @org_id
      AND r.due_at <= @now
      AND (l.blocked_until IS NULL OR l.blocked_until <= @now)
      AND NOT EXISTS (SELECT FROM lane_keys k WHERE k.lane_id = r.lane_id AND k.key = r.key AND k.holder <> r.id)
) + (
    SELECT count(*)
    FROM lanes l
    WHERE l.org_id = @org_id
      AND l.armed
      AND l.token IS NOT NULL
      AND NOT EXISTS (SELECT FROM ` + jobs.Table + ` j WHERE j.id = l.token)
)`

// quiet waits until no row may start now. Rows under way stay in their lane until they are
// settled.
func (s *fixture) quiet(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		return s.count(t, sqlBusy, postgres.Args{"now": s.Clock.Now()}) == 0
	}, 2*patience, tick, "the lanes do not come to rest")
}

// rest waits until no row may start and every request that arrived is settled as an attempt.
func (s *fixture) rest(t *testing.T) {
	t.Helper()
	s.quiet(t)
	require.Eventually(t, func() bool {
		return s.count(t, sqlSpent, nil) == s.receiver.Count()
	}, 2*patience, tick, "requests are not settled")
	s.quiet(t)
}

// breakerUntil is when the lane may be tried again.
func (s *fixture) breakerUntil(t *testing.T) time.Time {
	t.Helper()
	until, err := postgres.One[time.Time](t.Context(), s.DB.Of(s.org),
		`SELECT blocked_until FROM lanes WHERE org_id = @org_id AND lane_id = @id`, postgres.Args{"id": s.Subscription.ID})
	require.NoError(t, err)
	return until
}

func (s *fixture) pause(t *testing.T) {
	t.Helper()
	s.patch(t, webhooks.Patch{Status: to(webhooks.Paused)})
}

func (s *fixture) resume(t *testing.T) {
	t.Helper()
	s.patch(t, webhooks.Patch{Status: to(webhooks.Active)})
}

const sqlSpent = `SELECT coalesce(sum(attempt_count), 0) FROM webhook_deliveries WHERE org_id = @org_id`

// Hundreds of deliveries wait and the endpoint fails. A few spend an attempt; then the lane
// makes one probe at a time, after 5 s and then twice as long each time, until one succeeds.
func TestBreaker_BlocksTheLane(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]receiver.Answer{
		"500": {Status: 500}, "404": {Status: 404}, "too large": {
			Header: map[string][]string{"Content-Length": {"2097152"}}, Zeroes: 2 << 20,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testBreaker(t, answer)
		})
	}
}

func testBreaker(t *testing.T, answer receiver.Answer) {
	t.Helper()
	const waiting = 150
	s := newFixture(t)
	s.receiver.Answer(receiver.Always(answer))
	s.pause(t)
	s.customers(t, waiting)
	s.resume(t)
	s.rest(t)
	spent := s.count(t, sqlSpent, nil)
	require.GreaterOrEqual(t, spent, 5)
	require.LessOrEqual(t, spent, 5+8, "five failures and what was under way beside them")
	require.Equal(t, spent, s.subscription(t).ConsecutiveFailures)
	for _, seconds := range []int{5, 10, 20, 40, 80} {
		until := s.breakerUntil(t)
		require.Equal(t, time.Duration(seconds)*time.Second, until.Sub(s.Clock.Now()))
		s.until(t, until.Add(-time.Millisecond))
		s.until(t, until)
		spent++
		s.receiver.WaitCount(t, spent, patience)
		s.rest(t)
		require.Equal(t, spent, s.count(t, sqlSpent, nil), "one probe")
		require.Equal(t, spent, s.receiver.Count(), "one probe")
		require.Equal(t, 1, s.count(t, `SELECT count(*) FROM webhook_deliveries WHERE org_id = @org_id AND last_attempt_at = @now`,
			postgres.Args{"now": s.Clock.Now()}), "not before its time")
	}
	require.Equal(t, waiting-spent, s.count(t,
		`SELECT count(*) FROM webhook_deliveries WHERE org_id = @org_id AND attempt_count = 0`, nil), "the others spent no attempt")
	s.receiver.Answer(receiver.Always(receiver.Answer{}))
	s.until(t, s.breakerUntil(t))
	s.quiet(t)
	require.Zero(t, s.subscription(t).ConsecutiveFailures)
	s.Pass(t, time.Hour)
	s.awaitCount(t, webhooks.Succeeded, waiting)
}

func TestAutoDisable_ThirtyFailuresOverADay_Disabled(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.receiver.Answer(receiver.Always(receiver.Answer{Status: 503}))
	begin := s.Clock.Now()
	s.customers(t, 12)
	s.quiet(t)
	warned := map[int]bool{}
	for {
		found := s.subscription(t)
		warned[found.Warned] = true
		if found.Status == webhooks.Disabled {
			break
		}
		require.False(t, found.ConsecutiveFailures >= 30 && s.Clock.Now().Sub(begin) > 25*time.Hour, "%+v", found)
		s.Pass(t, time.Hour)
		s.quiet(t)
	}
	found := s.subscription(t)
	require.Equal(t, webhooks.ReasonFailures, *found.DisabledReason)
	require.GreaterOrEqual(t, found.ConsecutiveFailures, 30)
	require.GreaterOrEqual(t, s.Clock.Now().Sub(begin), 24*time.Hour)
	require.True(t, warned[50] && warned[70] && warned[90], "%v", warned)
	before := s.receiver.Count()
	s.Customer(t, s.org)
	s.Pass(t, 50*time.Hour)
	s.quiet(t)
	require.Equal(t, before, s.receiver.Count(), "a disabled one is left alone")
}

// One of three attempts succeeds, for days.
func TestAutoDisable_SporadicFailures_NotDisabled(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.receiver.Answer(func(r receiver.Request) receiver.Answer {
		if r.Number%3 == 0 {
			return receiver.Answer{}
		}
		return receiver.Answer{Status: 500}
	})
	for range 40 {
		s.customers(t, 2)
		s.Pass(t, 2*time.Hour)
		s.quiet(t)
		require.Equal(t, webhooks.Active, s.subscription(t).Status)
	}
	require.Greater(t, s.receiver.Count(), 100)
}

// Failures of attempts that were under way neither resume the lane nor unblock it later.
func TestBreaker_FailuresWhilePaused_LaneStaysBlocked(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	hold := make(chan struct{})
	s.receiver.Answer(receiver.Always(receiver.Answer{Status: 500, Hold: hold}))
	s.customers(t, 30)
	s.receiver.WaitCount(t, 1, patience)
	s.pause(t)
	close(hold)
	s.rest(t)
	before := s.receiver.Count()
	require.Less(t, before, 30)
	s.receiver.Answer(receiver.Always(receiver.Answer{}))
	s.Pass(t, 5*time.Hour)
	s.quiet(t)
	require.Equal(t, before, s.receiver.Count(), "paused is paused")
	require.Equal(t, webhooks.Paused, s.subscription(t).Status)
	s.resume(t)
	s.awaitCount(t, webhooks.Succeeded, 30)
}
