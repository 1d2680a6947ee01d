package ratelimit_test

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ratelimit"
	"github.com/parley-chat/parley/internal/testkit/leaks"
)

const commonRedis = "redis://127.0.0.1:6379"

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

// unique returns a key of its own for each test, because tests share one Redis.
func unique(name string) string { return "test:" + name + ":" + ulid.Make().String() }

// patience is the timeout of tests that do not test timeouts: the machine may be busy.
const patience = 3 * time.Minute

// returns fails the test when a call waits for Redis.
func returns(t testing.TB, call func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		require.Fail(t, "it waits for Redis")
	}
}

func client(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	return hasty(t, url, patience)
}

func hasty(t testing.TB, url string, budget time.Duration) redis.UniversalClient {
	t.Helper()
	c, err := ratelimit.Connect(url, budget)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// limiter returns a limiter with defaults for empty options. It is closed when the test ends.
func limiter(t testing.TB, opts ratelimit.Options) *ratelimit.Limiter {
	t.Helper()
	if opts.Clock == nil {
		opts.Clock = clock.NewSynced()
	}
	l := ratelimit.New(opts)
	t.Cleanup(l.Close)
	return l
}

// server is a Redis of one test, which can stop it and start it again.
type server struct {
	socket  string
	process *exec.Cmd
}

func ownRedis(t testing.TB) *server {
	t.Helper()
	dir, err := os.MkdirTemp("", "rl") //nolint:usetesting // a socket's path must stay short
	require.NoError(t, err)
	s := &server{socket: filepath.Join(dir, "s")}
	t.Cleanup(func() {
		s.stop()
		_ = os.RemoveAll(dir)
	})
	s.start(t)
	return s
}

func (s *server) url() string { return "unix://" + s.socket }

func (s *server) start(t testing.TB) {
	t.Helper()
	s.process = exec.Command("redis-server", "--port", "0", "--unixsocket", s.socket,
		"--save", "", "--appendonly", "no", "--dir", filepath.Dir(s.socket))
	require.NoError(t, s.process.Start())
	require.Eventually(t, func() bool {
		conn, err := net.Dial("unix", s.socket)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, patience, 5*time.Millisecond)
}

func (s *server) stop() {
	if s.process != nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
		s.process = nil
	}
}

// proxy forwards to a server, and can hold back its answers.
type proxy struct {
	address string
	mu      sync.Mutex
	// held is closed while answers are forwarded.
	held chan struct{}
}

func proxyTo(t testing.TB, to *server) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{address: listener.Addr().String(), held: make(chan struct{})}
	close(p.held)
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { p.serve(conn, to.socket, done, &running) })
		}
	})
	t.Cleanup(func() {
		close(done)
		_ = listener.Close()
		running.Wait()
	})
	return p
}

func (p *proxy) url() string { return "redis://" + p.address }

// hold holds back all answers until release.
func (p *proxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = make(chan struct{})
}

func (p *proxy) release() { close(p.open()) }

func (p *proxy) open() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

func (p *proxy) serve(conn net.Conn, socket string, done <-chan struct{}, running *sync.WaitGroup) {
	upstream, err := net.Dial("unix", socket)
	if err != nil {
		_ = conn.Close()
		return
	}
	ended := make(chan struct{})
	running.Go(func() {
		select {
		case <-done:
		case <-ended:
		}
		_ = conn.Close()
		_ = upstream.Close()
	})
	running.Go(func() {
		_, _ = io.Copy(upstream, conn)
		_ = upstream.Close()
	})
	defer close(ended)
	bytes := make([]byte, 4096)
	for {
		n, err := upstream.Read(bytes)
		if err != nil {
			return
		}
		select {
		case <-p.open():
		case <-done:
			return
		}
		if _, err := conn.Write(bytes[:n]); err != nil {
			return
		}
	}
}
