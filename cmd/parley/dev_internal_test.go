package main

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// The simulator lets everyone steer it, so it is not reachable from other machines because the API is.
func TestDev_APIOnAllAddresses_SimulatorOnThisMachine(t *testing.T) {
	t.Parallel()
	for given, loopback := range map[string]bool{"": true, "0.0.0.0:0": false} {
		listener, err := listenSimulator(t.Context(), "0.0.0.0:0", given)
		require.NoError(t, err)
		address, err := netip.ParseAddrPort(listener.Addr().String())
		require.NoError(t, err)
		require.NoError(t, listener.Close())
		require.Equal(t, loopback, address.Addr().IsLoopback(), address)
	}
}
