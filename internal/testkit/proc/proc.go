// Package proc runs the real program in processes of its own, as an operator would, and
// puts faults between a process and what it talks to. It knows commands, ports and
// signals, and nothing of the API; everything it starts ends with its test.
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

// Patience is how long anything may take that is not about time, on a machine that is
// busy with others.
const Patience = time.Minute

var built struct {
	once sync.Once
	dir  string
	err  error
}

// Main runs the tests of a package and removes what Binary built.
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

// Settings are the environment of a process, which sees nothing else of the test's own.
type Settings map[string]string

// With is a copy with more settings.
func (s Settings) With(more Settings) Settings {
	all := Settings{}
	maps.Copy(all, s)
	maps.Copy(all, more)
	return all
}

func (s Settings) environ() []string {
	// Every line is written, so that every line is searched for secrets.
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

// Start runs the program in a directory of its own and kills it when the test ends. What
// it wrote to standard error is shown when the test failed, and nothing that it wrote may be
// a secret.
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

// checkOutput fails the test whose program writes a secret, other than a new API key to
// who asked for it.
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

// Stop asks the process to end, as an orchestrator would.
func (p *Process) Stop() { _ = p.command.Process.Signal(syscall.SIGTERM) }

// Kill ends the process between two instructions and returns when it is gone.
func (p *Process) Kill() {
	_ = p.command.Process.Kill() // it may be gone already
	<-p.exited
}

// Exited is closed once the process is gone.
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

// Log is what the process has written to standard error.
func (p *Process) Log(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(p.stderr.Name())
	require.NoError(t, err)
	return string(text)
}

// Files hold what the process has written, to standard output and to standard error.
func (p *Process) Files() []string { return []string{p.stdout.Name(), p.stderr.Name()} }

// FirstLine waits for the first line on standard output. It is "" when the process ends without one.
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

// Result is what a command that ended by itself left behind.
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

// Hindered tells from the output of a command whether it should be tried again: it got no connection
// to the database within a second, which happens when the machine stands still. Where the database
// is away in earnest, five tries are enough.
func Hindered(output string, try int) bool {
	return try < 5 && strings.Contains(output, "acquire connection")
}

func run(t testing.TB, settings Settings, args ...string) Result {
	t.Helper()
	program := Binary(t) // built before the time runs: that may take longer than any command
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

// Eventually asks again and again until the answer is yes, and fails when time is up.
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

// FreeAddress is a port of this machine that nobody listens on. It lies below the range
// from which the kernel takes the ports of outgoing connections, so that it stays free
// while a process is restarted.
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
