package api

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clock"
)

// The more callers are refused for each that is served, the later they are asked back. It is forgotten in seconds.
func TestComeback_MoreRefusedThanServed_LaterRetryAfter(t *testing.T) {
	t.Parallel()
	now := clock.NewManual(time.UnixMilli(1_000_000))
	c := &comeback{clock: now}
	count := func(served, refused int) (last time.Duration) {
		t.Helper()
		for range served {
			require.NoError(t, c.count(nil))
		}
		for range refused {
			last = fault.As(c.count(fault.Unavailable(time.Second, errors.New("full")))).RetryAfter
		}
		return last
	}
	require.Equal(t, time.Second, count(100, 10), "few are refused")
	require.Equal(t, 2*time.Second, count(0, 90), "as many are refused as served")
	require.Equal(t, 6*time.Second, count(0, 400))
	require.Equal(t, latest, count(0, 5_000))
	now.Move(10 * forgotten)
	require.Equal(t, time.Second, count(100, 1), "the overload is over")
	now.Move(10 * forgotten)
	require.Equal(t, time.Second, count(0, few/3), "few answers")
	require.Equal(t, latest, count(0, 200), "nobody is served")
	now.Move(-time.Hour)
	require.Equal(t, latest, count(0, 1), "a clock that was put back changes nothing")
}

// Errors with a Retry-After of their own keep it, and those without get none.
func TestComeback_OtherErrors_Unchanged(t *testing.T) {
	t.Parallel()
	c := &comeback{clock: clock.NewManual(time.UnixMilli(1_000_000))}
	for range 200 {
		require.Equal(t, fault.ServiceUnavailable, faultOf(c.count(context.DeadlineExceeded)).Code)
	}
	refused := fault.As(c.count(context.DeadlineExceeded))
	require.Equal(t, latest, refused.RetryAfter, "a request that took too long")
	for _, err := range []error{fault.Moving(nil), fault.Missing("name"), errors.New("broken"), &fault.Error{
		Code: fault.RateLimitExceeded, RetryAfter: time.Second,
	}} {
		require.Equal(t, err, c.count(err))
	}
}
