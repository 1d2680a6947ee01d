package callbacks

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// Several bodies of one peer are stored at the same time and closed in any order.
func TestBodies_SeveralOfOnePeer_ClosedInAnyOrder(t *testing.T) {
	t.Parallel()
	b, peer := newBodies(), netip.MustParseAddr("192.0.2.1")
	all := make([]*body, 3)
	for i := range all {
		all[i] = b.open(peer, func() {})
	}
	require.NoError(t, all[1].grow())
	require.NoError(t, all[1].grow())
	for _, one := range all {
		require.True(t, one.done())
	}
	for _, i := range []int{2, 0, 1} {
		all[i].close()
	}
	require.Empty(t, b.peers)
	require.Zero(t, b.memory)
}

func TestBodies_PeerReadsTooMany_OldestMakesRoom(t *testing.T) {
	t.Parallel()
	b, peer, stopped := newBodies(), netip.MustParseAddr("192.0.2.1"), []int{}
	all := make([]*body, maxPeerReads+2)
	for i := range all {
		all[i] = b.open(peer, func() { stopped = append(stopped, i) })
		if i == 0 {
			require.True(t, all[0].done(), "it is complete")
		}
	}
	require.Equal(t, []int{1}, stopped)
	require.False(t, all[1].done())
	require.NoError(t, all[1].grow())
	require.ErrorIs(t, all[1].grow(), errBusy)
	for _, one := range all {
		one.close()
	}
	require.Empty(t, b.peers)
	require.Zero(t, b.memory)
}

func TestBodies_PeerUsesItsMemory_OldestMakesRoom(t *testing.T) {
	t.Parallel()
	b, peer, stopped := newBodies(), netip.MustParseAddr("192.0.2.1"), []int{}
	var all []*body
	for i := range maxPeerMemory / maxBody {
		all = append(all, b.open(peer, func() { stopped = append(stopped, i) }))
		require.True(t, all[i].take(maxBody))
	}
	require.True(t, all[0].done(), "it is complete")
	last := b.open(peer, func() {})
	require.NoError(t, last.grow())
	require.NoError(t, last.grow())
	require.Equal(t, []int{1}, stopped)
	for _, one := range append(all, last) {
		one.close()
	}
	require.Empty(t, b.peers)
	require.Zero(t, b.memory)
}
