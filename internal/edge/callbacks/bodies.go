package callbacks

import (
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// maxBody is the largest body, in bytes.
	maxBody = 4 << 20
	// maxMemory is how many bytes of bodies a process holds in memory, besides the first chunk of each; a quarter of them for one
	// peer.
	maxMemory     = 256 << 20
	maxPeerMemory = maxMemory / 4
	// maxPeerReads is how many bodies of one peer are read at once. The provider sends a body in
	// milliseconds, so that its own callbacks do not reach it. A further body takes the place of the oldest one.
	maxPeerReads = 64
	// A body is read into chunks: the first has firstChunk bytes, because most callbacks fit, the others chunkSize.
	firstChunk = 4 << 10
	chunkSize  = 64 << 10
	// A body must begin within firstByteWithin and be complete within wholeWithin.
	firstByteWithin = 2 * time.Second
	wholeWithin     = 8 * time.Second
)

// bodies reads bodies of callers that are not known before the signature of the whole body is checked. So
// memory is counted as the bytes arrive and not as they are announced, and each peer has a share. When a peer has used its
// share, its body that is being read for the longest time is refused: it is likely to have stalled. The memory of a refused body
// counts until its handler lets go of it; the body that needs the memory waits for that. Chunks are used again: with GOGC=400 the
// heap grows to five times what is in use before garbage is collected.
type bodies struct {
	mu sync.Mutex
	// freed is signaled when memory was given back, and when a body was refused.
	freed  *sync.Cond
	memory int64
	// peers are by clientip.Bucket: a host has all addresses of an IPv6 network.
	peers map[string]*usage
	// chunks are those that no body uses.
	chunks sync.Pool
}

// usage is what the bodies of one peer use.
type usage struct {
	// open counts bodies that are read or stored.
	open int
	// reads are the bodies that are read, oldest first.
	reads  []*body
	memory int64
	// leaving is the part of the memory that refused bodies are about to give back.
	leaving int64
}

func newBodies() *bodies {
	made := &bodies{peers: map[string]*usage{}, chunks: sync.Pool{New: func() any { return new([chunkSize]byte) }}}
	made.freed = sync.NewCond(&made.mu)
	return made
}

// body is one that is being read or stored.
type body struct {
	of   *bodies
	peer string
	// chunks are the bytes that were read. All but the last are full.
	chunks [][]byte

	// These are guarded by the mutex of bodies.
	memory  int64
	refused bool
	// stop ends a read that waits for bytes.
	stop func()
}

// open begins the body of a peer. stop is called, at most once, if the body must make room for others.
func (b *bodies) open(peer string, stop func()) *body {
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

// refuse ends the reading of a body. Its handler then returns and closes it.
func (b *bodies) refuse(used *usage, o *body) {
	o.refused = true
	used.ended(o)
	used.leaving += o.memory
	o.stop()
	b.freed.Broadcast()
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
	limited, begun := http.MaxBytesReader(w, r.Body, maxBody), false
	for {
		room, err := o.room()
		if err != nil {
			return err
		}
		n, err := limited.Read(room)
		if !begun && n > 0 {
			begun = true
			within(wholeWithin)
		}
		last := len(o.chunks) - 1
		o.chunks[last] = o.chunks[last][:len(o.chunks[last])+n]
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

// room is where the next bytes go: the rest of the last chunk, or a new one. The first chunk is not counted: maxPeerReads
// bounds it.
func (o *body) room() ([]byte, error) {
	if len(o.chunks) == 0 {
		o.chunks = append(o.chunks, make([]byte, 0, firstChunk))
	}
	last := o.chunks[len(o.chunks)-1]
	if len(last) == cap(last) {
		if !o.take(chunkSize) {
			return nil, errBusy
		}
		chunk, _ := o.of.chunks.Get().(*[chunkSize]byte)
		last = chunk[:0]
		o.chunks = append(o.chunks, last)
	}
	return last[len(last):cap(last)], nil
}

// join returns the bytes in one piece. Both it and the chunks are in memory until the body is closed.
func (o *body) join() ([]byte, error) {
	if len(o.chunks) == 1 {
		return o.chunks[0], nil
	}
	size := 0
	for _, chunk := range o.chunks {
		size += len(chunk)
	}
	if !o.take(int64(size)) {
		return nil, errBusy
	}
	return slices.Concat(o.chunks...), nil
}

// take counts memory for the body. If the peer has used its share, take refuses older bodies of it and waits until they are
// closed. It returns false if there is not enough, or if the body itself was refused.
func (o *body) take(bytes int64) bool {
	b := o.of
	b.mu.Lock()
	defer b.mu.Unlock()
	used := b.peers[o.peer]
	for !o.refused && used.memory+bytes > maxPeerMemory {
		switch {
		case used.memory-used.leaving+bytes <= maxPeerMemory:
			b.freed.Wait()
		case len(used.reads) == 0:
			return false
		default:
			b.refuse(used, used.reads[0]) // this one, if it is the oldest
		}
	}
	if o.refused || b.memory+bytes > maxMemory {
		return false
	}
	o.count(bytes)
	return true
}

// count adds to the memory of the body, of its peer and of all.
func (o *body) count(bytes int64) {
	used := o.of.peers[o.peer]
	o.memory += bytes
	used.memory += bytes
	o.of.memory += bytes
	if o.refused {
		used.leaving += bytes
	}
}

// done tells that the body is read. It stays in memory until it is closed. done returns false if the body was refused.
func (o *body) done() bool {
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	o.of.peers[o.peer].ended(o)
	return !o.refused
}

// close frees the memory of the body. Its chunks are used by other bodies then.
func (o *body) close() {
	o.done()
	for _, chunk := range o.chunks[min(1, len(o.chunks)):] {
		o.of.chunks.Put((*[chunkSize]byte)(chunk[:chunkSize]))
	}
	o.chunks = nil
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	used := o.of.peers[o.peer]
	o.count(-o.memory)
	o.of.freed.Broadcast()
	if used.open--; used.open == 0 {
		delete(o.of.peers, o.peer)
	}
}
