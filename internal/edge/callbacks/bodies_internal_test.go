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
		var err error
		all[i], err = b.open(peer)
		require.NoError(t, err)
	}
	require.NoError(t, all[1].grow())
	require.NoError(t, all[1].grow())
	for _, one := range all {
		one.done()
	}
	for _, i := range []int{2, 0, 1} {
		all[i].close()
	}
	require.Empty(t, b.peers)
	require.Zero(t, b.memory)
}
