package state

import (
	"sync/atomic"

	"github.com/parley-chat/parley/internal/simulator/dispatcher"
)

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

// Stats is the answer of GET /sim/stats.
type Stats struct {
	Accepted      int64 `json:"accepted"`
	Refused       int64 `json:"refused"`
	Inbound       int64 `json:"inbound"`
	Statuses      int64 `json:"statuses"`
	Lost          int64 `json:"lost"`
	WithoutTarget int64 `json:"without_target"`
	Posted        int64 `json:"posted"`
	Redelivered   int64 `json:"redelivered"`
	GivenUp       int64 `json:"given_up"`
	Waiting       int   `json:"waiting"`
	Scheduled     int   `json:"scheduled"`
	Sent          int   `json:"sent"`
}

// Stats reads the counters.
func (s *Simulation) Stats() Stats {
	s.Lock()
	sent := s.Data.Sent.Len()
	s.Unlock()
	return Stats{
		Accepted: s.Counters.Accepted.Load(), Refused: s.Counters.Refused.Load(), Inbound: s.Counters.Inbound.Load(),
		Statuses: s.Counters.statuses.Load(), Lost: s.Counters.lost.Load() + s.Counters.unscheduled.Load(), WithoutTarget: s.Counters.withoutTarget.Load(),
		Posted: s.dispatcher.Posted.Load(), Redelivered: s.dispatcher.Redelivered.Load(), GivenUp: s.dispatcher.Dropped.Load(),
		Waiting: s.dispatcher.Queued(), Scheduled: s.Scheduler.Len(), Sent: sent,
	}
}

// recordCallback keeps the newest posts for GET /sim/callbacks.
func (s *Simulation) recordCallback(attempt dispatcher.Attempt) {
	s.Lock()
	defer s.Unlock()
	s.Data.Callbacks.Add(attempt)
}
