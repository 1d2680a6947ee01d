package ratelimit

import (
	"sync"
	"time"
)

// clockGrain is the resolution of the clock in nanoseconds: times are whole milliseconds.
const clockGrain = int64(time.Millisecond)

// entry is the state of one key in this process. Its bucket is never emptier than the one in
// Redis: it is the last answer of Redis, and since then other processes can only have spent more.
type entry struct {
	key string

	mu sync.Mutex
	bucket
	// leased is the number of tokens that were taken out of the bucket for later requests.
	leased int64
	// waiting is the number of requests that wait for flight.
	waiting int64
	// arrived is the number of tokens for requests that waited.
	arrived int64
	// flight is the call to Redis under way; nil for none.
	flight *flight
	// unbooked is the number of tokens that were spent after the call under way had started.
	unbooked int64
}

// flight is one call to Redis that any number of requests wait for.
type flight struct {
	// done is closed when the call has ended.
	done chan struct{}
	// failed may be read once done is closed.
	failed bool
}

// adopt sets the limit. When it changed, leased tokens are dropped.
func (e *entry) adopt(s shape) {
	if e.shape != s {
		e.shape = s
		e.leased = 0
	}
}

// expire drops leased tokens that the bucket in Redis has refilled meanwhile. Bucket and leased
// tokens of all processes then never exceed the burst.
func (e *entry) expire(now int64) {
	if e.leased > 0 {
		e.leased = min(e.leased, max(0, e.missing(now)-clockGrain)/e.interval)
	}
}

// spendArrived spends a token that arrived for a request that waited.
func (e *entry) spendArrived() bool {
	if e.arrived == 0 {
		return false
	}
	e.arrived--
	return true
}

func (e *entry) spendLeased() bool {
	if e.leased == 0 {
		return false
	}
	e.leased--
	return true
}

// spendAlone spends a token without Redis. The next call reports it to Redis.
func (e *entry) spendAlone(now int64) {
	e.spend(now)
	if e.flight != nil {
		e.unbooked++
	}
}

// book stores the answer of a call that started at the time asked, under the limit s.
func (e *entry) book(asked int64, s shape, a answer) {
	e.fullAt = asked + a.missing + e.unbooked*e.interval
	if e.shape == s {
		// Requests that gave up meanwhile get none; their tokens are leased.
		forWaiting := min(a.tokens, e.waiting-e.arrived)
		e.arrived += forWaiting
		e.leased += a.tokens - forWaiting
	}
}

func (e *entry) granted(now int64) Decision {
	return Decision{
		Allowed:   true,
		Limit:     int(e.burst),
		Remaining: int(min(e.tokens(now)+e.leased, e.burst-1)),
		Reset:     time.Duration(max(0, e.missing(now)-e.leased*e.interval)),
	}
}

func (e *entry) refused(now int64) Decision {
	missing := e.missing(now)
	return Decision{
		Limit:      int(e.burst),
		Reset:      time.Duration(missing),
		RetryAfter: time.Duration(missing - e.window + e.interval),
	}
}
