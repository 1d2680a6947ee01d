package api

import (
	"math"
	"sync"
	"time"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clock"
)

const (
	// soonest and latest are the limits of the Retry-After of a process that is overloaded.
	soonest, latest = time.Second, 15 * time.Second
	// forgotten is how long a count takes to lose half of its weight.
	forgotten = 3 * time.Second
	// few is the least number of served requests to compare with, because fewer say nothing about the load.
	few = 10
)

// comeback says when callers of a cell should come back that are refused for lack of room. If all came back after a second,
// refusing them again would take the time in which they could be served, and an overload of seconds would last for minutes
// (ADR 21).
type comeback struct {
	clock clock.Clock

	mu              sync.Mutex
	since           time.Time
	served, refused float64
}

// count counts an answer of the pipeline. It puts the time to come back into a refusal.
func (c *comeback) count(err error) error {
	var refusal *fault.Error
	if err != nil {
		refusal = faultOf(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
	if refusal == nil {
		c.served++
		return nil
	}
	if refusal.Code != fault.ServiceUnavailable || refusal.RetryAfter != soonest {
		return err
	}
	c.refused++
	later := *refusal
	later.RetryAfter = min(soonest+time.Duration(math.Round(c.refused/max(few, c.served)))*time.Second, latest)
	return &later
}

// forget lets what was counted lose weight with time.
func (c *comeback) forget() {
	now := c.clock.Now()
	passed := max(0, now.Sub(c.since)) // a clock may be put back
	weight := math.Exp2(-passed.Seconds() / forgotten.Seconds())
	c.served, c.refused, c.since = c.served*weight, c.refused*weight, now
}
