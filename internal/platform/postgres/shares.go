package postgres

import (
	"context"
	"slices"
	"sync"

	"github.com/parley-chat/parley/internal/platform/ids"
)

// shares divides the connections of a pool among organizations. Each may hold a quarter of them, and more while it
// leaves a quarter free. Requests that have begun get connections before new ones (Yielding), so that under overload no
// work is done for requests that are refused later. Otherwise organizations take turns, and the requests of one wait in
// order.
type shares struct {
	size, quarter int

	mu    sync.Mutex
	held  int
	byOrg map[ids.Org]*share
	// turns are the organizations whose requests wait. The one that got a connection last is at the end.
	turns []*share
}

type share struct {
	held int
	// waiting are the requests that wait, oldest first, by rank. A closed channel means that its request may go on.
	waiting [2][]chan struct{}
}

// rank is the order in which requests get connections.
type rank int

const (
	begun rank = iota
	yielding
)

type yieldingKey struct{}

// Yielding returns a context whose statements wait until no other request of the pool waits for a connection. It is for
// the first statement of a request: when it gets a connection, there is room for the others.
func Yielding(ctx context.Context) context.Context {
	return context.WithValue(ctx, yieldingKey{}, true)
}

func rankOf(ctx context.Context) rank {
	if ctx.Value(yieldingKey{}) != nil {
		return yielding
	}
	return begun
}

func newShares(size int) *shares {
	return &shares{size: size, quarter: (size + 3) / 4, byOrg: map[ids.Org]*share{}}
}

// enter waits until the organization may hold one more connection. leave must be called when it is returned.
func (s *shares) enter(ctx context.Context, org ids.Org) (leave func(), err error) {
	s.mu.Lock()
	own := s.byOrg[org]
	if own == nil {
		own = &share{}
		s.byOrg[org] = own
	}
	leave = func() { s.leave(org, own) }
	if s.may(own) { // then none of its requests waits
		s.take(own)
		s.mu.Unlock()
		return leave, nil
	}
	turn, rank := make(chan struct{}), rankOf(ctx)
	if own.idle() {
		s.turns = append(s.turns, own)
	}
	own.waiting[rank] = append(own.waiting[rank], turn)
	s.mu.Unlock()
	select {
	case <-turn:
		return leave, nil
	case <-ctx.Done():
		if !s.withdraw(org, own, rank, turn) {
			leave() // it was let in at the same moment
		}
		return nil, ctx.Err()
	}
}

// may tells whether the organization may hold one more connection.
func (s *shares) may(own *share) bool {
	free := s.size - s.held
	return own.held < s.quarter && free > 0 || free > s.quarter
}

func (s *shares) take(own *share) {
	s.held++
	own.held++
}

// idle tells that no request of the organization waits.
func (o *share) idle() bool { return len(o.waiting[begun])+len(o.waiting[yielding]) == 0 }

// withdraw removes a request that waits no longer. It returns false if the request was let in already.
func (s *shares) withdraw(org ids.Org, own *share, rank rank, turn chan struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(own.waiting[rank], turn)
	if at < 0 {
		return false
	}
	own.waiting[rank] = slices.Delete(own.waiting[rank], at, at+1)
	if own.idle() {
		s.turns = slices.DeleteFunc(s.turns, func(one *share) bool { return one == own })
	}
	s.forget(org, own)
	return true
}

// leave returns a connection, and lets requests in that waited for it.
func (s *shares) leave(org ids.Org, own *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held--
	own.held--
	for more := true; more; {
		more = s.letIn(begun) || s.letIn(yielding)
	}
	s.forget(org, own)
}

// letIn lets one request of a rank in, and returns false if there is none that may.
func (s *shares) letIn(rank rank) bool {
	for i, own := range s.turns {
		if len(own.waiting[rank]) == 0 || !s.may(own) {
			continue
		}
		close(own.waiting[rank][0])
		own.waiting[rank] = own.waiting[rank][1:]
		s.take(own)
		s.turns = slices.Delete(s.turns, i, i+1)
		if !own.idle() {
			s.turns = append(s.turns, own)
		}
		return true
	}
	return false
}

// forget removes an organization without connections and requests.
func (s *shares) forget(org ids.Org, own *share) {
	if own.held == 0 && own.idle() {
		delete(s.byOrg, org)
	}
}
