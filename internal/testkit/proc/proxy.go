package proc

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Proxy forwards connections to a server, and simulates faults of the network.
type Proxy struct {
	Address string
	target  string

	mu        sync.Mutex
	listener  net.Listener
	off       bool
	open      map[net.Conn]struct{}
	delay     time.Duration
	mute      bool
	muteAfter []byte
	swallowed bytes.Buffer

	running sync.WaitGroup
}

// NewProxy forwards to target until the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{Address: FreeAddress(t), target: target, open: map[net.Conn]struct{}{}}
	p.On(t)
	t.Cleanup(func() {
		p.Off()
		p.running.Wait()
	})
	return p
}

// On accepts connections.
func (p *Proxy) On(t testing.TB) {
	t.Helper()
	listener, err := net.Listen("tcp", p.Address)
	require.NoError(t, err)
	p.mu.Lock()
	p.listener, p.off = listener, false
	p.mu.Unlock()
	p.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.serve(client) })
		}
	})
}

// Off cuts every connection and refuses new ones.
func (p *Proxy) Off() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = true
	_ = p.listener.Close()
	for conn := range p.open {
		_ = conn.Close()
	}
}

// Delay delays every answer.
func (p *Proxy) Delay(by time.Duration) { p.change(func() { p.delay = by }) }

// Mute forwards requests and drops the answers.
func (p *Proxy) Mute(on bool) { p.change(func() { p.mute = on }) }

// MuteAfter drops the answers of a connection after a request on it that contains text. "" ends
// that for later connections.
func (p *Proxy) MuteAfter(text string) { p.change(func() { p.muteAfter = []byte(text) }) }

// Swallowed returns the bytes that were dropped since its last call.
func (p *Proxy) Swallowed() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := bytes.Clone(p.swallowed.Bytes())
	p.swallowed.Reset()
	return taken
}

func (p *Proxy) change(how func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	how()
}

func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	link := &link{proxy: p, cut: make(chan struct{})}
	p.change(func() {
		p.open[client], p.open[server] = struct{}{}, struct{}{}
		if p.off { // since this connection was accepted
			_, _ = client.Close(), server.Close()
		}
	})
	p.running.Go(func() {
		link.forward(server, client, link.request)
		link.end(client, server)
	})
	link.forward(client, server, link.answer)
	link.end(client, server)
}

// link is one connection through the proxy.
type link struct {
	proxy *Proxy
	once  sync.Once
	cut   chan struct{}
	muted bool
}

func (l *link) end(client, server net.Conn) {
	l.once.Do(func() { close(l.cut) })
	_, _ = client.Close(), server.Close()
	l.proxy.change(func() {
		delete(l.proxy.open, client)
		delete(l.proxy.open, server)
	})
}

func (l *link) forward(to io.Writer, from io.Reader, passes func([]byte) bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && passes(buffer[:n]) {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *link) request(chunk []byte) bool {
	l.proxy.change(func() {
		if text := l.proxy.muteAfter; len(text) > 0 && bytes.Contains(chunk, text) {
			l.muted = true
		}
	})
	return true
}

func (l *link) answer(chunk []byte) bool {
	passes, delay := true, time.Duration(0)
	l.proxy.change(func() {
		delay = l.proxy.delay
		if l.muted || l.proxy.mute {
			l.proxy.swallowed.Write(chunk)
			passes = false
		}
	})
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-l.cut:
		}
	}
	return passes
}
