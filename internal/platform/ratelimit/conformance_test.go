package ratelimit_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ratelimit"
)

// fixture is a limiter, with or without Redis, and a function that lets time pass.
type fixture struct {
	*ratelimit.Limiter

	pass func(time.Duration)
	// frozen is true when time passes only by pass.
	frozen bool
}

func TestLimiter_LocalAndRedis_SameDecisions(t *testing.T) {
	t.Parallel()
	setups := map[string]func(t *testing.T) fixture{
		"local": func(t *testing.T) fixture {
			t.Helper()
			now := clock.NewManual(time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC))
			return fixture{limiter(t, ratelimit.Options{Clock: now}), now.Move, true}
		},
		"redis": func(t *testing.T) fixture {
			t.Helper()
			return fixture{limiter(t, ratelimit.Options{Redis: client(t, commonRedis), Budget: patience}), time.Sleep, false}
		},
	}
	cases := map[string]func(t *testing.T, f fixture){
		"counts down, refuses, says when to retry": countsDown,
		"refills at its rate":                      refills,
		"keeps keys apart":                         keepsKeysApart,
		"is exact under concurrency":               exactUnderConcurrency,
		"allows nothing without a limit":           nothingWithoutLimit,
		"follows a change of plan":                 followsPlan,
	}
	for where, build := range setups {
		for what, check := range cases {
			t.Run(where+" "+what, func(t *testing.T) {
				t.Parallel()
				check(t, build(t))
			})
		}
	}
}

func countsDown(t *testing.T, f fixture) {
	t.Helper()
	key, limit, started := unique("countdown"), ratelimit.Limit{PerSecond: 1, Burst: 60}, time.Now()
	for spent := 1; spent <= limit.Burst; spent++ {
		d := f.Spend(t.Context(), key, limit)
		require.True(t, d.Allowed)
		assert.Equal(t, limit.Burst, d.Limit)
		refilled := 1 + time.Since(started).Seconds()
		assert.InDelta(t, limit.Burst-spent, d.Remaining, refilled)
		assert.InDelta(t, spent, d.ResetSeconds(), refilled)
		assert.Zero(t, d.RetryAfterSeconds())
	}
	d := f.Spend(t.Context(), key, limit)
	for d.Allowed { // a slow machine gave the bucket time to refill
		d = f.Spend(t.Context(), key, limit)
	}
	require.False(t, d.Allowed)
	assert.Zero(t, d.Remaining)
	assert.Equal(t, 1, d.RetryAfterSeconds())
	assert.Positive(t, d.RetryAfter)
	assert.LessOrEqual(t, d.RetryAfter, time.Second)
	assert.Equal(t, limit.Burst, d.ResetSeconds())
}

func refills(t *testing.T, f fixture) {
	t.Helper()
	key, limit := unique("refill"), ratelimit.Limit{PerSecond: 20, Burst: 5}
	var d ratelimit.Decision
	for d = f.Spend(t.Context(), key, limit); d.Allowed; {
		d = f.Spend(t.Context(), key, limit)
	}
	// RetryAfter is too short when the call was slow to reach Redis, so retry.
	for waited := time.Duration(0); !d.Allowed; d = f.Spend(t.Context(), key, limit) {
		require.Less(t, waited, patience)
		waited += d.RetryAfter + 2*time.Millisecond
		f.pass(d.RetryAfter + 2*time.Millisecond)
	}
	f.pass(300 * time.Millisecond)
	d = f.Spend(t.Context(), key, limit)
	assert.True(t, d.Allowed)
	assert.Equal(t, limit.Burst-1, d.Remaining, "the bucket was full, not more")
}

func keepsKeysApart(t *testing.T, f fixture) {
	t.Helper()
	limit := ratelimit.Limit{PerSecond: 1, Burst: 60}
	drain(t.Context(), f.Limiter, unique("apart"), limit)
	d := f.Spend(t.Context(), unique("apart"), limit)
	assert.True(t, d.Allowed)
	assert.Equal(t, limit.Burst-1, d.Remaining)
}

func exactUnderConcurrency(t *testing.T, f fixture) {
	t.Helper()
	key, limit := unique("many"), ratelimit.Limit{PerSecond: 1, Burst: 300}
	started := time.Now()
	var allowed atomic.Int64
	var workers sync.WaitGroup
	for range 30 {
		workers.Go(func() {
			for range 20 {
				if d := f.Spend(t.Context(), key, limit); d.Allowed {
					allowed.Add(1)
					assert.GreaterOrEqual(t, d.Remaining, 0)
					assert.Less(t, d.Remaining, limit.Burst)
				}
			}
		})
	}
	workers.Wait()
	extra := int64(time.Since(started)/time.Second) + 1
	assert.GreaterOrEqual(t, allowed.Load(), int64(300))
	assert.LessOrEqual(t, allowed.Load(), 300+extra)
}

func nothingWithoutLimit(t *testing.T, f fixture) {
	t.Helper()
	for _, limit := range []ratelimit.Limit{{}, {PerSecond: 5}, {Burst: 5}, {PerSecond: -1, Burst: 5}} {
		d := f.Spend(t.Context(), unique("none"), limit)
		assert.False(t, d.Allowed)
		assert.Equal(t, 1, d.RetryAfterSeconds())
	}
}

func followsPlan(t *testing.T, f fixture) {
	t.Helper()
	key := unique("plan")
	slow, fast := ratelimit.Limit{PerSecond: 1, Burst: 100}, ratelimit.Limit{PerSecond: 1000, Burst: 100}
	for f.Spend(t.Context(), key, slow).Allowed {
		continue
	}
	if first := f.Spend(t.Context(), key, fast); f.frozen { // otherwise a token may have come meanwhile
		assert.False(t, first.Allowed, "the bucket is as empty as before")
	}
	f.pass(110 * time.Millisecond)
	f.Spend(t.Context(), key, fast) // this call may be the first that tells Redis the new plan
	f.pass(110 * time.Millisecond)
	d := f.Spend(t.Context(), key, fast)
	assert.True(t, d.Allowed, "the new limit bounds the wait to 100 ms")
	assert.Equal(t, 99, d.Remaining)
}
