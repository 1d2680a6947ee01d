package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/proc"
)

var withoutRedis = sized[int64](500, 2_000)

// keysOf creates organizations and returns a key of each. Each organization has its own bucket in
// Redis.
func (f *fixture) keysOf(t *testing.T, organizations int) []string {
	t.Helper()
	keys := make([]string, organizations)
	for i := range keys {
		_, keys[i] = f.key(t, f.org(t, unlimited))
	}
	return keys
}

// run sends n requests with eight clients, and counts in done how many were answered.
func run(t *testing.T, server *server, keys []string, n int64, done *atomic.Int64) error {
	t.Helper()
	return each(workers, func(worker int) error {
		caller := server.client("")
		for i := worker; i < int(n); i += workers {
			mine := &client{base: caller.base, key: keys[i%len(keys)], http: caller.http}
			sent := call{method: http.MethodGet, path: "/labels?limit=1"}
			if i%10 == 0 {
				sent = creating(fmt.Sprint("label ", i), "")
			}
			got, err := mine.do(t.Context(), sent)
			if err != nil {
				return err
			}
			if got.status != http.StatusOK && got.status != http.StatusCreated {
				return fmt.Errorf("request %d: %d %s", i, got.status, got.body)
			}
			done.Add(1)
		}
		return nil
	})
}

func TestRedisNotReachable_RequestsSucceed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	keys := f.keysOf(t, 20)
	server := f.serve(t, proc.Settings{"PARLEY_REDIS_URL": "redis://" + proc.FreeAddress(t)})
	var done atomic.Int64
	started := time.Now()
	require.NoError(t, run(t, server, keys, withoutRedis, &done))
	require.Equal(t, withoutRedis, done.Load())
	require.Equal(t, 1, server.metric(t, "parley_ratelimit_redis_fallback"), "the limiter reports that it works without Redis")
	t.Logf("%d requests in %s without Redis: 0 errors", withoutRedis, time.Since(started))
}

func TestRedisKilled_RequestsSucceed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	keys := f.keysOf(t, 20)
	store := proc.NewRedis(t)
	server := f.serve(t, proc.Settings{"PARLEY_REDIS_URL": store.URL()})
	var done atomic.Int64
	ended := make(chan error, 1)
	go func() { ended <- run(t, server, keys, withoutRedis, &done) }()
	after := func(share int64) {
		t.Helper()
		proc.Eventually(t, proc.Patience, "progress", func() bool { return done.Load() >= withoutRedis*share/10 || len(ended) > 0 })
	}
	after(2)
	store.Kill()
	after(4)
	store.Start(t)
	admin := redis.NewClient(&redis.Options{Addr: store.Address})
	defer admin.Close()
	for share := int64(5); share < 8; share++ {
		after(share)
		require.NoError(t, admin.FlushAll(t.Context()).Err())
	}
	store.Kill()
	require.NoError(t, <-ended)
	require.Equal(t, withoutRedis, done.Load())
	t.Logf("%d requests while Redis was killed twice and flushed three times: 0 errors; %d of %d calls to Redis failed",
		withoutRedis, server.metric(t, "parley_ratelimit_redis_errors_total"), server.metric(t, "parley_ratelimit_redis_calls_total"))
}

const (
	slowness     = 2 * time.Second
	addedAtMost  = 60 * time.Millisecond
	interleavers = 4
)

// The test is not parallel, because its proof measures milliseconds.
func TestRedisSlow_RequestsStayFast(t *testing.T) { //nolint:paralleltest // as above
	f := newFixture(t)
	keys := f.keysOf(t, 50)
	store := proc.NewRedis(t)
	slow := proc.NewProxy(t, store.Address)
	baseline := f.serve(t, proc.Settings{"PARLEY_REDIS_URL": store.URL()})
	delayed := f.serve(t, proc.Settings{"PARLEY_REDIS_URL": "redis://" + slow.Address})
	rounds, perRound := sized(1, 3), sized(1_000, 3_000)
	waitAtMost := 30 // requests that wait before the limiter stops calling a slow Redis
	added := make([]time.Duration, rounds)
	for round := range rounds {
		slow.Delay(0)
		proc.Eventually(t, proc.Patience, "the limiter finds Redis", func() bool {
			return delayed.metric(t, "parley_ratelimit_redis_fallback") == 0
		})
		slow.Delay(slowness)
		began, before := time.Now(), delayed.metric(t, "parley_ratelimit_redis_calls_total")
		baselineTook, delayedTook := interleave(t, baseline, delayed, keys, perRound)
		asked, probes := delayed.metric(t, "parley_ratelimit_redis_calls_total")-before, int(time.Since(began).Seconds())+1
		require.LessOrEqual(t, asked, waitAtMost+probes, "the others do not wait for Redis")
		added[round] = quantile(delayedTook, .99) - quantile(baselineTook, .99)
		t.Logf("round %d, %d requests each: baseline p50 %s p99 %s max %s; slow Redis p50 %s p99 %s max %s; p99 %+v; fallback %d", round+1, perRound,
			quantile(baselineTook, .5), quantile(baselineTook, .99), quantile(baselineTook, 1),
			quantile(delayedTook, .5), quantile(delayedTook, .99), quantile(delayedTook, 1), added[round],
			delayed.metric(t, "parley_ratelimit_redis_fallback"))
		require.Equal(t, 1, delayed.metric(t, "parley_ratelimit_redis_fallback"), "the delay had an effect")
	}
	slices.Sort(added)
	t.Logf("added p99, median of %d: %s; calls to Redis: baseline %d, slow %d", rounds, added[rounds/2],
		baseline.metric(t, "parley_ratelimit_redis_calls_total"), delayed.metric(t, "parley_ratelimit_redis_calls_total"))
	require.LessOrEqual(t, added[rounds/2], within(addedAtMost))
}

// interleave sends requests to two processes in turn, so that noise of the machine affects both.
func interleave(t *testing.T, one, other *server, keys []string, perRound int) (ofOne, ofOther []time.Duration) {
	t.Helper()
	var mu sync.Mutex
	require.NoError(t, each(interleavers, func(worker int) error {
		callers := []*client{one.client(""), other.client("")}
		var took [2][]time.Duration
		for i := worker; i < perRound; i += interleavers {
			for side, caller := range callers {
				caller.key = keys[i%len(keys)]
				got, err := caller.get(t.Context(), "/labels?limit=1")
				if err != nil || got.status != http.StatusOK {
					return fmt.Errorf("%d %s %w", got.status, got.body, err)
				}
				took[side] = append(took[side], got.took)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		ofOne, ofOther = append(ofOne, took[0]...), append(ofOther, took[1]...)
		return nil
	}))
	return ofOne, ofOther
}
