package proc

import (
	"net"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// Redis is a Redis server of one test, which can kill it and start it again.
type Redis struct {
	Address string
	command *exec.Cmd
}

// NewRedis starts a server without persistence, which ends with the test.
func NewRedis(t testing.TB) *Redis {
	t.Helper()
	r := &Redis{Address: FreeAddress(t)}
	t.Cleanup(r.Kill)
	r.Start(t)
	return r
}

// URL returns the server's URL.
func (r *Redis) URL() string { return "redis://" + r.Address }

// Start starts the server without data.
func (r *Redis) Start(t testing.TB) {
	t.Helper()
	_, port, err := net.SplitHostPort(r.Address)
	require.NoError(t, err)
	r.command = exec.Command("redis-server", "--bind", "127.0.0.1", "--port", port,
		"--save", "", "--appendonly", "no", "--dir", t.TempDir())
	require.NoError(t, r.command.Start())
	Eventually(t, Patience, "Redis listens", func() bool {
		conn, err := net.Dial("tcp", r.Address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

// Kill ends the server as a crash would.
func (r *Redis) Kill() {
	if r.command != nil {
		_ = r.command.Process.Kill()
		_ = r.command.Wait()
		r.command = nil
	}
}
