package ratelimit

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/sony/gobreaker/v2"
)

//go:embed take.lua
var takeSource string

var takeScript = redis.NewScript(takeSource) //nolint:gochecknoglobals // a compiled constant

// mostIdle goroutines wait for the next call to Redis.
const mostIdle = 16

// Connect opens a client that never outlives budget: a limiter would rather decide alone
// than wait for a retry.
func Connect(url string, budget time.Duration) (redis.UniversalClient, error) {
	opts, err := redis.ParseURL(url)
	if err != nil {
		// The parser's own words would quote the password.
		return nil, errors.New("redis url: must be redis://, rediss:// or unix:// with options that go-redis knows")
	}
	budget = orDefault(budget, defaultBudget)
	opts.MaxRetries = -1
	opts.DialerRetries = 1
	opts.DialTimeout = budget
	opts.ReadTimeout = budget
	opts.WriteTimeout = budget
	opts.PoolTimeout = budget
	opts.ContextTimeoutEnabled = true
	// Both cost a new connection a round trip that the first request would wait for.
	opts.DisableIdentity = true
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	// Every error comes back to us; go-redis would print it a second time, as plain text to stderr.
	logging.Disable()
	return redis.NewClient(opts), nil
}

// question asks for the tokens of requests that wait, and if many are left for a block more.
type question struct {
	key   string
	shape shape
	want  int64
	block int64
	// missing is what this process knows the bucket to miss, in case Redis has lost it.
	missing int64
}

// answer is what was granted, and how long the bucket then takes to be full.
type answer struct {
	tokens  int64
	missing int64
}

// launch asks in a goroutine of its own, because a request that gives up must not take
// the answer away from the others.
func (l *Limiter) launch(ctx context.Context, e *entry, now int64) {
	asked := question{key: e.key, shape: e.shape, want: e.waiting - e.arrived, block: e.block(), missing: e.missing(now)}
	f := e.flight
	e.unbooked = 0
	l.run(func() {
		reply, err := l.breaker.Execute(func() (answer, error) { return l.ask(context.WithoutCancel(ctx), asked) })
		e.mu.Lock()
		if err == nil {
			e.book(now, asked.shape, reply)
		}
		e.flight = nil
		e.mu.Unlock()
		f.failed = err != nil
		close(f.done)
	})
}

// run prefers a goroutine that has asked before: growing a new stack to the depth of
// go-redis costs a fifth of a call.
func (l *Limiter) run(job func()) {
	select {
	case l.jobs <- job:
	default:
		l.flights.Go(func() {
			for job != nil {
				job()
				job = l.nextJob()
			}
		})
	}
}

// nextJob is nil when enough others wait for one, or the limiter closes.
func (l *Limiter) nextJob() func() {
	defer l.idle.Add(-1)
	if l.idle.Add(1) > mostIdle {
		return nil
	}
	select {
	case job := <-l.jobs:
		return job
	case <-l.stop:
		return nil
	}
}

func (l *Limiter) ask(ctx context.Context, q question) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, l.budget)
	defer cancel()
	l.metrics.redisCalls.Inc()
	reply, err := takeScript.Run(ctx, l.redis, []string{"parley:rl:{" + q.key + "}"},
		strconv.FormatFloat(float64(q.shape.interval)/1e3, 'f', -1, 64),
		q.shape.burst, q.want, q.block, q.missing/1e3).Int64Slice()
	if err == nil && len(reply) != 2 {
		err = errors.New("take.lua: not two numbers")
	}
	if err != nil {
		l.metrics.redisErrors.Inc()
		l.lastError.Store(&err)
		return answer{}, err
	}
	return answer{tokens: reply[0], missing: reply[1] * 1e3}, nil
}

// newBreaker opens after three failures in a row, or five in ten seconds.
func (l *Limiter) newBreaker(probeEvery time.Duration) *gobreaker.CircuitBreaker[answer] {
	return gobreaker.NewCircuitBreaker[answer](gobreaker.Settings{
		Name:     "ratelimit",
		Interval: 10 * time.Second,
		Timeout:  probeEvery / 2,
		ReadyToTrip: func(counts gobreaker.Counts) bool {
			return counts.ConsecutiveFailures >= 3 || counts.TotalFailures >= 5
		},
		OnStateChange: func(_ string, _, to gobreaker.State) {
			l.setLocal(to != gobreaker.StateClosed)
		},
	})
}

// setLocal speaks once a change, not once a probe.
func (l *Limiter) setLocal(local bool) {
	switch {
	case l.local.Swap(local) == local:
	case local:
		l.metrics.fallback.Set(1)
		l.logger.Warn("ratelimit.redis_lost", "error", *l.lastError.Load())
	default:
		l.metrics.fallback.Set(0)
		l.logger.Info("ratelimit.redis_found")
	}
}

// watch finds out by itself that Redis is back, so that no request pays for the trial.
func (l *Limiter) watch(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-ticker.C:
		}
		if l.local.Load() {
			// The real question: a Redis that answers PING may still refuse to write.
			probe := question{key: "probe", shape: shapeOf(Limit{PerSecond: 1000, Burst: 1000}), want: 1}
			_, _ = l.breaker.Execute(func() (answer, error) { return l.ask(context.Background(), probe) })
		}
	}
}
