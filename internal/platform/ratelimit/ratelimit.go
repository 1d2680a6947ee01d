// Package ratelimit grants requests from token buckets, one per organization, that all
// processes share through Redis. A process takes tokens in blocks and spends them alone,
// so most decisions touch no network; without Redis it goes on with what it last knew.
// No request ever fails or waits longer than the budget because of this package.
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

// Options says what a Limiter works with; only Clock is required.
type Options struct {
	// Redis should come from Connect; nil keeps all buckets in this process.
	Redis redis.UniversalClient
	Clock clock.Clock
	// Budget is the longest that a request may wait for Redis; 50 ms when zero.
	Budget time.Duration
	// ProbeEvery is how often a Redis that failed is asked again; a second when zero.
	ProbeEvery time.Duration
	// Keys bounds the buckets held in memory, the least recently used are forgotten; 50,000 when zero.
	Keys int
	// Logger hears when Redis is lost and found; nil tells nobody.
	Logger *slog.Logger
	// Registerer receives the counters; nil counts for nobody.
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
	// local is true while Redis is not asked: absent, failing or closed.
	local atomic.Bool
	// lastError is why Redis was lost.
	lastError atomic.Pointer[error]
	flights   sync.WaitGroup
	jobs      chan func()
	idle      atomic.Int64
	stop      chan struct{}
	close     sync.Once
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

// Take spends one token of key's bucket, or says when to come back.
func (l *Limiter) Take(ctx context.Context, key string, limit Limit) Decision {
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

// Close ends the probing and waits for calls under way; a Take after it decides locally.
func (l *Limiter) Close() {
	l.close.Do(func() {
		l.local.Store(true)
		close(l.stop)
		l.flights.Wait()
		l.local.Store(true) // the last probe may have found Redis well
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

// attempt tells decide how a request comes to it.
type attempt int

const (
	first  attempt = iota // fresh
	again                 // it waited for a block of tokens that has arrived
	gaveUp                // it waited for one that did not arrive in time
)

// decide answers from what this process knows, or returns the call to Redis to wait for.
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
		// Redis cannot know of more tokens than this: others only take.
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

// wait lasts at most the budget over all calls that it waits for.
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
