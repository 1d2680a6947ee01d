package callbacks

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Several bodies of one peer are stored at the same time and closed in any order.
func TestBodies_SeveralOfOnePeer_ClosedInAnyOrder(t *testing.T) {
	t.Parallel()
	b, peer := newBodies(), "192.0.2.1"
	all := make([]*body, 3)
	for i := range all {
		all[i] = b.open(peer, func() {})
	}
	all[1].fill(t, firstChunk+1)
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
	b, peer, stopped := newBodies(), "192.0.2.1", []int{}
	all := make([]*body, maxPeerReads+2)
	for i := range all {
		all[i] = b.open(peer, func() { stopped = append(stopped, i) })
		if i == 0 {
			require.True(t, all[0].done(), "it is complete")
		}
	}
	require.Equal(t, []int{1}, stopped)
	require.False(t, all[1].done())
	require.False(t, all[1].take(1))
	for _, one := range all {
		one.close()
	}
	require.Empty(t, b.peers)
	require.Zero(t, b.memory)
}

// fill has a peer use its memory by bodies of the largest size. Their indexes come in the channel when they are stopped.
func fill(t *testing.T, b *bodies, peer string) (all []*body, stopped chan int) {
	t.Helper()
	stopped = make(chan int, maxPeerMemory/maxBody)
	for i := range maxPeerMemory / maxBody {
		all = append(all, b.open(peer, func() { stopped <- i }))
		require.True(t, all[i].take(maxBody))
	}
	return all, stopped
}

// TestBodies_PeerUsesItsMemory_OldestMakesRoom: the memory of a body that is refused counts until it is closed, and the body
// that needs the memory waits for that.
func TestBodies_PeerUsesItsMemory_OldestMakesRoom(t *testing.T) {
	t.Parallel()
	b, peer := newBodies(), "192.0.2.1"
	all, stopped := fill(t, b, peer)
	require.True(t, all[0].done(), "it is complete")
	last, grown := b.open(peer, func() {}), make(chan error)
	go func() {
		if !last.take(1) {
			grown <- errBusy
		}
		close(grown)
	}()
	require.Equal(t, 1, <-stopped)
	b.mu.Lock()
	require.EqualValues(t, maxPeerMemory, b.memory, "the refused body still has its bytes")
	b.mu.Unlock()
	require.Empty(t, grown)
	all[1].close()
	require.NoError(t, <-grown)
	require.Empty(t, stopped, "one made enough room")
	for _, one := range append(all[:1], append(all[2:], last)...) {
		one.close()
	}
	require.Empty(t, b.peers)
	require.Zero(t, b.memory)
}

// TestBodies_WaitingBodyIsRefused_GivesUp: a body that waits for memory may become the oldest one itself.
func TestBodies_WaitingBodyIsRefused_GivesUp(t *testing.T) {
	t.Parallel()
	b, peer := newBodies(), "192.0.2.1"
	all, stopped := fill(t, b, peer)
	first, second := b.open(peer, func() {}), b.open(peer, func() {})
	grown := make(chan bool)
	go func() { grown <- first.take(maxPeerMemory) }()
	for range all {
		<-stopped
	}
	b.mu.Lock()
	b.refuse(b.peers[peer], first)
	b.mu.Unlock()
	require.False(t, <-grown)
	for _, one := range append(all, first, second) {
		one.close()
	}
	require.Empty(t, b.peers)
	require.Zero(t, b.memory)
}

// fill puts bytes into the body, as reading does.
func (o *body) fill(t *testing.T, bytes int) {
	t.Helper()
	for bytes > 0 {
		room, err := o.room()
		require.NoError(t, err)
		n, last := min(bytes, len(room)), len(o.chunks)-1
		o.chunks[last] = o.chunks[last][:len(o.chunks[last])+n]
		bytes -= n
	}
}

// reserved are the bytes of a body's chunks but the first.
func (o *body) reserved() (bytes int64) {
	for _, chunk := range o.chunks[1:] {
		bytes += int64(cap(chunk))
	}
	return bytes
}

// TestBodies_EveryByteIsCounted: chunks while the body is read, and the whole beside them.
func TestBodies_EveryByteIsCounted(t *testing.T) {
	t.Parallel()
	b, peer := newBodies(), "192.0.2.1"
	large := b.open(peer, func() {})
	for size := 1; size <= maxBody; size += maxBody / 4 {
		large.fill(t, maxBody/4)
		require.Equal(t, large.reserved(), b.memory)
	}
	require.True(t, large.done())
	whole, err := large.join()
	require.NoError(t, err)
	require.Len(t, whole, maxBody)
	require.Equal(t, large.reserved()+maxBody, b.memory)

	other := b.open(peer, func() {})
	other.fill(t, firstChunk+maxBody)
	rest := b.open(peer, func() {})
	require.True(t, rest.take(maxPeerMemory-b.memory-maxBody/2))
	require.True(t, other.done() && rest.done())
	_, err = other.join()
	require.ErrorIs(t, err, errBusy, "the whole does not fit beside the chunks")
	for _, one := range []*body{large, other, rest} {
		one.close()
	}
	require.Zero(t, b.memory)
}

// TestBodies_OneAfterAnother_ChunksUsedAgain: bodies that are refused leave no garbage.
func TestBodies_OneAfterAnother_ChunksUsedAgain(t *testing.T) { //nolint:paralleltest // it counts the allocations of the process
	b, peer := newBodies(), "192.0.2.1"
	allocated := testing.AllocsPerRun(100, func() {
		one := b.open(peer, func() {})
		one.fill(t, maxBody)
		one.close()
	})
	require.Less(t, allocated, 60.0, "a body of 4 MiB has 64 chunks")
}

// One host has all addresses of an IPv6 network, so they have one share together.
func TestPeer_AddressesOfOneNetwork_OnePeer(t *testing.T) {
	t.Parallel()
	peer := func(address string) string { return (&Ingress{}).peer(&http.Request{RemoteAddr: address}) }
	require.Equal(t, peer("[2001:db8::1]:1000"), peer("[2001:db8::ffff:2]:2000"))
	require.NotEqual(t, peer("[2001:db8::1]:1000"), peer("[2001:db8:0:1::1]:1000"))
	require.NotEqual(t, peer("192.0.2.1:1000"), peer("192.0.2.2:1000"))
}
