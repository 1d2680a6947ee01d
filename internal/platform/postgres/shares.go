package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
)

// wantedFor is how long after its last use of a connection an organization still counts as wanting one.
const wantedFor = time.Second

// shares divides the connections of a pool among organizations: one holds at most a quarter of them while others
// want connections, and may hold all while it is alone.
type shares struct {
	size, quarter int

	mu    sync.Mutex
	byOrg map[ids.Org]*share
	// latest is the organization that used a connection last, and before the time when another one did.
	latest           ids.Org
	latestAt, before clock.Watch
	others           bool // before is set
}

type share struct {
	held int
	// waiting are requests of the organization, oldest first. A closed channel means that its request may go on.
	waiting []chan struct{}
}

func newShares(size int) *shares {
	return &shares{size: size, quarter: (size + 3) / 4, byOrg: map[ids.Org]*share{}}
}

// enter waits until the organization may hold one more connection. leave must be called when it is returned.
func (s *shares) enter(ctx context.Context, org ids.Org) (leave func(), err error) {
	s.mu.Lock()
	s.noteUse(org)
	own := s.byOrg[org]
	if own == nil {
		own = &share{}
		s.byOrg[org] = own
	}
	leave = func() { s.leave(org, own) }
	if len(own.waiting) == 0 && own.held < s.limit() {
		own.held++
		s.mu.Unlock()
		return leave, nil
	}
	turn := make(chan struct{})
	own.waiting = append(own.waiting, turn)
	s.mu.Unlock()
	select {
	case <-turn:
		return leave, nil
	case <-ctx.Done():
		if !s.withdraw(own, turn) {
			leave() // it was let in at the same moment
		}
		return nil, ctx.Err()
	}
}

// withdraw removes a request that waits no longer. It returns false if the request was let in already.
func (s *shares) withdraw(own *share, turn chan struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, one := range own.waiting {
		if one == turn {
			own.waiting = append(own.waiting[:i], own.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// leave returns a connection, and lets requests of its organization in that waited for it. An organization whose
// requests wait holds connections, so that each of its requests is let in by another that leaves.
func (s *shares) leave(org ids.Org, own *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteUse(org)
	own.held--
	for len(own.waiting) > 0 && own.held < s.limit() {
		close(own.waiting[0])
		own.waiting = own.waiting[1:]
		own.held++
	}
	if own.held == 0 && len(own.waiting) == 0 {
		delete(s.byOrg, org)
	}
}

// noteUse notes that an organization uses connections now.
func (s *shares) noteUse(org ids.Org) {
	if org != s.latest {
		if !s.latest.IsZero() {
			s.before, s.others = s.latestAt, true
		}
		s.latest = org
	}
	s.latestAt = clock.StartWatch()
}

// limit is how many connections the organization that is latest may hold now.
func (s *shares) limit() int {
	if len(s.byOrg) > 1 || s.others && s.before.Elapsed() < wantedFor {
		return s.quarter
	}
	return s.size
}
