package lanes

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
)

// transactionsAtOnce is how many transactions of drainers run at once: twice as many as this machine has
// cores, because a transaction waits for the network and the disk about half of its time. Measured on
// two cores: with 12 at once a reply beside 100,000 messages of another organization took 116 ms in
// the median, with 4 or 2 at once 17 ms; with 2 at once 33 % fewer messages were sent per second, and the
// webhook of a person's message came after 370 ms (p99, at 30 % load) instead of 150 ms.
func transactionsAtOnce() int { return min(2*runtime.GOMAXPROCS(0), mostTransactions) }

// mostTransactions leaves connections of the pool for takes, heartbeats and River, unless many transactions
// wait longer than longestPlace.
const mostTransactions = 8

// longestPlace is how long a transaction keeps its place. One that waits longer, for a lock or for
// the answer to its commit, needs no core meanwhile, and must not stop other organizations.
const longestPlace = 100 * time.Millisecond

// fairGate bounds the transactions at once. When all places are taken, the next place goes to the
// organization that has the fewest.
type fairGate struct {
	mu      sync.Mutex
	free    int
	running map[ids.Org]int
	// waiting is in the order of arrival.
	waiting []*waiter
}

type waiter struct {
	org      ids.Org
	admitted chan struct{}
}

func newFairGate(places int) *fairGate { return &fairGate{free: places, running: map[ids.Org]int{}} }

// enter waits for a place, and returns the function that leaves it. The place is left without it
// after longestPlace.
func (g *fairGate) enter(ctx context.Context, org ids.Org) (leave func(), err error) {
	if err := g.wait(ctx, org); err != nil {
		return nil, err
	}
	once := sync.OnceFunc(func() { g.leave(org) })
	early := time.AfterFunc(longestPlace, once)
	return func() {
		early.Stop()
		once()
	}, nil
}

func (g *fairGate) wait(ctx context.Context, org ids.Org) error {
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.running[org]++
		g.mu.Unlock()
		return nil
	}
	mine := &waiter{org: org, admitted: make(chan struct{})}
	g.waiting = append(g.waiting, mine)
	g.mu.Unlock()
	select {
	case <-mine.admitted:
		return nil
	case <-ctx.Done():
		g.giveUp(mine)
		return context.Cause(ctx)
	}
}

// giveUp forgets a waiter, or leaves if it was admitted meanwhile.
func (g *fairGate) giveUp(mine *waiter) {
	g.mu.Lock()
	for i, one := range g.waiting {
		if one == mine {
			g.waiting = append(g.waiting[:i], g.waiting[i+1:]...)
			g.mu.Unlock()
			return
		}
	}
	g.mu.Unlock()
	g.leave(mine.org)
}

// leave gives the place to the next.
func (g *fairGate) leave(org ids.Org) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running[org]--; g.running[org] == 0 {
		delete(g.running, org)
	}
	if len(g.waiting) == 0 {
		g.free++
		return
	}
	next := 0
	for i, one := range g.waiting {
		if g.running[one.org] < g.running[g.waiting[next].org] {
			next = i
		}
	}
	admitted := g.waiting[next]
	g.waiting = append(g.waiting[:next], g.waiting[next+1:]...)
	g.running[admitted.org]++
	close(admitted.admitted)
}
