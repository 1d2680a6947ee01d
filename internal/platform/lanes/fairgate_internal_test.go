package lanes

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/ids"
)

// A transaction of an organization that has none passes those of one that has all places.
func TestFairGate_AllPlacesTaken_OrganizationWithFewestIsNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		large, small := ids.NewOrg(time.Now()), ids.NewOrg(time.Now())
		g := newFairGate(2)
		var order []ids.Org
		enter := func(org ids.Org) {
			go func() {
				if g.wait(t.Context(), org) == nil {
					order = append(order, org)
				}
			}()
			synctest.Wait()
		}
		for _, org := range []ids.Org{large, large, large, large, small} {
			enter(org)
		}
		require.Equal(t, []ids.Org{large, large}, order)
		for range 3 {
			g.leave(large)
			synctest.Wait()
		}
		require.Equal(t, []ids.Org{large, large, small, large, large}, order)
		g.leave(small)
		g.leave(large)
		require.Equal(t, 2, g.free, "all places are free again")
		require.Empty(t, g.running)
	})
}

// Whoever stops waiting takes no place, also if its place comes at that moment.
func TestFairGate_WaitEnds_PlaceIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		org := ids.NewOrg(time.Now())
		g := newFairGate(1)
		require.NoError(t, g.wait(t.Context(), org))
		stopped := errors.New("stopped")
		for _, leaves := range []bool{false, true} {
			ctx, stop := context.WithCancelCause(t.Context())
			var err error
			go func() { err = g.wait(ctx, org) }()
			synctest.Wait()
			if leaves {
				g.leave(org)
			}
			stop(stopped)
			synctest.Wait()
			if err == nil {
				g.leave(org)
			}
			if !leaves {
				require.ErrorIs(t, err, stopped)
			}
		}
		require.Equal(t, 1, g.free)
		require.Empty(t, g.waiting)
	})
}

// Transactions that wait for a lock stop another organization for 100 ms and no longer.
func TestFairGate_TransactionsWait_PlacesAreLeftEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stuck, other := ids.NewOrg(time.Now()), ids.NewOrg(time.Now())
		g := newFairGate(2)
		first, err := g.enter(t.Context(), stuck)
		require.NoError(t, err)
		second, err := g.enter(t.Context(), stuck)
		require.NoError(t, err)
		started := time.Now()
		leave, err := g.enter(t.Context(), other)
		require.NoError(t, err)
		require.Equal(t, longestPlace, time.Since(started))
		first()
		leave()
		second()
		require.Equal(t, 2, g.free, "each place is left once")
		require.Empty(t, g.running)
	})
}
