package state

import "sync/atomic"

// Counters count since the last reset, for GET /sim/stats. They need no lock.
type Counters struct {
	Skew                                      atomic.Int64 // nanoseconds by which POST /sim/clock moved the clock
	Accepted, Refused, statuses               atomic.Int64
	Inbound, lost, withoutTarget, unscheduled atomic.Int64
}

func (c *Counters) reset() {
	for _, n := range []*atomic.Int64{&c.Skew, &c.Accepted, &c.Refused, &c.statuses, &c.Inbound, &c.lost, &c.withoutTarget, &c.unscheduled} {
		n.Store(0)
	}
}

// Stats returns the answer of GET /sim/stats. The caller holds the lock. What is scheduled is counted first:
// it is counted at least once when it becomes due and is queued meanwhile.
func (s *Simulation) Stats() map[string]any {
	c, d := &s.Counters, s.dispatcher
	scheduled := s.Scheduler.Len()
	return object{
		"accepted": c.Accepted.Load(), "refused": c.Refused.Load(), "inbound": c.Inbound.Load(), "statuses": c.statuses.Load(),
		"lost": c.lost.Load() + c.unscheduled.Load(), "without_target": c.withoutTarget.Load(), "posted": d.Posted.Load(),
		"redelivered": d.Redelivered.Load(), "given_up": d.Dropped.Load(), "waiting": d.Unanswered(), "scheduled": scheduled,
		"sent": s.Data.Sent.Len(),
	}
}
