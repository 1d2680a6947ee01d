package lanes

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

func TestARowThatKeepsFailingIsSetAside(t *testing.T) {
	t.Parallel()
	poison := newID()
	var good, bad atomic.Int64
	healed := atomic.Bool{}
	w := newWorld(t, clock.NewManual(time.Now()), doing(func(_ context.Context, row Row) Result {
		if row.ID != poison || healed.Load() {
			good.Add(1)
			return Result{}
		}
		if bad.Add(1) > 1 {
			panic("no")
		}
		return Result{Fault: errors.New("something else")}
	}))
	engine := NewEngine(w.lanes, w.db)
	lane := w.open(t, "test")
	w.add(t, "test", lane, append(rows(20), Row{ID: poison})...)
	for range 10 {
		w.drainAll(t, engine)
		w.clock.(*clock.Manual).Move(time.Minute)
	}
	require.Equal(t, int64(20), good.Load())
	require.Equal(t, int64(4), bad.Load(), "once in one class, three times in another")
	aside, err := w.lanes.Aside(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, aside, 1)
	require.Equal(t, poison, aside[0].ID)
	require.Equal(t, "panic: no", aside[0].Reason)
	healed.Store(true)
	require.NoError(t, w.lanes.Retry(t.Context(), poison))
	w.drainAll(t, engine)
	require.Equal(t, int64(21), good.Load())
	require.Error(t, w.lanes.Retry(t.Context(), poison))
}

// drainAll wakes what the sweep would and drains it.
func (w *world) drainAll(t testing.TB, engine *Engine) {
	t.Helper()
	require.NoError(t, w.lanes.Sweep(t.Context()))
	w.drainDue(t, engine)
}

// drainDue plays River: it hands every due job to the engine until none is left.
func (w *world) drainDue(t testing.TB, engine *Engine) {
	t.Helper()
	type job struct {
		ID   int64
		Args wakeArgs
	}
	for {
		due, err := postgres.Many[job](t.Context(), w.db.System("test"), `
UPDATE river.river_job SET state = 'running'
WHERE state IN ('available', 'scheduled') AND scheduled_at <= @now RETURNING id, args`, postgres.Args{"now": w.clock.Now()})
		require.NoError(t, err)
		if len(due) == 0 {
			return
		}
		for _, one := range due {
			require.NoError(t, engine.turnOf(t.Context(), one.ID, one.Args))
		}
	}
}

// TestSweep_RemovesRowsOfClosedLanes: who adds by a statement of its own may not see that
// the lane is being closed.
func TestSweep_RemovesRowsOfClosedLanes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clock.NewSynced(), noted(&ledger{}))
	open, closed := w.open(t, "noted"), w.open(t, "noted")
	w.add(t, "noted", open, rows(3)...)
	w.in(t, w.org, func(tx *postgres.Tx) error { return w.lanes.CloseTx(t.Context(), tx, closed) })
	w.in(t, w.org, func(tx *postgres.Tx) error {
		_, err := tx.Exec(t.Context(), Adding+` VALUES (@lane_id, 0, @now, @id, NULL)`,
			postgres.Args{"lane_id": closed, "now": w.clock.Now(), "id": newID()})
		return err
	})
	require.Equal(t, 4, w.waiting(t))
	require.NoError(t, w.lanes.Sweep(t.Context()))
	require.Equal(t, 3, w.waiting(t))
}

func TestOneJobPerRowRunsTheSameHandler(t *testing.T) {
	t.Parallel()
	seen := &ledger{}
	kind := noted(seen)
	kind.PerRow = true
	w := newWorld(t, clock.NewSynced(), kind)
	w.work(t)
	w.add(t, "noted", w.open(t, "noted"), rows(50)...)
	eventually(t, "all rows", func() bool { return len(seen.all()) == 50 })
	require.Zero(t, w.waiting(t))
}

func TestARollbackAddsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clock.NewSynced(), noted(&ledger{}))
	lane := w.open(t, "noted")
	cause := errors.New("no")
	_, err := postgres.InTx(t.Context(), w.db, w.org, func(tx *postgres.Tx) (struct{}, error) {
		require.NoError(t, w.lanes.AddTx(t.Context(), tx, "noted", lane, rows(3)...))
		return struct{}{}, cause
	})
	require.ErrorIs(t, err, cause)
	require.True(t, w.idle(t))
}

func TestALaneOfAnotherOrganizationIsOutOfReach(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clock.NewSynced(), noted(&ledger{}))
	lane, stranger := w.open(t, "noted"), w.newOrg(t)
	_, err := postgres.InTx(t.Context(), w.db, stranger, func(tx *postgres.Tx) (struct{}, error) {
		return struct{}{}, w.lanes.AddTx(t.Context(), tx, "noted", lane, rows(1)...)
	})
	require.ErrorContains(t, err, "is not a lane of kind noted of this organization")
	require.Zero(t, w.waiting(t))
}

// A row that cannot be begun or settled is found among its neighbours, who go on.
func TestOneBadRowDoesNotTakeItsNeighboursAlong(t *testing.T) {
	t.Parallel()
	unbegun, unsettled := newID(), newID()
	done := &ledger{}
	refuse := func(rows []Row, bad ids.Any) error {
		for _, row := range rows {
			if row.ID == bad {
				return errors.New("not this one")
			}
		}
		return nil
	}
	w := newWorld(t, clock.NewManual(time.Now()), Kind{Name: "test", Least: 10, Most: 50, Open: func(context.Context, Lane) (Work, error) {
		return Work{
			Begin: func(_ context.Context, _ *postgres.Tx, rows []Row) error { return refuse(rows, unbegun) },
			Do:    func(context.Context, Row) Result { return Result{} },
			Settle: func(_ context.Context, _ *postgres.Tx, batch *Batch) error {
				var rows []Row
				for _, result := range batch.Results {
					rows = append(rows, result.Row)
				}
				if err := refuse(rows, unsettled); err != nil {
					return err
				}
				for _, row := range rows {
					done.record(row.ID)
				}
				return nil
			},
		}, nil
	}})
	engine := NewEngine(w.lanes, w.db)
	w.add(t, "test", w.open(t, "test"), append(rows(100), Row{ID: unbegun}, Row{ID: unsettled})...)
	for range 4 {
		w.drainAll(t, engine)
		w.clock.(*clock.Manual).Move(time.Minute)
	}
	require.Len(t, done.all(), 100)
	aside, err := w.lanes.Aside(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, aside, 2)
	require.Zero(t, w.waiting(t))
}
