// Package ratelimit grants requests from token buckets, one per organization, that all
// processes share through Redis. A process leases tokens in blocks and spends them by itself,
// so most decisions need no call to Redis. Without Redis a process continues with the last state
// that it read. No request fails, or waits longer than the budget, because of this package.
package ratelimit

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/parley-chat/parley/internal/platform/clock"
)

const (
	defaultBudget     = 50 * time.Millisecond
	defaultProbeEvery = time.Second
	defaultKeys       = 50_000
)

// Options configure a Limiter. Only Clock is required.
type Options struct {
	// Redis should come from Connect. Nil keeps all buckets in this process.
	Redis redis.UniversalClient
	// Clock is required; New panics without it.
	Clock clock.Clock
	// Budget is the longest time that a request waits for Redis. Default: 50 ms.
	Budget time.Duration
	// ProbeEvery is the time between probes of a Redis that failed. Default: 1 s.
	ProbeEvery time.Duration
	// Keys is the number of buckets held in memory; the least recently used are evicted.
	// Default: 50,000.
	Keys int
	// Logger gets a line when Redis stops and starts to answer. Nil logs nothing.
	Logger *slog.Logger
	// Registerer receives the counters. Nil registers none.
	Registerer prometheus.Registerer
}

// Limiter is safe for concurrent use; a process needs one.
type Limiter struct {
	redis   redis.UniversalClient
	clock   clock.Clock
	budget  time.Duration
	entries *lru.Cache[string, *entry]
	metrics *metrics
	logger  *slog.Logger

	breaker *gobreaker.CircuitBreaker[answer]
	// local is true while Redis is not asked: there is none, it fails, or the limiter is closed.
	local atomic.Bool
	// lastError is the last error of a call to Redis.
	lastError atomic.Pointer[error]
	// flights counts the goroutines of this limiter.
	flights sync.WaitGroup
	// jobs passes calls to Redis to idle goroutines.
	jobs chan func()
	// idle is the number of goroutines that wait for a job.
	idle  atomic.Int64
	stop  chan struct{}
	close sync.Once
}

// New starts a limiter, and with Redis a goroutine that Close ends.
func New(opts Options) *Limiter {
	if opts.Clock == nil {
		panic("ratelimit: no clock")
	}
	entries, err := lru.New[string, *entry](orDefault(opts.Keys, defaultKeys))
	if err != nil {
		panic("ratelimit: " + err.Error())
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Limiter{
		redis:   opts.Redis,
		clock:   opts.Clock,
		budget:  orDefault(opts.Budget, defaultBudget),
		entries: entries,
		metrics: newMetrics(opts.Registerer),
		logger:  opts.Logger,
		jobs:    make(chan func()),
		stop:    make(chan struct{}),
	}
	if l.redis == nil {
		l.local.Store(true)
		return l
	}
	probeEvery := orDefault(opts.ProbeEvery, defaultProbeEvery)
	l.breaker = l.newBreaker(probeEvery)
	l.flights.Go(func() { l.watch(probeEvery) })
	return l
}

// Spend spends one token of key's bucket, or returns when to retry.
func (l *Limiter) Spend(ctx context.Context, key string, limit Limit) Decision {
	shape := shapeOf(limit)
	if shape.burst < 1 {
		l.metrics.refused.Inc()
		return Decision{RetryAfter: time.Second}
	}
	e := l.entryOf(key)
	decision, waitFor := l.decide(ctx, e, shape, first)
	if waitFor != nil {
		decision = l.wait(ctx, e, shape, waitFor)
	}
	if decision.Allowed {
		l.metrics.allowed.Inc()
	} else {
		l.metrics.refused.Inc()
	}
	return decision
}

// Close ends the probes and waits for calls under way. Spend decides locally from then on.
func (l *Limiter) Close() {
	l.close.Do(func() {
		l.local.Store(true)
		close(l.stop)
		l.flights.Wait()
		l.local.Store(true) // the last probe may have set it to false
	})
}

func (l *Limiter) entryOf(key string) *entry {
	if e, found := l.entries.Get(key); found {
		return e
	}
	e := &entry{key: key}
	if earlier, found, _ := l.entries.PeekOrAdd(key, e); found {
		return earlier
	}
	return e
}

// attempt is the state in which a request calls decide.
type attempt int

const (
	first  attempt = iota // the request has not waited yet
	again                 // the call to Redis that the request waited for has succeeded
	gaveUp                // the call failed, or did not end in time
)

// decide decides from the state of this process, or returns the call to Redis to wait for.
func (l *Limiter) decide(ctx context.Context, e *entry, s shape, how attempt) (Decision, *flight) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := l.clock.Now().UnixNano()
	e.adopt(s)
	e.expire(now)
	if how != first {
		e.waiting--
	}
	switch {
	case how != first && e.spendArrived(), e.spendLeased():
		return e.granted(now), nil
	case e.tokens(now) < 1:
		// Redis cannot have more tokens: other processes only spend.
		return e.refused(now), nil
	case how == gaveUp || l.local.Load():
		e.spendAlone(now)
		return e.granted(now), nil
	}
	e.waiting++
	if e.flight == nil {
		e.flight = &flight{done: make(chan struct{})}
		l.launch(ctx, e, now)
	}
	return Decision{}, e.flight
}

// wait waits for calls to Redis until there is a decision, in total at most the budget.
func (l *Limiter) wait(ctx context.Context, e *entry, s shape, f *flight) Decision {
	timer := time.NewTimer(l.budget)
	defer timer.Stop()
	for {
		how := gaveUp
		select {
		case <-f.done:
			if !f.failed {
				how = again
			}
		case <-timer.C:
		case <-ctx.Done():
		}
		decision, next := l.decide(ctx, e, s, how)
		if next == nil {
			return decision
		}
		f = next
	}
}

func orDefault[T int | time.Duration](value, otherwise T) T {
	if value <= 0 {
		return otherwise
	}
	return value
}
