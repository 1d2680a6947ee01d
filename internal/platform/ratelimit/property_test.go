package ratelimit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ratelimit"
)

// grant is the time at which a token was granted: not before from and not after to.
type grant struct{ from, to time.Duration }

// withinLimit checks the limit over every span of time, not only over the whole run.
func withinLimit(t require.TestingT, limit ratelimit.Limit, grants []grant) {
	for i := range grants {
		for j := i; j < len(grants); j++ {
			stretch := grants[j].to - grants[i].from
			most := float64(limit.Burst) + float64(limit.PerSecond)*stretch.Seconds()
			if float64(j-i+1) > most {
				require.FailNow(t, "exceeded", "grants %d to %d within %s, %+v", i, j, stretch, limit)
			}
		}
	}
}

func limits() *rapid.Generator[ratelimit.Limit] {
	return rapid.Custom(func(t *rapid.T) ratelimit.Limit {
		return ratelimit.Limit{
			PerSecond: rapid.IntRange(1, 2000).Draw(t, "per_second"),
			Burst:     rapid.IntRange(1, 500).Draw(t, "burst"),
		}
	})
}

func TestLimiter_Local_NeverExceedsTheLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		start := time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)
		now := clock.NewManual(start)
		l := ratelimit.New(ratelimit.Options{Clock: now})
		defer l.Close()
		limit := limits().Draw(t, "limit")
		var grants []grant
		for range rapid.IntRange(1, 20).Draw(t, "rounds") {
			now.Move(time.Duration(rapid.IntRange(0, 300).Draw(t, "pause")) * time.Millisecond)
			at := now.Now().Sub(start)
			before := limit.Burst
			for range rapid.IntRange(1, 60).Draw(t, "requests") {
				d := l.Spend(t.Context(), "key", limit)
				require.Equal(t, d.Allowed, d.RetryAfter == 0)
				if !d.Allowed {
					require.Zero(t, d.Remaining)
					break
				}
				require.Less(t, d.Remaining, before, "time stands still, so there is no refill")
				before = d.Remaining
				grants = append(grants, grant{at, at})
			}
		}
		withinLimit(t, limit, grants)
	})
}

func TestLimiter_RetryAfter_IsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := clock.NewManual(time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC))
		l := ratelimit.New(ratelimit.Options{Clock: now})
		defer l.Close()
		limit := ratelimit.Limit{
			PerSecond: rapid.IntRange(1, 400).Draw(t, "per_second"),
			Burst:     rapid.IntRange(1, 50).Draw(t, "burst"),
		}
		var d ratelimit.Decision
		for d = l.Spend(t.Context(), "key", limit); d.Allowed; {
			d = l.Spend(t.Context(), "key", limit)
		}
		wait := (d.RetryAfter + time.Millisecond - 1).Truncate(time.Millisecond)
		now.Move(wait - time.Millisecond)
		require.False(t, l.Spend(t.Context(), "key", limit).Allowed)
		now.Move(time.Millisecond)
		require.True(t, l.Spend(t.Context(), "key", limit).Allowed)
	})
}

func TestLimiter_TwoProcesses_NeverExceedTheLimit(t *testing.T) {
	t.Parallel()
	processes := []*ratelimit.Limiter{
		limiter(t, ratelimit.Options{Redis: client(t, commonRedis), Budget: patience}),
		limiter(t, ratelimit.Options{Redis: client(t, commonRedis), Budget: patience}),
	}
	started := time.Now()
	rapid.Check(t, func(t *rapid.T) {
		key, limit := unique("processes"), limits().Draw(t, "limit")
		var grants []grant
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			time.Sleep(time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 3, 10}).Draw(t, "pause")) * time.Millisecond)
			process := processes[rapid.IntRange(0, 1).Draw(t, "process")]
			before, asked := limit.Burst, time.Since(started)
			for range rapid.IntRange(1, 80).Draw(t, "requests") {
				from := time.Since(started)
				d := process.Spend(t.Context(), key, limit)
				to := time.Since(started)
				require.GreaterOrEqual(t, d.Remaining, 0)
				require.Less(t, d.Remaining, limit.Burst)
				if !d.Allowed {
					break
				}
				// Remaining falls, except for the refill and rounding.
				refilled := float64(limit.PerSecond)*(to-asked+2*time.Millisecond).Seconds() + 2
				require.LessOrEqual(t, float64(d.Remaining), float64(before)+refilled)
				before, asked = d.Remaining, from
				grants = append(grants, grant{from, to})
			}
		}
		withinLimit(t, limit, grants)
	})
}
