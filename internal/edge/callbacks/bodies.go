package callbacks

import (
	"errors"
	"io"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// maxBody is the largest body, in bytes.
	maxBody = 4 << 20
	// maxMemory is how many bytes of bodies a process holds in memory; a quarter of them for one peer.
	maxMemory     = 256 << 20
	maxPeerMemory = maxMemory / 4
	// maxPeerReads is how many bodies of one peer are read at once. The provider sends a body in
	// milliseconds, so that its own callbacks do not reach it. A further body takes the place of the oldest one.
	maxPeerReads = 64
	// firstRoom is the room of a body before it grows, in bytes: most callbacks fit. It then grows by
	// firstGrowth, and doubles after that.
	firstRoom   = 4 << 10
	firstGrowth = 64 << 10
	// A body must begin within firstByteWithin and be complete within wholeWithin.
	firstByteWithin = 2 * time.Second
	wholeWithin     = 8 * time.Second
)

// bodies reads bodies of callers that are not known before the signature of the whole body is checked. So
// memory is counted as the bytes arrive and not as they are announced, and each peer has a share. When a peer has used its
// share, its body that is being read for the longest time is refused: it is likely to have stalled.
type bodies struct {
	mu     sync.Mutex
	memory int64
	peers  map[netip.Addr]*usage
}

// usage is what the bodies of one peer use.
type usage struct {
	// open counts bodies that are read or stored.
	open int
	// reads are the bodies that are read, oldest first.
	reads  []*body
	memory int64
}

func newBodies() *bodies { return &bodies{peers: map[netip.Addr]*usage{}} }

// body is one that is being read or stored.
type body struct {
	of   *bodies
	peer netip.Addr
	data []byte

	// These are guarded by the mutex of bodies.
	memory  int64
	refused bool
	// stop ends a read that waits for bytes.
	stop func()
}

// open begins the body of a peer. stop is called, at most once, if the body must make room for others.
func (b *bodies) open(peer netip.Addr, stop func()) *body {
	b.mu.Lock()
	defer b.mu.Unlock()
	used := b.peers[peer]
	if used == nil {
		used = &usage{}
		b.peers[peer] = used
	}
	if len(used.reads) >= maxPeerReads {
		b.refuse(used, used.reads[0])
	}
	opened := &body{of: b, peer: peer, stop: stop}
	used.open++
	used.reads = append(used.reads, opened)
	return opened
}

// refuse ends the reading of a body and frees its memory.
func (b *bodies) refuse(used *usage, o *body) {
	o.refused = true
	used.ended(o)
	b.memory -= o.memory
	used.memory -= o.memory
	o.memory = 0
	o.stop()
}

// ended removes a body from those that are read.
func (u *usage) ended(o *body) {
	u.reads = slices.DeleteFunc(u.reads, func(one *body) bool { return one == o })
}

// read reads the body of a request.
func (o *body) read(w http.ResponseWriter, r *http.Request) error {
	connection := http.NewResponseController(w)
	within := func(span time.Duration) {
		o.of.mu.Lock()
		defer o.of.mu.Unlock()
		if !o.refused { // a recorder of a test has no deadlines
			_ = connection.SetReadDeadline(time.Now().Add(span)) //nolint:forbidigo // sockets know no other clock
		}
	}
	within(firstByteWithin)
	limited := http.MaxBytesReader(w, r.Body, maxBody)
	for {
		if len(o.data) == cap(o.data) {
			if err := o.grow(); err != nil {
				return err
			}
		}
		n, err := limited.Read(o.data[len(o.data):cap(o.data)])
		if len(o.data) == 0 && n > 0 {
			within(wholeWithin)
		}
		o.data = o.data[:len(o.data)+n]
		switch {
		case errors.Is(err, io.EOF):
			if !o.done() {
				return errBusy
			}
			_ = connection.SetReadDeadline(time.Time{}) // none while it is stored
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return errBusy // also for the provider, if this machine stood still
		case err != nil:
			if _, large := errors.AsType[*http.MaxBytesError](err); large {
				return errTooLarge
			}
			return errBroken
		}
	}
}

// grow makes room for more bytes. The first room is not counted: maxPeerReads bounds it.
func (o *body) grow() error {
	if cap(o.data) == 0 {
		o.data = make([]byte, 0, firstRoom)
		return nil
	}
	more := min(max(firstGrowth, int64(cap(o.data)-firstRoom)), maxBody)
	if !o.take(more) {
		return errBusy
	}
	larger := make([]byte, len(o.data), int64(cap(o.data))+more)
	copy(larger, o.data)
	o.data = larger
	return nil
}

// take counts memory for the body. It refuses older bodies of the peer if that has used its share, and returns false if
// there is not enough.
func (o *body) take(bytes int64) bool {
	b := o.of
	b.mu.Lock()
	defer b.mu.Unlock()
	used := b.peers[o.peer]
	for used.memory+bytes > maxPeerMemory && !o.refused {
		if len(used.reads) == 0 {
			return false
		}
		b.refuse(used, used.reads[0]) // this one, if it is the oldest
	}
	if o.refused || b.memory+bytes > maxMemory {
		return false
	}
	b.memory += bytes
	used.memory += bytes
	o.memory += bytes
	return true
}

// done tells that the body is read. It stays in memory until it is closed. done returns false if the body was refused.
func (o *body) done() bool {
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	o.of.peers[o.peer].ended(o)
	return !o.refused
}

// close frees the memory of the body.
func (o *body) close() {
	o.done()
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	used := o.of.peers[o.peer]
	o.of.memory -= o.memory
	used.memory -= o.memory
	o.memory = 0
	if used.open--; used.open == 0 {
		delete(o.of.peers, o.peer)
	}
}
