package ratelimit_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

// drain takes until refused and tells how much there was.
func drain(ctx context.Context, l *ratelimit.Limiter, key string, limit ratelimit.Limit) int {
	granted := 0
	for l.Take(ctx, key, limit).Allowed {
		granted++
	}
	return granted
}

func TestLimiter_RedisGoneAtStart(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	l := limiter(t, ratelimit.Options{Redis: hasty(t, "unix:///nowhere/redis", 0), Registerer: registry})
	limit := ratelimit.Limit{PerSecond: 1, Burst: 200}
	started := time.Now()
	granted := drain(t.Context(), l, "key", limit)
	assert.InDelta(t, limit.Burst, granted, 1+time.Since(started).Seconds())
	assert.True(t, fallback(t, registry)())
	assert.Less(t, time.Since(started), 3*50*time.Millisecond+time.Second)
}

func TestLimiter_RedisStopsAndReturns(t *testing.T) {
	t.Parallel()
	server, registry := ownRedis(t), prometheus.NewPedanticRegistry()
	var lines bytes.Buffer
	l := limiter(t, ratelimit.Options{
		Redis: hasty(t, server.url(), 0), Registerer: registry, ProbeEvery: 20 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(&lines, nil)),
	})
	limit, started := ratelimit.Limit{PerSecond: 1, Burst: 100}, time.Now()
	granted := 0
	for range 40 {
		require.True(t, l.Take(t.Context(), "key", limit).Allowed)
		granted++
	}

	server.stop()
	granted += drain(t.Context(), l, "key", limit)
	for i := 0; !fallback(t, registry)(); i++ {
		l.Take(t.Context(), strings.Repeat("x", i), limit)
		require.Less(t, i, 20, "few failures open the breaker")
	}
	assert.InDelta(t, limit.Burst, granted, 1+time.Since(started).Seconds(), "goes on from what it last knew")

	server.start(t)
	require.Eventually(t, func() bool { return !fallback(t, registry)() }, 10*time.Second, time.Millisecond)
	granted += drain(t.Context(), l, "key", limit)
	assert.InDelta(t, limit.Burst, granted, 1+time.Since(started).Seconds(), "and tells the new Redis what was spent")
	assert.True(t, l.Take(t.Context(), "another", limit).Allowed)

	l.Close()
	assert.Contains(t, lines.String(), "ratelimit.redis_lost")
	assert.Contains(t, lines.String(), "ratelimit.redis_found")
}

func TestLimiter_RedisSlow(t *testing.T) {
	t.Parallel()
	server, registry := ownRedis(t), prometheus.NewPedanticRegistry()
	slow := slowProxy(t, server)
	l := limiter(t, ratelimit.Options{
		Redis: hasty(t, slow.url(), 0), Registerer: registry, ProbeEvery: 100 * time.Millisecond,
	})
	limit := ratelimit.Limit{PerSecond: 100, Burst: 200}
	require.Eventually(t, func() bool { // the connection is warm
		l.Take(t.Context(), "warm", limit)
		return value(t, registry, "parley_ratelimit_redis_calls_total") > value(t, registry, "parley_ratelimit_redis_errors_total")
	}, 5*time.Second, 10*time.Millisecond)

	slow.slow(2 * time.Second)
	var mu sync.Mutex
	var took []time.Duration
	var workers sync.WaitGroup
	for worker := range 10 {
		workers.Go(func() {
			key := unique(string(rune('a' + worker)))
			for range 400 {
				started := time.Now()
				l.Take(t.Context(), key, limit)
				mu.Lock()
				took = append(took, time.Since(started))
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	assert.True(t, fallback(t, registry)(), "open although every probe comes after half a breaker's time")
	slices.Sort(took)
	assert.Less(t, took[len(took)*99/100], 60*time.Millisecond)
	assert.Less(t, took[len(took)*98/100], 20*time.Millisecond, "only the first few pay")
	t.Logf("p50 %s, p99 %s, max %s", took[len(took)/2], took[len(took)*99/100], took[len(took)-1])

	slow.slow(0)
	require.Eventually(t, func() bool { return !fallback(t, registry)() }, 10*time.Second, time.Millisecond)
}

func TestLimiter_BudgetHoldsForACarelessClient(t *testing.T) {
	t.Parallel()
	slow := slowProxy(t, ownRedis(t))
	slow.slow(300 * time.Millisecond)
	careless := redis.NewClient(&redis.Options{Addr: slow.address})
	t.Cleanup(func() { _ = careless.Close() })
	l := limiter(t, ratelimit.Options{Redis: careless, Budget: 20 * time.Millisecond})
	started := time.Now()
	assert.True(t, l.Take(t.Context(), "key", ratelimit.Limit{PerSecond: 1, Burst: 1}).Allowed)
	assert.Less(t, time.Since(started), 200*time.Millisecond)
	assert.False(t, l.Take(t.Context(), "key", ratelimit.Limit{PerSecond: 1, Burst: 1}).Allowed)
}

func TestLimiter_CallerGone(t *testing.T) {
	t.Parallel()
	slow := slowProxy(t, ownRedis(t))
	slow.slow(time.Second)
	l := limiter(t, ratelimit.Options{Redis: client(t, slow.url()), Budget: patience})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	started := time.Now()
	assert.True(t, l.Take(ctx, "key", ratelimit.Limit{PerSecond: 1, Burst: 5}).Allowed)
	assert.Less(t, time.Since(started), 500*time.Millisecond)
}

func TestLimiter_RedisForgets(t *testing.T) {
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
		if processes[i/50%2].Take(t.Context(), "key", limit).Allowed {
			granted++
		}
	}
	assert.LessOrEqual(t, float64(granted), 2*(float64(limit.Burst)+1+time.Since(started).Seconds()))
}

func TestLimiter_CostsOneCallABlock(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	l := limiter(t, ratelimit.Options{Redis: client(t, commonRedis), Registerer: registry, Budget: patience})
	key, limit := unique("block"), ratelimit.Limit{PerSecond: 500, Burst: 1000}
	for range 400 {
		require.True(t, l.Take(t.Context(), key, limit).Allowed)
	}
	assert.LessOrEqual(t, value(t, registry, "parley_ratelimit_redis_calls_total"), 40.0)
	for range 2000 {
		l.Take(t.Context(), key, ratelimit.Limit{PerSecond: 1, Burst: 1})
	}
	assert.LessOrEqual(t, value(t, registry, "parley_ratelimit_redis_calls_total"), 60.0, "a refusal costs none")
}

func TestLimiter_CountsAndKeepsItsKeysTidy(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	conn := client(t, commonRedis)
	l := limiter(t, ratelimit.Options{Redis: conn, Registerer: registry, Budget: patience})
	key, limit := unique("tidy"), ratelimit.Limit{PerSecond: 10, Burst: 2}
	for range 2 {
		require.True(t, l.Take(t.Context(), key, limit).Allowed)
	}
	assert.InDelta(t, 2, value(t, registry, "parley_ratelimit_decisions_total", "allowed"), 0)
	l.Take(t.Context(), key, ratelimit.Limit{})
	assert.InDelta(t, 1, value(t, registry, "parley_ratelimit_decisions_total", "refused"), 0)

	left, err := conn.PTTL(t.Context(), "parley:rl:{"+key+"}").Result()
	require.NoError(t, err)
	assert.LessOrEqual(t, left, 200*time.Millisecond, "gone as soon as the bucket is full")
	assert.Positive(t, left)
}

func TestLimiter_AfterClose(t *testing.T) {
	t.Parallel()
	l := limiter(t, ratelimit.Options{Redis: client(t, commonRedis), Budget: patience})
	l.Close()
	l.Close()
	assert.True(t, l.Take(t.Context(), unique("closed"), ratelimit.Limit{PerSecond: 1, Burst: 1}).Allowed)
}

func TestConnect_RefusesABadURL(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"127.0.0.1:6379", "http://canary@x", "redis://:canary /@x", "redis://user:canary", "redis://x?canary=1"} {
		_, err := ratelimit.Connect(url, 0)
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "canary")
	}
}
