package jobs_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

type chore struct {
	Number int `json:"number"`
}

func (chore) Kind() string { return "chore" }

const maintenance = "maintenance"

type fixture struct {
	db    *postgres.DB
	clock clock.Clock
	queue *jobs.Queue
}

func newFixture(t *testing.T, now clock.Clock) *fixture {
	t.Helper()
	f := &fixture{db: pgtest.Open(t), clock: now}
	var err error
	f.queue, err = jobs.NewQueue(f.db, now, canary.Logger(t))
	require.NoError(t, err)
	return f
}

func (f *fixture) add(t *testing.T, added ...jobs.Job) []int64 {
	t.Helper()
	numbers, err := postgres.InSystemTx(t.Context(), f.db, "test", func(tx *postgres.Tx) ([]int64, error) {
		return f.queue.AddTx(t.Context(), tx, added...)
	})
	require.NoError(t, err)
	return numbers
}

// run works jobs until stop is called. Stop returns once running jobs have finished.
func (f *fixture) run(t *testing.T, work jobs.Work[chore]) (runner *jobs.Runner, stop func()) {
	t.Helper()
	set := jobs.NewSet()
	set.Queue(maintenance, 8, 20*time.Millisecond)
	jobs.Handle(set, work)
	runner, err := jobs.NewRunner(f.db, f.clock, canary.Logger(t), set)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var group sync.WaitGroup
	group.Go(func() { require.NoError(t, runner.Run(ctx)) })
	stop = sync.OnceFunc(func() {
		cancel()
		group.Wait()
	})
	t.Cleanup(stop)
	return runner, stop
}

func (f *fixture) exec(t *testing.T, sql string) {
	t.Helper()
	_, err := postgres.InSystemTx(t.Context(), f.db, "test", func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(t.Context(), sql, nil)
	})
	require.NoError(t, err)
}

func eventually(t *testing.T, what string, asked func() bool) {
	t.Helper()
	require.Eventually(t, asked, 3*time.Minute, 5*time.Millisecond, what)
}

func TestAddTx_RolledBack_JobDoesNotRun(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clock.NewSynced())
	var done sync.Map
	f.run(t, func(_ context.Context, _ int64, args chore) error {
		done.Store(args.Number, true)
		return nil
	})
	cause := errors.New("no")
	_, err := postgres.InSystemTx(t.Context(), f.db, "test", func(tx *postgres.Tx) (struct{}, error) {
		_, err := f.queue.AddTx(t.Context(), tx, jobs.Job{Args: chore{1}, Queue: maintenance})
		require.NoError(t, err)
		return struct{}{}, cause
	})
	require.ErrorIs(t, err, cause)
	numbers := f.add(t, jobs.Job{Args: chore{2}, Queue: maintenance}, jobs.Job{Args: chore{3}, Queue: maintenance})
	require.Less(t, numbers[0], numbers[1], "ids ascend")
	eventually(t, "both jobs", func() bool {
		_, second := done.Load(2)
		_, third := done.Load(3)
		return second && third
	})
	_, first := done.Load(1)
	require.False(t, first)
}

// A job is set aside at the third failure of one class. Failures of other classes do not count.
func TestRunner_ThreeFailuresOfOneClass_SetAside(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clock.NewSynced())
	var tries atomic.Int64
	healed := atomic.Bool{}
	f.run(t, func(context.Context, int64, chore) error {
		switch try := tries.Add(1); {
		case healed.Load():
			return nil
		case try == 2:
			panic("once")
		default:
			return errors.New("upstream: no answer, try " + strconv.FormatInt(try, 10))
		}
	})
	number := f.add(t, jobs.Job{Args: chore{1}, Queue: maintenance})[0]
	eventually(t, "the quarantine", func() bool {
		f.exec(t, `UPDATE river.river_job SET scheduled_at = now(), state = 'available' WHERE scheduled_at > now() AND finalized_at IS NULL`)
		return len(aside(t, f)) == 1
	})
	require.Equal(t, int64(4), tries.Load(), "a panic between does not count")
	set := aside(t, f)[0]
	require.Equal(t, number, set.ID)
	require.Contains(t, set.Reason, "upstream: no answer")
	standing, err := f.queue.Standing(t.Context(), f.clock.Now())
	require.NoError(t, err)
	require.Equal(t, int64(1), standing.Aside)

	healed.Store(true)
	_, err = f.queue.Retry(t.Context(), number, f.clock.Now())
	require.NoError(t, err)
	eventually(t, "the retry", func() bool { return tries.Load() == 5 && len(aside(t, f)) == 0 })
	_, err = f.queue.Retry(t.Context(), number, f.clock.Now())
	require.Equal(t, fault.ResourceNotFound, fault.Of(err))
}

func aside(t *testing.T, f *fixture) []jobs.Aside {
	t.Helper()
	set, err := f.queue.Aside(t.Context(), 10)
	require.NoError(t, err)
	return set
}

// A job whose processes died three times is set aside without another attempt.
func TestRunner_ThreeRescues_SetAsideWithoutATry(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clock.NewSynced())
	number := f.add(t, jobs.Job{Args: chore{1}, Queue: maintenance})[0]
	rescued := `{"at":"2026-03-14T09:26:53Z","attempt":1,"error":"Stuck job rescued by JobRescuer","trace":"TODO"}`
	f.exec(t, `UPDATE river.river_job SET attempt = 3, errors = ARRAY['`+rescued+`','`+rescued+`','`+rescued+`']::jsonb[]`)
	var tries atomic.Int64
	runner, _ := f.run(t, func(context.Context, int64, chore) error {
		tries.Add(1)
		return nil
	})
	eventually(t, "the quarantine", func() bool { return len(aside(t, f)) == 1 })
	require.Zero(t, tries.Load())
	require.Equal(t, number, aside(t, f)[0].ID)
	require.Equal(t, int64(1), runner.Rescued())
}

func TestRunner_Stop_WaitsForRunningJobs(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clock.NewSynced())
	begun, finished := make(chan struct{}), atomic.Bool{}
	_, stop := f.run(t, func(context.Context, int64, chore) error {
		close(begun)
		time.Sleep(300 * time.Millisecond)
		finished.Store(true)
		return nil
	})
	f.add(t, jobs.Job{Args: chore{1}, Queue: maintenance})
	<-begun
	stop()
	require.True(t, finished.Load())
	state, err := postgres.One[string](t.Context(), f.db.System("test"), `SELECT state::text FROM river.river_job`, nil)
	require.NoError(t, err)
	require.Equal(t, "completed", state)
}

// River uses the clock of the test.
func TestRunner_ManualClock_DecidesWhatIsDue(t *testing.T) {
	t.Parallel()
	moved := clock.NewManual(time.Now().Add(-24 * time.Hour))
	f := newFixture(t, moved)
	var done atomic.Int64
	f.run(t, func(context.Context, int64, chore) error {
		done.Add(1)
		return nil
	})
	f.add(t, jobs.Job{Args: chore{1}, Queue: maintenance, At: moved.Now().Add(3 * time.Second)})
	time.Sleep(300 * time.Millisecond)
	require.Zero(t, done.Load(), "not due by the clock of the test, although due by that of the machine")
	moved.Move(4 * time.Second)
	eventually(t, "the job", func() bool { return done.Load() == 1 })
}

func TestMigrate_Twice_ChangesNothing(t *testing.T) {
	t.Parallel()
	applied, err := jobs.Migrate(t.Context(), pgtest.Open(t))
	require.NoError(t, err)
	require.Zero(t, applied)
}
