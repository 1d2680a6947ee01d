package factory

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Work starts a drainer of lanes and a runner of jobs, which stop when the test ends.
func (w *World) Work(t testing.TB) {
	t.Helper()
	set, engine := jobs.NewSet(), lanes.NewEngine(w.Lanes, w.DB)
	engine.Handle(set)
	w.Handle(set)
	runner, err := jobs.NewRunner(w.DB, w.Clock, w.Logger, set)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var group sync.WaitGroup
	group.Go(func() { engine.Run(ctx) })
	group.Go(func() { _ = runner.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
}

// River's scheduler and the sweep run every few seconds of real time. A test that moved its clock
// uses this statement instead of waiting for them.
const sqlWake = `
UPDATE ` + jobs.Table + `
SET state = 'available'
WHERE state IN ('scheduled', 'retryable') AND scheduled_at <= $1`

// Pass moves the clock and starts the jobs that became due. Before a large step it waits for running
// jobs, because rows that a lane has taken would be too old to be called after it.
func (w *World) Pass(t testing.TB, by time.Duration) {
	t.Helper()
	if by >= leap {
		w.rest(t)
	}
	w.Clock.Move(by)
	w.Wake(t)
}

// Wake starts the jobs that are due.
func (w *World) Wake(t testing.TB) {
	t.Helper()
	_, err := w.DB.Pool().Exec(t.Context(), sqlWake, w.Clock.Now())
	require.NoError(t, err)
	require.NoError(t, w.Lanes.Sweep(t.Context()))
}

const (
	// leap is the largest step of the clock. It is shorter than the timeout of a job.
	leap     = 20 * time.Second
	restFor  = 10 * time.Second
	sqlUnder = `SELECT count(*) FROM ` + jobs.Table + ` WHERE state = 'running'`
)

// rest waits until no job runs, for a bounded time.
func (w *World) rest(t testing.TB) {
	t.Helper()
	for until := time.Now().Add(restFor); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		var running int
		require.NoError(t, w.DB.Pool().QueryRow(t.Context(), sqlUnder).Scan(&running))
		if running == 0 {
			return
		}
	}
}

// RebuildLanes removes the lanes of an organization and makes them again, as a move does.
func (w *World) RebuildLanes(t testing.TB, org orgs.ID) {
	t.Helper()
	require.NoError(t, w.Lanes.Dissolve(t.Context(), org))
	require.NoError(t, w.Lanes.ReturnRows(t.Context(), org))
	_, err := postgres.InTx(t.Context(), w.DB, org, func(tx *postgres.Tx) (struct{}, error) {
		return struct{}{}, w.Lanes.RebuildTx(t.Context(), tx)
	})
	require.NoError(t, err)
}
