package simulator

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
)

// live tells open pages what happens. A page that does not keep up is cut off: its
// browser comes back by itself and loads everything anew.
type live struct {
	watchers atomic.Int32

	mu     sync.Mutex
	open   map[chan []byte]bool
	closed bool
}

const maxBehind = 1_000

func newLive() *live { return &live{open: map[chan []byte]bool{}} }

// publish costs nothing while nobody watches.
func (l *live) publish(name string, what any) {
	if l.watchers.Load() == 0 {
		return
	}
	line := fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, encode(what))
	l.mu.Lock()
	defer l.mu.Unlock()
	for watcher := range l.open {
		select {
		case watcher <- line:
		default:
			l.leave(watcher)
		}
	}
}

func (l *live) join() chan []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	watcher := make(chan []byte, maxBehind)
	if l.closed {
		close(watcher)
		return watcher
	}
	l.open[watcher] = true
	l.watchers.Add(1)
	return watcher
}

// leave is called with the lock held, and may be called twice.
func (l *live) leave(watcher chan []byte) {
	if l.open[watcher] {
		delete(l.open, watcher)
		l.watchers.Add(-1)
		close(watcher)
	}
}

// close ends all pages' streams, so that a server can stop.
func (l *live) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for watcher := range l.open {
		l.leave(watcher)
	}
}

// events streams what happens (Server-Sent Events) until the page goes away.
func (s *Simulator) events(w http.ResponseWriter, r *http.Request) {
	watcher := s.live.join()
	defer func() {
		s.live.mu.Lock()
		defer s.live.mu.Unlock()
		s.live.leave(watcher)
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	stream := http.NewResponseController(w)
	line := []byte("retry: 1000\nevent: hello\ndata: {}\n\n")
	for {
		if _, err := w.Write(line); err != nil {
			return
		}
		if err := stream.Flush(); err != nil {
			return
		}
		var more bool
		select {
		case <-r.Context().Done():
			return
		case line, more = <-watcher:
			if !more {
				return
			}
		}
	}
}
