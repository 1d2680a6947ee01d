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

func TestShares_AloneAnOrganizationHoldsAll(t *testing.T) {
	t.Parallel()
	s, org := newShares(16), newOrg()
	for range 16 {
		_, err := s.enter(t.Context(), org)
		require.NoError(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := s.enter(ctx, org)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Empty(t, s.byOrg[org].waiting, "a request that gave up does not wait")
}

func TestShares_OthersWantConnections_AQuarterEach(t *testing.T) {
	t.Parallel()
	s, large, small := newShares(16), newOrg(), newOrg()
	leave, err := s.enter(t.Context(), small)
	require.NoError(t, err)
	leave()
	var leaves []func()
	for range 4 {
		leave, err := s.enter(t.Context(), large)
		require.NoError(t, err)
		leaves = append(leaves, leave)
	}
	entered := make(chan func(), 1)
	go func() {
		leave, err := s.enter(context.WithoutCancel(t.Context()), large)
		if err == nil {
			entered <- leave
		}
	}()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.byOrg[large].waiting) == 1
	}, 20*time.Second, time.Millisecond, "a fifth waits, because the other organization used a connection within a second")
	again, err := s.enter(t.Context(), small)
	require.NoError(t, err, "the other organization does not wait")
	leaves[0]()
	last := <-entered
	again()
	for _, leave := range append(leaves[1:], last) {
		leave()
	}
	require.Empty(t, s.byOrg)
}

// However many organizations come and give up, none holds more than its share, and nothing is left over.
func TestShares_ManyOrganizations_NothingLeaks(t *testing.T) {
	t.Parallel()
	s := newShares(8)
	var all sync.WaitGroup
	var tooMany atomic.Int64
	for range 10 {
		org, held := newOrg(), &atomic.Int64{}
		for i := range 20 {
			all.Go(func() {
				for n := range 50 {
					ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Duration(1+(i+n)%3)*time.Millisecond)
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
	require.Empty(t, s.byOrg)
}
