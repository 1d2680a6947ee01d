package ratelimit_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ratelimit"
)

// value reads a metric; label is the value of its one label, if it has any.
func value(t testing.TB, registry *prometheus.Registry, name string, label ...string) float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() != name || len(label) > 0 && metric.GetLabel()[0].GetValue() != label[0] {
				continue
			}
			return metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	require.Fail(t, "no such metric", name)
	return 0
}

func fallback(t testing.TB, registry *prometheus.Registry) func() bool {
	t.Helper()
	return func() bool { return value(t, registry, "parley_ratelimit_redis_fallback") == 1 }
}

// drain spends tokens until one is refused and returns how many were granted.
func drain(ctx context.Context, l *ratelimit.Limiter, key string, limit ratelimit.Limit) int {
	granted := 0
	for l.Spend(ctx, key, limit).Allowed {
		granted++
	}
	return granted
}

func TestLimiter_RedisDownAtStart_DecidesLocally(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	l := limiter(t, ratelimit.Options{Redis: client(t, "unix:///nowhere/redis"), Registerer: registry, ProbeEvery: time.Hour})
	limit := ratelimit.Limit{PerSecond: 1, Burst: 200}
	started := time.Now()
	granted := drain(t.Context(), l, "key", limit)
	assert.InDelta(t, limit.Burst, granted, 1+time.Since(started).Seconds())
	assert.True(t, fallback(t, registry)())
	assert.InDelta(t, 3, value(t, registry, "parley_ratelimit_redis_calls_total"), 0, "the breaker is open: the others do not ask")
}

func TestLimiter_RedisRestarts_LimitHolds(t *testing.T) {
	t.Parallel()
	server, registry := ownRedis(t), prometheus.NewPedanticRegistry()
	var lines bytes.Buffer
	l := limiter(t, ratelimit.Options{
		Redis: client(t, server.url()), Budget: patience, Registerer: registry, ProbeEvery: 20 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(&lines, nil)),
	})
	limit, started := ratelimit.Limit{PerSecond: 1, Burst: 100}, time.Now()
	granted := 0
	for range 40 {
		require.True(t, l.Spend(t.Context(), "key", limit).Allowed)
		granted++
	}

	server.stop()
	granted += drain(t.Context(), l, "key", limit)
	for i := 0; !fallback(t, registry)(); i++ {
		l.Spend(t.Context(), strings.Repeat("x", i), limit)
		require.Less(t, i, 20, "few failures open the breaker")
	}
	assert.InDelta(t, limit.Burst, granted, 1+time.Since(started).Seconds(), "continues from the last state that it read")

	server.start(t)
	require.Eventually(t, func() bool { return !fallback(t, registry)() }, patience, time.Millisecond)
	granted += drain(t.Context(), l, "key", limit)
	assert.InDelta(t, limit.Burst, granted, 1+time.Since(started).Seconds(), "the new Redis learns how much was spent")
	assert.True(t, l.Spend(t.Context(), "another", limit).Allowed)

	l.Close()
	assert.Contains(t, lines.String(), "ratelimit.redis_lost")
	assert.Contains(t, lines.String(), "ratelimit.redis_found")
}

// warmed returns a limiter that has already called Redis through a proxy.
func warmed(t testing.TB, probeEvery time.Duration) (*ratelimit.Limiter, *proxy, *prometheus.Registry) {
	t.Helper()
	registry, between := prometheus.NewPedanticRegistry(), proxyTo(t, ownRedis(t))
	l := limiter(t, ratelimit.Options{Redis: hasty(t, between.url(), 0), Registerer: registry, ProbeEvery: probeEvery})
	require.Eventually(t, func() bool {
		l.Spend(t.Context(), "warm", ratelimit.Limit{PerSecond: 100, Burst: 200})
		return value(t, registry, "parley_ratelimit_redis_calls_total") > value(t, registry, "parley_ratelimit_redis_errors_total")
	}, patience, 10*time.Millisecond)
	return l, between, registry
}

func TestLimiter_RedisSlow_DecidesLocally(t *testing.T) {
	t.Parallel()
	l, between, registry := warmed(t, 100*time.Millisecond)
	errors := func() float64 { return value(t, registry, "parley_ratelimit_redis_errors_total") }
	between.hold()
	require.Eventually(t, func() bool {
		assert.True(t, l.Spend(t.Context(), unique("slow"), ratelimit.Limit{PerSecond: 100, Burst: 200}).Allowed)
		return fallback(t, registry)()
	}, patience, time.Millisecond)
	before := errors()
	require.Eventually(t, func() bool {
		assert.True(t, fallback(t, registry)(), "the breaker stays open after each probe")
		return errors() >= before+3
	}, patience, time.Millisecond)

	between.release()
	require.Eventually(t, func() bool { return !fallback(t, registry)() }, patience, time.Millisecond)
}

func TestLimiter_RedisHangs_OnlyFewRequestsWait(t *testing.T) {
	t.Parallel()
	l, between, registry := warmed(t, time.Hour) // no probes: each call to Redis is one of a request
	calls := func() float64 { return value(t, registry, "parley_ratelimit_redis_calls_total") }
	between.hold()
	defer between.release()
	before := calls()
	var workers sync.WaitGroup
	for worker := range 10 {
		workers.Go(func() {
			key := unique(string(rune('a' + worker)))
			for range 400 {
				l.Spend(t.Context(), key, ratelimit.Limit{PerSecond: 100, Burst: 200})
			}
		})
	}
	workers.Wait()
	assert.LessOrEqual(t, calls()-before, 40.0, "of 4,000")
}

func TestLimiter_ClientWithoutTimeout_BudgetHolds(t *testing.T) {
	t.Parallel()
	between := proxyTo(t, ownRedis(t))
	between.hold()
	defer between.release()
	careless := redis.NewClient(&redis.Options{Addr: between.address, ReadTimeout: -1}) // waits for ever
	t.Cleanup(func() { _ = careless.Close() })
	l := limiter(t, ratelimit.Options{Redis: careless, Budget: 20 * time.Millisecond})
	limit, started := ratelimit.Limit{PerSecond: 1, Burst: 10}, time.Now()
	returns(t, func() {
		granted := drain(t.Context(), l, "key", limit)
		assert.InDelta(t, limit.Burst, granted, 1+time.Since(started).Seconds())
	})
}

func TestLimiter_CallerCancelled_AllowedLocally(t *testing.T) {
	t.Parallel()
	between := proxyTo(t, ownRedis(t))
	between.hold()
	defer between.release()
	l := limiter(t, ratelimit.Options{Redis: hasty(t, between.url(), time.Hour), Budget: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	returns(t, func() {
		assert.True(t, l.Spend(ctx, "key", ratelimit.Limit{PerSecond: 1, Burst: 5}).Allowed)
	})
}

func TestLimiter_RedisLosesItsKeys_AtMostOneBucketPerProcess(t *testing.T) {
	t.Parallel()
	server := ownRedis(t)
	conn, limit := client(t, server.url()), ratelimit.Limit{PerSecond: 1, Burst: 100}
	processes := []*ratelimit.Limiter{
		limiter(t, ratelimit.Options{Redis: client(t, server.url()), Budget: patience}),
		limiter(t, ratelimit.Options{Redis: client(t, server.url()), Budget: patience}),
	}
	started, granted := time.Now(), 0
	for i := range 1000 {
		if i%10 == 0 {
			require.NoError(t, conn.FlushAll(t.Context()).Err())
			require.NoError(t, conn.ScriptFlush(t.Context()).Err())
		}
		if processes[i/50%2].Spend(t.Context(), "key", limit).Allowed {
			granted++
		}
	}
	assert.LessOrEqual(t, float64(granted), 2*(float64(limit.Burst)+1+time.Since(started).Seconds()))
}

func TestLimiter_ManyRequests_OneRedisCallPerBlock(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	l := limiter(t, ratelimit.Options{
		Redis: client(t, commonRedis), Registerer: registry, Budget: patience,
		Clock: clock.NewManual(time.Now()), // stands still, because leased tokens expire
	})
	key, limit := unique("block"), ratelimit.Limit{PerSecond: 500, Burst: 1000}
	for range 400 {
		require.True(t, l.Spend(t.Context(), key, limit).Allowed)
	}
	assert.LessOrEqual(t, value(t, registry, "parley_ratelimit_redis_calls_total"), 40.0)
	for range 2000 {
		l.Spend(t.Context(), key, ratelimit.Limit{PerSecond: 1, Burst: 1})
	}
	assert.LessOrEqual(t, value(t, registry, "parley_ratelimit_redis_calls_total"), 60.0, "a refusal costs none")
}

func TestLimiter_Keys_ExpireWhenTheBucketIsFull(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	conn := client(t, commonRedis)
	l := limiter(t, ratelimit.Options{Redis: conn, Registerer: registry, Budget: patience})
	key, limit := unique("tidy"), ratelimit.Limit{PerSecond: 1, Burst: 60}
	for range 60 {
		require.True(t, l.Spend(t.Context(), key, limit).Allowed)
	}
	assert.InDelta(t, 60, value(t, registry, "parley_ratelimit_decisions_total", "allowed"), 0)
	l.Spend(t.Context(), key, ratelimit.Limit{})
	assert.InDelta(t, 1, value(t, registry, "parley_ratelimit_decisions_total", "refused"), 0)

	left, err := conn.PTTL(t.Context(), "parley:rl:{"+key+"}").Result()
	require.NoError(t, err)
	assert.LessOrEqual(t, left, time.Minute, "the key expires when the bucket is full")
	assert.Positive(t, left)
}

func TestLimiter_Closed_DecidesLocally(t *testing.T) {
	t.Parallel()
	l := limiter(t, ratelimit.Options{Redis: client(t, commonRedis), Budget: patience})
	l.Close()
	l.Close()
	assert.True(t, l.Spend(t.Context(), unique("closed"), ratelimit.Limit{PerSecond: 1, Burst: 1}).Allowed)
}

func TestConnect_BadURL_RefusedWithoutQuotingIt(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"127.0.0.1:6379", "http://canary@x", "redis://:canary /@x", "redis://user:canary", "redis://x?canary=1"} {
		_, err := ratelimit.Connect(url, 0)
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "canary")
	}
}
