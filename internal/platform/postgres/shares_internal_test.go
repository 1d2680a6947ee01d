package postgres

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/ids"
)

func newOrg() ids.Org { return ids.NewOrg(time.Now()) }

// enterLater asks for a connection that is not free yet, and returns when the request waits. entered gets its leave.
func enterLater(t *testing.T, s *shares, ctx context.Context, org ids.Org, entered chan<- func()) { //nolint:revive // t first
	t.Helper()
	waiting := func() (n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, own := range s.byOrg {
			n += len(own.waiting[begun]) + len(own.waiting[yielding])
		}
		return n
	}
	before := waiting()
	go func() {
		if leave, err := s.enter(ctx, org); err == nil {
			entered <- leave
		}
	}()
	require.Eventually(t, func() bool { return waiting() == before+1 }, 3*time.Minute, time.Millisecond)
}

func enterNow(t *testing.T, s *shares, org ids.Org, n int) (leaves []func()) {
	t.Helper()
	for range n {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		leave, err := s.enter(ctx, org)
		require.NoError(t, err)
		leaves = append(leaves, leave)
	}
	return leaves
}

func TestShares_Alone_AQuarterStaysFree(t *testing.T) {
	t.Parallel()
	s, org, other := newShares(16), newOrg(), newOrg()
	leaves := enterNow(t, s, org, 12)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := s.enter(ctx, org)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Empty(t, s.turns, "a request that gave up does not wait")
	leaves = append(leaves, enterNow(t, s, other, 4)...)
	for _, leave := range leaves {
		leave()
	}
	require.Empty(t, s.byOrg)
	require.Zero(t, s.held)
}

func TestShares_OthersHoldConnections_AQuarterEach(t *testing.T) {
	t.Parallel()
	s, large := newShares(16), newOrg()
	leaves := enterNow(t, s, large, 12)
	enterNow(t, s, newOrg(), 4)
	entered := make(chan func(), 1)
	enterLater(t, s, t.Context(), large, entered)
	for _, leave := range leaves[:4] {
		leave()
		require.Len(t, s.turns, 1, "it holds its quarter or more, and others do not leave a quarter free")
	}
	leaves[4]()
	(<-entered)()
}

func TestShares_RequestsThatHaveBegun_BeforeNewOnes(t *testing.T) {
	t.Parallel()
	s, one, two := newShares(1), newOrg(), newOrg()
	leave := enterNow(t, s, newOrg(), 1)[0]
	early, late := make(chan func(), 2), make(chan func(), 2)
	enterLater(t, s, Yielding(t.Context()), one, late)
	enterLater(t, s, Yielding(t.Context()), two, late)
	enterLater(t, s, t.Context(), two, early)
	enterLater(t, s, t.Context(), one, early)
	leave()
	for range 2 {
		select {
		case leave = <-early:
			leave()
		case <-late:
			require.Fail(t, "a new request was let in first")
		}
	}
	for range 2 {
		(<-late)()
	}
	require.Empty(t, s.byOrg)
}

func TestShares_ManyRequestsOfAnOrganization_OthersTakeTurns(t *testing.T) {
	t.Parallel()
	s, many, few := newShares(1), newOrg(), newOrg()
	leave := enterNow(t, s, newOrg(), 1)[0]
	ofMany, ofFew := make(chan func(), 10), make(chan func(), 1)
	for range 10 {
		enterLater(t, s, t.Context(), many, ofMany)
	}
	enterLater(t, s, t.Context(), few, ofFew)
	leave()
	(<-ofMany)()
	select {
	case leave = <-ofFew:
		leave()
	case <-ofMany:
		require.Fail(t, "the other organization must be second")
	}
	for range 9 {
		(<-ofMany)()
	}
	require.Empty(t, s.byOrg)
}

// However many organizations come and give up, they hold no more than there are, and nothing is left over.
func TestShares_ManyOrganizations_NothingLeaks(t *testing.T) {
	t.Parallel()
	s := newShares(8)
	var all sync.WaitGroup
	var held, tooMany atomic.Int64
	for range 10 {
		org := newOrg()
		for i := range 20 {
			all.Go(func() {
				for n := range 50 {
					ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Duration(1+(i+n)%3)*time.Millisecond)
					if n%2 == 0 {
						ctx = Yielding(ctx)
					}
					if leave, err := s.enter(ctx, org); err == nil {
						if held.Add(1) > 8 {
							tooMany.Add(1)
						}
						time.Sleep(time.Duration(n%3) * 100 * time.Microsecond)
						held.Add(-1)
						leave()
					}
					cancel()
				}
			})
		}
	}
	all.Wait()
	require.Zero(t, tooMany.Load())
	require.Zero(t, s.held)
	require.Empty(t, s.byOrg)
	require.Empty(t, s.turns)
}
