package lanes_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/schema"
)

// full asks for the proofs at the size that the promises name; `make proof-lanes` does.
func full() bool { return os.Getenv("PARLEY_PROOF") == "full" }

// sized is the everyday size of something, or the one that the promises name.
func sized[T any](everyday, promised T) T {
	if full() {
		return promised
	}
	return everyday
}

const calling = "calling"

// plan is what a worker process does.
type plan struct {
	Name, URL, Dir string
	// Workers is how many lanes it drains at once, Least and Most how many rows of each.
	Workers, Least, Most int
	// Shortest and Longest bound how long a call takes, Settling how long a settlement does.
	Shortest, Longest, Settling time.Duration
	// WatchOnly processes take lanes over, and no jobs from River.
	WatchOnly bool
}

func (p plan) file(kind string) string { return filepath.Join(p.Dir, p.Name+"."+kind) }

const planVariable = "PARLEY_TEST_LANE_WORKER"

// TestProcessChild is the process that others kill and stop; by itself it does nothing.
func TestProcessChild(t *testing.T) {
	t.Parallel()
	told := os.Getenv(planVariable)
	if told == "" {
		return
	}
	var p plan
	require.NoError(t, json.Unmarshal([]byte(told), &p))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // open for as long as somebody wants this process
		cancel()
	}()
	p.work(ctx, t)
}

func connect(t *testing.T, name, url string) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{
		URL: url, Name: name, MaxConns: 8, AcquireWait: 10 * time.Second,
		Enter: schema.EnterOrganization, EnterAll: schema.EnterAll(),
	})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	return db
}

// work drains lanes as a process of the product does.
func (p plan) work(ctx context.Context, t *testing.T) {
	t.Helper()
	notes, err := os.OpenFile(p.file("calls"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	require.NoError(t, err)
	db, now, logger := connect(t, p.Name, p.URL), clock.NewSynced(), slog.New(slog.NewTextHandler(os.Stderr, nil))
	queue, err := jobs.NewQueue(db, now, logger)
	require.NoError(t, err)
	known := lanes.New(db, queue, now, logger)
	lanes.Register(known, p.kind(&notebook{file: notes}))
	engine, set := lanes.NewEngine(known, db), jobs.NewSet()
	engine.Handle(set)
	runner, err := jobs.NewRunner(db, now, logger, set)
	require.NoError(t, err)
	var group sync.WaitGroup
	group.Go(func() { engine.Run(ctx) })
	if !p.WatchOnly {
		group.Go(func() { _ = runner.Run(ctx) })
	}
	group.Wait()
}

const sqlSettled = `
INSERT INTO settled (id, times, by, at)
SELECT id, 1, @by, clock_timestamp() FROM unnest(@ids::uuid[]) AS given (id)
ON CONFLICT (id) DO UPDATE SET times = settled.times + 1`

// kind notes each call where no death of the process can undo it, and each settlement
// where only the lane's owner can.
func (p plan) kind(notes *notebook) callKind {
	return callKind{
		Name: calling, Workers: p.Workers, SlowWorkers: 4, Least: p.Least, Most: p.Most,
		Open: func(context.Context, lanes.Lane) (callWork, error) {
			return callWork{
				Call: func(_ context.Context, row lanes.Row, _ string) callAnswer {
					notes.write(started, row.ID)
					time.Sleep(between(p.Shortest, p.Longest))
					notes.write(ended, row.ID)
					return callAnswer{}
				},
				Settle: func(ctx context.Context, tx *postgres.Tx, batch *callBatch) error {
					if err := settleTx(ctx, tx, p.Name, batch); err != nil || p.Settling == 0 {
						return err
					}
					notes.write(settling, batch.Lane.ID)
					time.Sleep(p.Settling)
					notes.write(settled, batch.Lane.ID)
					return nil
				},
			}, nil
		},
	}
}

// worker is a process that drains lanes.
type worker struct {
	plan

	command *exec.Cmd
	log     *os.File
	exited  chan struct{}
}

// start runs a worker and kills it when the test ends.
func (s *site) start(t *testing.T, p plan) *worker {
	t.Helper()
	p.URL, p.Dir = s.url, s.dir
	told, err := json.Marshal(p)
	require.NoError(t, err)
	w := &worker{plan: p, command: exec.Command(os.Args[0], "-test.run=^TestProcessChild$"), exited: make(chan struct{})}
	w.log, err = os.Create(p.file("log"))
	require.NoError(t, err)
	w.command.Env = append(os.Environ(), planVariable+"="+string(told))
	w.command.Stdout, w.command.Stderr = w.log, w.log
	_, err = w.command.StdinPipe() // closed by the kernel if this process dies
	require.NoError(t, err)
	require.NoError(t, w.command.Start())
	go func() {
		_ = w.command.Wait() // the tests look at what it did, not at how it ended
		close(w.exited)
	}()
	t.Cleanup(func() {
		w.kill()
		if t.Failed() {
			size, _ := w.log.Seek(0, io.SeekEnd)
			text := make([]byte, min(size, 6_000))
			_, _ = w.log.ReadAt(text, size-int64(len(text)))
			t.Logf("the end of the log of %s:\n%s", w.Name, text)
		}
		_ = w.log.Close()
	})
	return w
}

// kill ends the process between two instructions, waits until it is gone, and returns a
// time at which it was not yet dead.
func (w *worker) kill() time.Time {
	at := time.Now()
	_ = w.command.Process.Kill() // it may be gone already
	<-w.exited
	return at
}

// halt has the process stand still until it goes on or is killed.
func (w *worker) halt(t *testing.T) {
	t.Helper()
	require.NoError(t, w.command.Process.Signal(syscall.SIGSTOP))
	time.Sleep(100 * time.Millisecond) // what a thread had asked of the kernel is done before it stops
}

func (w *worker) goOn(t *testing.T) {
	t.Helper()
	require.NoError(t, w.command.Process.Signal(syscall.SIGCONT))
}
