package ratelimit_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ratelimit"
)

func TestLocal_SpendAndPeek_Agree(t *testing.T) {
	t.Parallel()
	now := clock.NewManual(time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC))
	failures := ratelimit.NewLocal(ratelimit.Limit{PerSecond: 1, Burst: 3}, now)
	const address = "192.0.2.1"

	assert.Equal(t, 3, failures.Peek(address).Remaining)
	for left := 2; left >= 0; left-- {
		assert.True(t, failures.Peek(address).Allowed)
		d := failures.Spend(address)
		assert.True(t, d.Allowed)
		assert.Equal(t, left, d.Remaining)
	}
	for range 5 {
		d := failures.Peek(address)
		assert.False(t, d.Allowed)
		assert.Equal(t, 1, d.RetryAfterSeconds())
		assert.Equal(t, 3, d.ResetSeconds())
	}
	assert.False(t, failures.Spend(address).Allowed)
	assert.True(t, failures.Spend("192.0.2.2").Allowed)

	now.Move(time.Second)
	assert.Equal(t, 1, failures.Peek(address).Remaining)
	assert.True(t, failures.Spend(address).Allowed)
	assert.False(t, ratelimit.NewLocal(ratelimit.Limit{}, now).Peek(address).Allowed)
}

func TestLimiter_TooManyKeys_EvictsTheLeastRecentlyUsed(t *testing.T) {
	t.Parallel()
	now := clock.NewManual(time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC))
	l := limiter(t, ratelimit.Options{Clock: now, Keys: 10})
	once := ratelimit.Limit{PerSecond: 1, Burst: 1}
	for i := range 11 {
		assert.True(t, l.Spend(t.Context(), strconv.Itoa(i), once).Allowed)
	}
	assert.False(t, l.Spend(t.Context(), "10", once).Allowed, "remembered")
	assert.True(t, l.Spend(t.Context(), "0", once).Allowed, "forgotten")
}

func TestLimiter_ClockGoesBack_WaitsAtMostOneToken(t *testing.T) {
	t.Parallel()
	now := clock.NewManual(time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC))
	l := limiter(t, ratelimit.Options{Clock: now})
	limit := ratelimit.Limit{PerSecond: 10, Burst: 10}
	drain(t.Context(), l, "key", limit)
	now.Move(-time.Hour)
	d := l.Spend(t.Context(), "key", limit)
	assert.False(t, d.Allowed)
	assert.Equal(t, 1, d.RetryAfterSeconds())
	now.Move(d.RetryAfter)
	assert.True(t, l.Spend(t.Context(), "key", limit).Allowed)
}

func TestDecision_HeaderSeconds_RoundedUp(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 2, ratelimit.Decision{RetryAfter: 1001 * time.Millisecond}.RetryAfterSeconds())
	assert.Equal(t, 1, ratelimit.Decision{RetryAfter: time.Second}.RetryAfterSeconds())
	assert.Equal(t, 1, ratelimit.Decision{}.RetryAfterSeconds())
	assert.Equal(t, 1, ratelimit.Decision{Reset: 1}.ResetSeconds())
	assert.Zero(t, ratelimit.Decision{Allowed: true}.ResetSeconds())
}
