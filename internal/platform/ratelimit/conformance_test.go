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

// world is one way to run a limiter, with its own way to let time pass.
type world struct {
	*ratelimit.Limiter

	pass func(time.Duration)
	// frozen is true where time passes only by pass.
	frozen bool
}

func TestLimiter_Conformance(t *testing.T) {
	t.Parallel()
	worlds := map[string]func(t *testing.T) world{
		"local": func(t *testing.T) world {
			t.Helper()
			hands := clock.NewManual(time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC))
			return world{limiter(t, ratelimit.Options{Clock: hands}), hands.Move, true}
		},
		"redis": func(t *testing.T) world {
			t.Helper()
			return world{limiter(t, ratelimit.Options{Redis: client(t, commonRedis), Budget: patience}), time.Sleep, false}
		},
	}
	cases := map[string]func(t *testing.T, w world){
		"counts down, refuses, says when to come back": countsDown,
		"refills at its rate":                          refills,
		"keeps keys apart":                             keepsKeysApart,
		"gives what many ask for at once exactly once": exactUnderConcurrency,
		"allows nothing without a limit":               nothingWithoutLimit,
		"follows a change of plan":                     followsPlan,
	}
	for where, build := range worlds {
		for what, check := range cases {
			t.Run(where+" "+what, func(t *testing.T) {
				t.Parallel()
				check(t, build(t))
			})
		}
	}
}

func countsDown(t *testing.T, w world) {
	t.Helper()
	key, limit, started := unique("countdown"), ratelimit.Limit{PerSecond: 1, Burst: 60}, time.Now()
	for spent := 1; spent <= limit.Burst; spent++ {
		d := w.Take(t.Context(), key, limit)
		require.True(t, d.Allowed)
		assert.Equal(t, limit.Burst, d.Limit)
		refilled := 1 + time.Since(started).Seconds()
		assert.InDelta(t, limit.Burst-spent, d.Remaining, refilled)
		assert.InDelta(t, spent, d.ResetSeconds(), refilled)
		assert.Zero(t, d.RetryAfterSeconds())
	}
	d := w.Take(t.Context(), key, limit)
	for d.Allowed { // what a slow machine let in
		d = w.Take(t.Context(), key, limit)
	}
	require.False(t, d.Allowed)
	assert.Zero(t, d.Remaining)
	assert.Equal(t, 1, d.RetryAfterSeconds())
	assert.Positive(t, d.RetryAfter)
	assert.LessOrEqual(t, d.RetryAfter, time.Second)
	assert.Equal(t, limit.Burst, d.ResetSeconds())
}

func refills(t *testing.T, w world) {
	t.Helper()
	key, limit := unique("refill"), ratelimit.Limit{PerSecond: 20, Burst: 5}
	var d ratelimit.Decision
	for d = w.Take(t.Context(), key, limit); d.Allowed; {
		d = w.Take(t.Context(), key, limit)
	}
	// After as long as it asked for; a question that was slow to reach Redis makes that too short.
	for waited := time.Duration(0); !d.Allowed; d = w.Take(t.Context(), key, limit) {
		require.Less(t, waited, patience)
		waited += d.RetryAfter + 2*time.Millisecond
		w.pass(d.RetryAfter + 2*time.Millisecond)
	}
	w.pass(300 * time.Millisecond)
	d = w.Take(t.Context(), key, limit)
	assert.True(t, d.Allowed)
	assert.Equal(t, limit.Burst-1, d.Remaining, "full again and never fuller")
}

func keepsKeysApart(t *testing.T, w world) {
	t.Helper()
	limit := ratelimit.Limit{PerSecond: 1, Burst: 60}
	drain(t.Context(), w.Limiter, unique("apart"), limit)
	d := w.Take(t.Context(), unique("apart"), limit)
	assert.True(t, d.Allowed)
	assert.Equal(t, limit.Burst-1, d.Remaining)
}

func exactUnderConcurrency(t *testing.T, w world) {
	t.Helper()
	key, limit := unique("many"), ratelimit.Limit{PerSecond: 1, Burst: 300}
	started := time.Now()
	var allowed atomic.Int64
	var workers sync.WaitGroup
	for range 30 {
		workers.Go(func() {
			for range 20 {
				if d := w.Take(t.Context(), key, limit); d.Allowed {
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

func nothingWithoutLimit(t *testing.T, w world) {
	t.Helper()
	for _, limit := range []ratelimit.Limit{{}, {PerSecond: 5}, {Burst: 5}, {PerSecond: -1, Burst: 5}} {
		d := w.Take(t.Context(), unique("none"), limit)
		assert.False(t, d.Allowed)
		assert.Equal(t, 1, d.RetryAfterSeconds())
	}
}

func followsPlan(t *testing.T, w world) {
	t.Helper()
	key := unique("plan")
	slow, fast := ratelimit.Limit{PerSecond: 1, Burst: 100}, ratelimit.Limit{PerSecond: 1000, Burst: 100}
	for w.Take(t.Context(), key, slow).Allowed {
		continue
	}
	if first := w.Take(t.Context(), key, fast); w.frozen { // else a token may have come since
		assert.False(t, first.Allowed, "the bucket is as empty as before")
	}
	w.pass(110 * time.Millisecond)
	w.Take(t.Context(), key, fast) // Redis may hear of the new plan only now
	w.pass(110 * time.Millisecond)
	d := w.Take(t.Context(), key, fast)
	assert.True(t, d.Allowed, "a debt of 100 seconds is one of 100 tokens")
	assert.Equal(t, 99, d.Remaining)
}
