package ratelimit_test

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/ratelimit"
)

// BenchmarkSpend compares one script per request (redis_rate) with leased blocks. Each has a
// Redis of its own, so that its CPU time can be measured too.
func BenchmarkSpend(b *testing.B) {
	cases := []struct {
		name          string
		limit         ratelimit.Limit
		organizations int
	}{
		{"one_busy", ratelimit.Limit{PerSecond: 1_000_000, Burst: 2_000_000}, 1},
		{"thousand_platform", ratelimit.Limit{PerSecond: 500, Burst: 1000}, 1000},
		{"one_over_its_limit", ratelimit.Limit{PerSecond: 500, Burst: 1000}, 1},
		{"cold", ratelimit.Limit{PerSecond: 20, Burst: 40}, 1_000_000},
	}
	for _, c := range cases {
		b.Run(c.name+"/each_request", func(b *testing.B) {
			conn := client(b, ownRedis(b).url())
			each := redis_rate.NewLimiter(conn)
			limit := redis_rate.Limit{Rate: c.limit.PerSecond, Burst: c.limit.Burst, Period: time.Second}
			measure(b, conn, c.organizations, func(ctx context.Context, key string) {
				_, err := each.Allow(ctx, key, limit)
				require.NoError(b, err)
			})
		})
		b.Run(c.name+"/leased", func(b *testing.B) {
			conn := client(b, ownRedis(b).url())
			leased := limiter(b, ratelimit.Options{Redis: conn})
			measure(b, conn, c.organizations, func(ctx context.Context, key string) {
				leased.Spend(ctx, key, c.limit)
			})
		})
	}
	b.Run("local", func(b *testing.B) {
		alone := limiter(b, ratelimit.Options{})
		for b.Loop() {
			alone.Spend(b.Context(), "key", cases[0].limit)
		}
	})
}

func measure(b *testing.B, conn redis.UniversalClient, organizations int, take func(context.Context, string)) {
	b.Helper()
	keys := make([]string, organizations)
	for i := range keys {
		keys[i] = "org" + strconv.Itoa(i)
	}
	var next atomic.Int64
	ours, theirs := cpu(b), redisCPU(b, conn)
	b.SetParallelism(8)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			take(b.Context(), keys[int(next.Add(1))%len(keys)])
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
	b.ReportMetric(float64(cpu(b)-ours)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(redisCPU(b, conn)-theirs)/float64(b.N), "redis-cpu-ns/op")
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func redisCPU(b *testing.B, conn redis.UniversalClient) time.Duration {
	b.Helper()
	text, err := conn.Info(b.Context(), "cpu").Result()
	require.NoError(b, err)
	var sum float64
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, err := strconv.ParseFloat(value, 64)
			require.NoError(b, err)
			sum += seconds
		}
	}
	return time.Duration(sum * float64(time.Second))
}
