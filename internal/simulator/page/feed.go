package page

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/parley-chat/parley/internal/simulator/wire"
)

// Feed streams events to open pages (Server-Sent Events). A page that falls behind by
// maxBehind events is disconnected; its browser reconnects and loads everything again.
type Feed struct {
	count atomic.Int32 // of streams, read without the mutex

	mu      sync.Mutex
	streams map[chan []byte]bool
	closed  bool
}

// maxBehind is how many events are buffered for one page.
const maxBehind = 1_000

// NewFeed returns a feed without pages.
func NewFeed() *Feed { return &Feed{streams: map[chan []byte]bool{}} }

// Publish sends an event to all pages. Without an open page it encodes nothing.
func (f *Feed) Publish(name string, data any) {
	if f.count.Load() == 0 {
		return
	}
	event := fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, wire.Encode(data))
	f.mu.Lock()
	defer f.mu.Unlock()
	for stream := range f.streams {
		select {
		case stream <- event:
		default:
			f.remove(stream)
		}
	}
}

// PublishState tells pages to load the lists of numbers, users and templates again.
func (f *Feed) PublishState() { f.Publish("state", struct{}{}) }

func (f *Feed) add() chan []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	stream := make(chan []byte, maxBehind)
	if f.closed {
		close(stream)
		return stream
	}
	f.streams[stream] = true
	f.count.Add(1)
	return stream
}

// remove may be called twice. The caller holds the lock.
func (f *Feed) remove(stream chan []byte) {
	if f.streams[stream] {
		delete(f.streams, stream)
		f.count.Add(-1)
		close(stream)
	}
}

// Close ends all streams, so that an HTTP server can shut down.
func (f *Feed) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for stream := range f.streams {
		f.remove(stream)
	}
}

// ServeHTTP streams events until the page disconnects.
func (f *Feed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	stream := f.add()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.remove(stream)
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	writer := http.NewResponseController(w)
	event := []byte("retry: 1000\nevent: hello\ndata: {}\n\n")
	for open := true; open; {
		if _, err := w.Write(event); err != nil {
			return
		}
		if err := writer.Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case event, open = <-stream:
		}
	}
}
