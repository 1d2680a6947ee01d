// Package proc runs the program in processes of its own, as an operator would, and simulates faults
// of its network and servers. It knows commands, ports and signals, but not the API. Everything
// that it starts ends with its test.
package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/canary"
)

// Patience is the timeout of tests that do not test timeouts, because the machine may be busy.
const Patience = 3 * time.Minute

var built struct {
	once sync.Once
	dir  string
	err  error
}

// Main runs the tests of a package and removes the program that Binary built.
func Main(m *testing.M) int {
	defer func() { _ = os.RemoveAll(built.dir) }()
	return m.Run()
}

// Binary builds the program as it is shipped, once for a test run, and returns its path.
func Binary(t testing.TB) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "parley"); built.err != nil { //nolint:usetesting // it outlives the test
			return
		}
		build := exec.Command("go", "build", "-buildvcs=false", "-o", built.dir, "github.com/parley-chat/parley/cmd/parley")
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOTOOLCHAIN=auto", "GOFLAGS=")
		if output, err := build.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w\n%s", err, output)
		}
	})
	require.NoError(t, built.err)
	return filepath.Join(built.dir, "parley")
}

// Settings are the environment of a process. It inherits only PATH and HOME from the test.
type Settings map[string]string

// With returns a copy with more settings.
func (s Settings) With(more Settings) Settings {
	all := Settings{}
	maps.Copy(all, s)
	maps.Copy(all, more)
	return all
}

func (s Settings) environ() []string {
	// The level is debug, so that all lines are searched for secrets.
	environ := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "PARLEY_LOG_LEVEL=debug"}
	for name, value := range s {
		environ = append(environ, name+"="+value)
	}
	return environ
}

// Process is a program that runs until it is stopped.
type Process struct {
	command *exec.Cmd
	stdout  *os.File
	stderr  *os.File
	exited  chan struct{}
}

// Start runs the program in a directory of its own and kills it when the test ends. When the test
// failed, its standard error is shown. The test fails when the output contains a secret.
func Start(t testing.TB, settings Settings, args ...string) *Process {
	t.Helper()
	dir := t.TempDir()
	p := &Process{command: exec.Command(Binary(t), args...), exited: make(chan struct{})}
	p.stdout, p.stderr = create(t, dir, "stdout"), create(t, dir, "stderr")
	p.command.Dir, p.command.Env = dir, settings.environ()
	p.command.Stdout, p.command.Stderr = p.stdout, p.stderr
	require.NoError(t, p.command.Start())
	go func() {
		_ = p.command.Wait() // its outcome is in ProcessState
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			log := p.Log(t)
			t.Logf("the end of the log of %s:\n%s", strings.Join(args, " "), log[max(0, len(log)-4_000):])
		}
		_, _ = p.stdout.Close(), p.stderr.Close()
		stdout, err := os.ReadFile(p.stdout.Name())
		require.NoError(t, err)
		checkOutput(t, args, stdout, []byte(p.Log(t)))
	})
	return p
}

func create(t testing.TB, dir, name string) *os.File {
	t.Helper()
	file, err := os.Create(filepath.Join(dir, name))
	require.NoError(t, err)
	return file
}

// checkOutput fails the test when the program wrote a secret, except for the command that prints a
// new API key.
func checkOutput(t testing.TB, args []string, stdout, stderr []byte) {
	t.Helper()
	command := "parley " + strings.Join(args, " ")
	var shown []canary.Kind
	if args[0] == "dev" || strings.Contains(command, " key create ") {
		shown = []canary.Kind{canary.APIKey}
	}
	canary.Check(t, "the standard output of "+command, stdout, shown...)
	canary.Check(t, "the standard error of "+command, stderr)
}

// Stop sends SIGTERM, as an orchestrator would.
func (p *Process) Stop() { _ = p.command.Process.Signal(syscall.SIGTERM) }

// Kill sends SIGKILL and returns when the process has ended.
func (p *Process) Kill() {
	_ = p.command.Process.Kill() // it may have ended already
	<-p.exited
}

// Pid is the id of the process.
func (p *Process) Pid() int { return p.command.Process.Pid }

// Exited returns a channel that is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// ExitCode waits for the end of the process.
func (p *Process) ExitCode(t testing.TB, within time.Duration) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(within):
		require.FailNow(t, "the process did not end", "within %s", within)
	}
	return p.command.ProcessState.ExitCode()
}

// Log returns the standard error of the process.
func (p *Process) Log(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(p.stderr.Name())
	require.NoError(t, err)
	return string(text)
}

// Files returns the files with the standard output and standard error of the process.
func (p *Process) Files() []string { return []string{p.stdout.Name(), p.stderr.Name()} }

// FirstLine waits for the first line on standard output. It returns "" when the process ends
// without one.
func (p *Process) FirstLine(t testing.TB) string {
	t.Helper()
	var line string
	Eventually(t, Patience, "a first line on standard output", func() bool {
		text, err := os.ReadFile(p.stdout.Name())
		require.NoError(t, err)
		first, _, complete := strings.Cut(string(text), "\n")
		line = first
		select {
		case <-p.exited:
			return true
		default:
			return complete
		}
	})
	return line
}

// Result is the output and exit code of a command that has ended.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// Run runs a command of the program to its end. When Hindered, it runs the command again.
func Run(t testing.TB, settings Settings, args ...string) Result {
	t.Helper()
	result := run(t, settings, args...)
	for try := 1; result.Code != 0 && Hindered(result.Stdout+result.Stderr, try); try++ {
		result = run(t, settings, args...)
	}
	return result
}

// Hindered reports whether a command should be tried again: its output says that it got no
// connection to the database within a second, or no answer in 100 ms, which happens on a slow machine. It is false after
// five tries, because then the database is down.
func Hindered(output string, try int) bool {
	return try < 5 && (strings.Contains(output, "acquire connection") || strings.Contains(output, "to tell the time"))
}

func run(t testing.TB, settings Settings, args ...string) Result {
	t.Helper()
	program := Binary(t) // before the timeout starts, because building may take longer than any command
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(ctx, program, args...)
	command.Dir, command.Env = t.TempDir(), settings.environ()
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	require.NoError(t, ctx.Err(), "parley %s", strings.Join(args, " "))
	checkOutput(t, args, stdout.Bytes(), stderr.Bytes())
	return Result{Stdout: stdout.String(), Stderr: stderr.String(), Code: command.ProcessState.ExitCode()}
}

// Eventually calls asked until it returns true, and fails the test after within.
func Eventually(t testing.TB, within time.Duration, what string, asked func() bool) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for !asked() {
		select {
		case <-again.C:
		case <-deadline.C:
			require.FailNow(t, "waited in vain", "%s, for %s", what, within)
		}
	}
}

var handedOut sync.Map

// FreeAddress returns an address with a free port of this machine. The port is below the range of
// outgoing connections, so that it stays free while a process is restarted.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000))
		if _, taken := handedOut.LoadOrStore(address, true); taken {
			continue
		}
		if listener, err := net.Listen("tcp", address); err == nil {
			require.NoError(t, listener.Close())
			return address
		}
	}
	require.FailNow(t, "no free port")
	return ""
}
