package simulator

import (
	"sync/atomic"

	"github.com/parley-chat/parley/internal/simulator/courier"
)

// counts is what `GET /sim/stats` shows; the skew is here because it is read on every
// look at the clock.
type counts struct {
	skew                               atomic.Int64
	accepted, refused, statuses        atomic.Int64
	inbound, lost, withoutTarget, full atomic.Int64
}

func (c *counts) reset() {
	for _, n := range []*atomic.Int64{&c.skew, &c.accepted, &c.refused, &c.statuses, &c.inbound, &c.lost, &c.withoutTarget, &c.full} {
		n.Store(0)
	}
}

type stats struct {
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

func (s *Simulator) stats() stats {
	s.mu.Lock()
	sent := s.world.sent.len()
	s.mu.Unlock()
	return stats{
		Accepted: s.counts.accepted.Load(), Refused: s.counts.refused.Load(), Inbound: s.counts.inbound.Load(),
		Statuses: s.counts.statuses.Load(), Lost: s.counts.lost.Load() + s.counts.full.Load(), WithoutTarget: s.counts.withoutTarget.Load(),
		Posted: s.courier.Posted.Load(), Redelivered: s.courier.Redelivered.Load(), GivenUp: s.courier.Lost.Load(),
		Waiting: s.courier.Waiting(), Scheduled: s.agenda.Len(), Sent: sent,
	}
}

// attempted remembers the newest posts for `GET /sim/callbacks`.
func (s *Simulator) attempted(attempt courier.Attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.world.attempts.add(attempt)
}
