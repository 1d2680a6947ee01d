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

//go:embed spend.lua
var spendSource string

var spendScript = redis.NewScript(spendSource) //nolint:gochecknoglobals // a compiled constant

// mostIdle is the largest number of goroutines that wait for the next call to Redis.
const mostIdle = 16

// Connect opens a client whose calls take at most budget (50 ms when zero) and are not retried,
// because a limiter decides locally instead of waiting.
func Connect(url string, budget time.Duration) (redis.UniversalClient, error) {
	opts, err := redis.ParseURL(url)
	if err != nil {
		// The parser's own error would quote the password.
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
	// Each of the two costs a new connection a round trip, for which the first request would wait.
	opts.DisableIdentity = true
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	// Every error is returned to us. Without this go-redis also prints it to stderr.
	logging.Disable()
	return redis.NewClient(opts), nil
}

// question is a call to Redis for tokens.
type question struct {
	key   string
	shape shape
	// want is the number of requests that wait.
	want int64
	// block is the number of further tokens to lease, if many are left.
	block int64
	// missing is the time to full, in nanoseconds, that this process knows, in case Redis lost it.
	missing int64
}

// answer is the number of tokens granted, and the time to full afterwards in nanoseconds.
type answer struct {
	tokens  int64
	missing int64
}

// launch asks in a goroutine of its own, because a request that gives up must not cancel the
// call for the other requests that wait for it.
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

// run prefers an idle goroutine to a new one, because growing a new stack to the depth of
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

// nextJob waits for the next job. It returns nil when enough goroutines wait, or when the limiter
// closes.
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
	reply, err := spendScript.Run(ctx, l.redis, []string{"parley:rl:{" + q.key + "}"},
		strconv.FormatFloat(float64(q.shape.interval)/1e3, 'f', -1, 64),
		q.shape.burst, q.want, q.block, q.missing/1e3).Int64Slice()
	if err == nil && len(reply) != 2 {
		err = errors.New("spend.lua: not two numbers")
	}
	if err != nil {
		l.metrics.redisErrors.Inc()
		l.lastError.Store(&err)
		return answer{}, err
	}
	return answer{tokens: reply[0], missing: reply[1] * 1e3}, nil
}

// newBreaker returns a breaker that opens after three failures in a row, or five in ten seconds.
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

// setLocal logs only when the state changes, not at every probe.
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

// watch probes a Redis that failed, so that no request has to wait for the probe.
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
			// The probe runs the script, because a Redis that answers PING may still refuse writes.
			probe := question{key: "probe", shape: shapeOf(Limit{PerSecond: 1000, Burst: 1000}), want: 1}
			_, _ = l.breaker.Execute(func() (answer, error) { return l.ask(context.Background(), probe) })
		}
	}
}
