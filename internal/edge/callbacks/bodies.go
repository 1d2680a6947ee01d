package callbacks

import (
	"errors"
	"io"
	"net/http"
	"net/netip"
	"os"
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
	// milliseconds, so that its own callbacks do not reach it.
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
// memory is counted as the bytes arrive and not as they are announced, and each peer has a share.
type bodies struct {
	mu     sync.Mutex
	memory int64
	peers  map[netip.Addr]*usage
}

// usage is what the bodies of one peer use.
type usage struct {
	// open counts bodies that are read or stored, reads those that are read.
	open, reads int
	memory      int64
}

func newBodies() *bodies { return &bodies{peers: map[netip.Addr]*usage{}} }

// body is one that is being read or stored.
type body struct {
	of      *bodies
	peer    netip.Addr
	reading bool
	data    []byte
	memory  int64
}

// open begins the body of a peer.
func (b *bodies) open(peer netip.Addr) (*body, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	used := b.peers[peer]
	if used == nil {
		used = &usage{}
		b.peers[peer] = used
	}
	if used.reads >= maxPeerReads {
		return nil, errBusy
	}
	used.open++
	used.reads++
	return &body{of: b, peer: peer, reading: true}, nil
}

// read reads the body of a request.
func (o *body) read(w http.ResponseWriter, r *http.Request) error {
	connection := http.NewResponseController(w)
	within := func(span time.Duration) { // a recorder of a test has no deadlines
		_ = connection.SetReadDeadline(time.Now().Add(span)) //nolint:forbidigo // sockets know no other clock
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
			_ = connection.SetReadDeadline(time.Time{}) // none while it is stored
			o.done()
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
	more := min(max(firstGrowth, o.memory), maxBody)
	if !o.of.take(o.peer, more) {
		return errBusy
	}
	o.memory += more
	larger := make([]byte, len(o.data), o.memory+firstRoom)
	copy(larger, o.data)
	o.data = larger
	return nil
}

// take counts memory of a peer, if there is enough.
func (b *bodies) take(peer netip.Addr, bytes int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	used := b.peers[peer]
	if b.memory+bytes > maxMemory || used.memory+bytes > maxPeerMemory {
		return false
	}
	b.memory += bytes
	used.memory += bytes
	return true
}

// done tells that the body is read. It stays in memory until it is closed.
func (o *body) done() {
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	if o.reading {
		o.of.peers[o.peer].reads--
		o.reading = false
	}
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
