package quota

import (
	"context"
	"errors"
	"time"

	"github.com/parley-chat/parley/internal/platform/postgres"
)

// counter is the count of one organization and month in this process. The service's mutex guards
// it.
type counter struct {
	// pending is the number of messages that were counted here and are not in the row; negative
	// when more were given back.
	pending int64
	// flying is what the flush under way adds to the row.
	flying int64
	// flight is the flush under way; nil for none.
	flight *flight

	// allowance is what the row keeps free for this process.
	allowance int64
	// limit is the plan's limit for which the allowance was granted or denied.
	limit int64
	// countUntil is the time until which this process counts in memory; zero when it does not.
	countUntil time.Time
	// deniedAt is when the last allowance was denied.
	deniedAt time.Time

	// askedAt is when the row was last asked for a single reservation.
	askedAt time.Time
	// refused is true when the last reservation in the row exceeded the quota. The next one reads
	// the row before it tries to update it, so that an organization at its limit locks nothing.
	refused bool
	// usedAt is when the counter was last used in memory.
	usedAt time.Time
}

// flight is a flush that accepts may wait for.
type flight struct {
	limit, size int64
	// done is closed when the flush has ended.
	done chan struct{}
	// err may be read once done is closed.
	err error
}

func (f *flight) wait(ctx context.Context) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// count counts n messages in memory, if the allowance covers them.
func (c *counter) count(now time.Time, limit, n int64) bool {
	c.usedAt = now
	if c.limit != limit || !now.Before(c.countUntil) || c.pending+max(0, c.flying)+n > c.allowance {
		return false
	}
	c.pending += n
	return true
}

// needsFlush tells whether to flush before n messages are reserved in the row: to add what is
// pending, to replace an allowance that is used up, old or for another limit, or to get one. A
// process asks for one at the second accept within countFor, and again countFor after a denial.
func (c *counter) needsFlush(now time.Time, limit, n int64) bool {
	if c.pending != 0 || c.allowance > 0 {
		return true
	}
	denied := c.limit == limit && now.Sub(c.deniedAt) < countFor
	return n <= sizeOf(limit) && now.Sub(c.askedAt) < countFor && !denied
}

// unflushed tells whether the ticker must flush: something is pending, or an allowance is not used.
func (c *counter) unflushed(now time.Time) bool {
	return c.pending != 0 || c.allowance > 0 && !now.Before(c.countUntil)
}

// idle tells whether the counter holds nothing and was not used for a while.
func (c *counter) idle(now time.Time) bool {
	return c.pending == 0 && c.allowance == 0 && c.flight == nil && now.Sub(c.usedAt) > forgetAfter
}

func (c *counter) start(limit, size int64) *flight {
	c.flight = &flight{limit: limit, size: size, done: make(chan struct{})}
	return c.flight
}

// depart moves what is pending into a flush. If the process counts on in memory meanwhile, its
// allowance must go on to cover that.
func (c *counter) depart(now time.Time, process string) flush {
	f := flush{process: process, now: now, limit: c.flight.limit, add: c.pending, size: c.flight.size}
	if now.Before(c.countUntil) {
		f.keep = c.allowance - max(0, c.pending)
	} else {
		c.countUntil = time.Time{} // also for an accept that read the clock a moment ago
	}
	c.flying, c.pending = c.pending, 0
	return f
}

// arrive books the answer of a flush and returns how many messages are forgotten. They are
// forgotten when the answer was lost, because adding them again could count them twice; and when the
// organization was moved to another cell. Recount finds them, except messages that were given back: these
// stay counted.
func (c *counter) arrive(f flush, r result, err error) (forgotten int64) {
	c.flying = 0
	switch {
	case errors.Is(err, postgres.ErrNotOpenHere):
		forgotten = f.add + c.pending
		*c = counter{flight: c.flight, usedAt: c.usedAt}
	case errors.Is(err, postgres.ErrUnanswered):
		forgotten = f.add
		c.countUntil = time.Time{}
	case err != nil:
		c.pending += f.add
	case r.granted:
		c.limit, c.allowance, c.countUntil = f.limit, r.left, f.now.Add(countFor)
	default:
		c.limit, c.allowance, c.countUntil = f.limit, r.left, time.Time{}
		if f.size > 0 { // a flush that returns an idle allowance asks for none
			c.deniedAt = f.now
		}
	}
	return forgotten
}
