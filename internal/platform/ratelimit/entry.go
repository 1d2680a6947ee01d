package ratelimit

import (
	"sync"
	"time"
)

// clockGrain is by how much the clock may be behind: it shows whole milliseconds.
const clockGrain = int64(time.Millisecond)

// entry is what this process knows of one key. Its bucket is never emptier than the one in
// Redis: it is what Redis said last, and since then others can only have taken more.
type entry struct {
	key string

	mu sync.Mutex
	bucket
	// leased tokens are gone from the bucket, for requests to come.
	leased int64
	// waiting counts the requests that wait for flight.
	waiting int64
	// arrived tokens are theirs alone.
	arrived int64
	flight  *flight
	// unbooked counts tokens spent from the bucket while a call was under way that does not know of them.
	unbooked int64
}

// flight is one call to Redis that any number of requests wait for.
type flight struct {
	done chan struct{}
	// failed may be read once done is closed.
	failed bool
}

// adopt follows a change of plan; tokens leased under the old limit are forgotten.
func (e *entry) adopt(s shape) {
	if e.shape != s {
		e.shape = s
		e.leased = 0
	}
}

// expire lets go of leased tokens that the bucket in Redis has meanwhile got back by
// itself: bucket and leases then never hold more than the burst, over all processes.
func (e *entry) expire(now int64) {
	if e.leased > 0 {
		e.leased = min(e.leased, max(0, e.missing(now)-clockGrain)/e.interval)
	}
}

// spendArrived serves a request that waited.
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

// spendAlone takes a token that Redis does not know of; the next question will tell it.
func (e *entry) spendAlone(now int64) {
	e.spend(now)
	if e.flight != nil {
		e.unbooked++
	}
}

// book takes over the answer to a question that was asked at a moment under a limit.
func (e *entry) book(asked int64, s shape, a answer) {
	e.fullAt = asked + a.missing + e.unbooked*e.interval
	if e.shape == s {
		// Those who gave up meanwhile do not come for theirs.
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
