package webhooks_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/testkit/receiver"
)

func schedule() []time.Duration {
	return []time.Duration{
		5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
		2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 10 * time.Hour,
	}
}

// until moves the clock to a moment and wakes what is due.
func (s *fixture) until(t *testing.T, at time.Time) {
	t.Helper()
	s.Pass(t, at.Sub(s.Clock.Now()))
}

// Each of ten attempts starts at its time, which lies within the jitter of its step, and not a
// millisecond before.
func TestSchedule_EachStepToTheMillisecond(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.receiver.Answer(exceptBarriers(receiver.Answer{Status: 500, Body: []byte("no")}))
	customer := s.Customer(t, s.org)
	delivery := s.await(t, customer, webhooks.Failed, 1)
	for i, step := range schedule() {
		require.Equal(t, s.Clock.Now(), delivery.LastAttemptAt.UTC())
		wait := delivery.NextAttemptAt.Sub(*delivery.LastAttemptAt)
		require.GreaterOrEqual(t, wait, step*9/10-time.Millisecond, "attempt %d", i+2)
		require.LessOrEqual(t, wait, step*11/10, "attempt %d", i+2)

		s.until(t, delivery.NextAttemptAt.Add(-time.Millisecond))
		s.barrier(t)
		require.Equal(t, i+1, s.receiver.CountDelivery(delivery.ID.String()), "attempt %d came early", i+2)

		s.until(t, *delivery.NextAttemptAt)
		if i < len(schedule())-1 {
			delivery = s.await(t, customer, webhooks.Failed, i+2)
		}
	}
	delivery = s.await(t, customer, webhooks.Dead, 10)
	require.Nil(t, delivery.NextAttemptAt)
	s.requireAttempts(t, delivery, customer)
	s.Pass(t, 100*time.Hour)
	s.barrier(t)
	require.Equal(t, 10, s.receiver.CountDelivery(delivery.ID.String()), "dead is dead")
}

// requireAttempts checks what arrived and what is kept of ten attempts.
func (s *fixture) requireAttempts(t *testing.T, delivery webhooks.Delivery, customer customers.Customer) {
	t.Helper()
	detail, err := s.Webhooks.Delivery(t.Context(), s.org, delivery.ID)
	require.NoError(t, err)
	require.Len(t, detail.Attempts, 10)
	seen := 0
	for _, request := range s.receiver.Requests() {
		if isBarrier(request) {
			continue
		}
		seen++
		require.Equal(t, seen, request.Attempt())
		require.Equal(t, detail.Body, request.Body, "the bytes are the same in each attempt")
		require.Equal(t, delivery.EventID.String(), request.EventUID())
		require.Equal(t, delivery.EventKey, request.Header.Get("X-Svc-Event-Id"))
		require.Equal(t, customer.ID.String(), customerOf(t, request).ID)
		attempt := detail.Attempts[seen-1]
		require.Equal(t, seen, attempt.Attempt)
		require.Equal(t, 500, *attempt.ResponseStatus)
		require.Equal(t, "no", *attempt.ResponseBodySnippet)
		require.Equal(t, "status", *attempt.ErrorCode)
	}
	require.Equal(t, 10, seen)
	require.Equal(t, *delivery.LastAttemptAt, detail.Attempts[9].ID.CreatedAt())
}

// A delivery that spent ten attempts within a day (a new URL makes retries due at once) is
// tried every ten hours.
func TestSchedule_YoungDelivery_IsNotGivenUp(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.receiver.Answer(exceptBarriers(receiver.Answer{Status: 500}))
	customer := s.Customer(t, s.org)
	delivery := s.await(t, customer, webhooks.Failed, 1)
	s.exec(t, `UPDATE webhook_deliveries SET attempt_count = 9 WHERE org_id = @org_id`, nil)
	s.until(t, delivery.ID.CreatedAt().Add(24*time.Hour-time.Millisecond))
	delivery = s.await(t, customer, webhooks.Failed, 10)
	wait := delivery.NextAttemptAt.Sub(s.Clock.Now())
	require.GreaterOrEqual(t, wait, 9*time.Hour-time.Millisecond)
	require.LessOrEqual(t, wait, 11*time.Hour)
	s.until(t, *delivery.NextAttemptAt)
	s.await(t, customer, webhooks.Dead, 11)
}

// A slow failure is followed by as long a wait as a fast one.
func TestSchedule_WaitCountsFromTheEndOfAnAttempt(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	hold := make(chan struct{})
	s.receiver.Answer(receiver.Always(receiver.Answer{Status: 500, Hold: hold}))
	customer := s.Customer(t, s.org)
	s.receiver.WaitCount(t, 1, patience)
	s.Clock.Move(9 * time.Second)
	close(hold)
	delivery := s.await(t, customer, webhooks.Failed, 1)
	wait := delivery.NextAttemptAt.Sub(s.Clock.Now())
	require.GreaterOrEqual(t, wait, 4500*time.Millisecond-time.Millisecond)
	require.LessOrEqual(t, wait, 5500*time.Millisecond)
}

// Over real HTTP; next_internal_test.go covers all forms of the header.
func TestSchedule_RetryAfter(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	now := s.Clock.Now()
	for asked, want := range map[string][2]time.Duration{
		"8":  {8 * time.Second, 8 * time.Second},
		"10": {10 * time.Second, 10 * time.Second},
		"11": {10 * time.Second, 10 * time.Second},
		now.Add(8 * time.Second).Truncate(time.Second).Format(http.TimeFormat): {7 * time.Second, 8 * time.Second},
		now.Add(time.Hour).Format(http.TimeFormat):                             {10 * time.Second, 10 * time.Second},
		"99999999999999999999":                                                 {10 * time.Second, 10 * time.Second},
		"-8":                                                                   {4499 * time.Millisecond, 5500 * time.Millisecond},
		"1":                                                                    {4499 * time.Millisecond, 5500 * time.Millisecond},
		"whenever you like":                                                    {4499 * time.Millisecond, 5500 * time.Millisecond},
	} {
		for _, status := range []int{429, 503} {
			s.receiver.Answer(exceptBarriers(receiver.Answer{Status: status, RetryAfter: asked}))
			delivery := s.await(t, s.Customer(t, s.org), webhooks.Failed, 1)
			wait := delivery.NextAttemptAt.Sub(now)
			require.GreaterOrEqual(t, wait, want[0], "Retry-After: %s", asked)
			require.LessOrEqual(t, wait, want[1], "Retry-After: %s", asked)
			s.barrier(t) // the breaker stays shut
		}
	}
}
