package lanes

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/together"
)

func TestFaults_ThreeOfOneClassInARow_SetAside(t *testing.T) {
	t.Parallel()
	poison := newID()
	var good, bad atomic.Int64
	healed := atomic.Bool{}
	f := newFixture(t, clock.NewManual(time.Now()), doing(func(_ context.Context, row Row) testAnswer {
		if row.ID != poison || healed.Load() {
			good.Add(1)
			return testAnswer{}
		}
		if bad.Add(1) > 1 {
			panic("no")
		}
		return testAnswer{Fault: errors.New("something else")}
	}))
	engine := NewEngine(f.lanes, f.db)
	lane := f.open(t, "test")
	f.add(t, "test", lane, append(rows(20), Row{ID: poison})...)
	for range 10 {
		f.drainAll(t, engine)
		f.clock.(*clock.Manual).Move(time.Minute)
	}
	require.Equal(t, int64(20), good.Load())
	require.Equal(t, int64(4), bad.Load(), "once in one class, three times in another")
	aside, err := f.lanes.Aside(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, aside, 1)
	require.Equal(t, poison, aside[0].ID)
	require.Equal(t, "panic: no", aside[0].Reason)
	healed.Store(true)
	_, err = f.lanes.Retry(t.Context(), poison)
	require.NoError(t, err)
	f.drainAll(t, engine)
	require.Equal(t, int64(21), good.Load())
	_, err = f.lanes.Retry(t.Context(), poison)
	require.Error(t, err)
}

// drainAll wakes what the sweep would and drains it.
func (f *fixture) drainAll(t testing.TB, engine *Engine) {
	t.Helper()
	require.NoError(t, f.lanes.Sweep(t.Context()))
	f.drainDue(t, engine)
}

// drainDue plays River: it hands every due job to the engine until none is left.
func (f *fixture) drainDue(t testing.TB, engine *Engine) {
	t.Helper()
	type job struct {
		ID   int64
		Args wakeArgs
	}
	for {
		due, err := postgres.Many[job](t.Context(), f.db.System("test"), `
UPDATE river.river_job SET state = 'running'
WHERE state IN ('available', 'scheduled') AND scheduled_at <= @now RETURNING id, args`, postgres.Args{"now": f.clock.Now()})
		require.NoError(t, err)
		if len(due) == 0 {
			return
		}
		for _, one := range due {
			require.NoError(t, engine.turnOf(t.Context(), one.ID, one.Args))
		}
	}
}

// A row may be added while its lane is being closed.
func TestSweep_DeletesRowsOfClosedLanes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clock.NewSynced(), noted(&callLog{}))
	open, closed := f.open(t, "noted"), f.open(t, "noted")
	f.add(t, "noted", open, rows(3)...)
	f.in(t, f.org, func(tx *postgres.Tx) error { return f.lanes.CloseTx(t.Context(), tx, closed) })
	f.in(t, f.org, func(tx *postgres.Tx) error {
		_, err := tx.Exec(t.Context(), `INSERT INTO lane_rows (lane_id, priority, due_at, id) VALUES (@lane_id, 0, @now, @id)`,
			postgres.Args{"lane_id": closed, "now": f.clock.Now(), "id": newID()})
		return err
	})
	require.Equal(t, 4, f.waiting(t))
	require.NoError(t, f.lanes.Sweep(t.Context()))
	require.Equal(t, 3, f.waiting(t))
}

func TestAddTx_Rollback_AddsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clock.NewSynced(), noted(&callLog{}))
	lane := f.open(t, "noted")
	cause := errors.New("no")
	_, err := postgres.InTx(t.Context(), f.db, f.org, func(tx *postgres.Tx) (struct{}, error) {
		require.NoError(t, f.lanes.AddTx(t.Context(), tx, "noted", lane, rows(3)...))
		return struct{}{}, cause
	})
	require.ErrorIs(t, err, cause)
	require.True(t, f.idle(t))
}

func TestAddTx_LaneOfAnotherOrganization_Refused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clock.NewSynced(), noted(&callLog{}))
	lane, stranger := f.open(t, "noted"), f.newOrg(t)
	_, err := postgres.InTx(t.Context(), f.db, stranger, func(tx *postgres.Tx) (struct{}, error) {
		return struct{}{}, f.lanes.AddTx(t.Context(), tx, "noted", lane, rows(1)...)
	})
	require.ErrorContains(t, err, "is not a lane of kind noted of this organization")
	require.Zero(t, f.waiting(t))
}

// A row that cannot be begun or settled is found among its neighbours, who go on.
func TestBadRow_NeighboursGoOn(t *testing.T) {
	t.Parallel()
	unbegun, unsettled := newID(), newID()
	done := &callLog{}
	refuse := func(rows []Row, bad ids.Any) error {
		for _, row := range rows {
			if row.ID == bad {
				return errors.New("not this one")
			}
		}
		return nil
	}
	f := newFixture(t, clock.NewManual(time.Now()), testKind{Name: "test", Least: 10, Most: 50, Open: func(context.Context, Lane) (testWork, error) {
		return testWork{
			Begin: func(_ context.Context, _ *postgres.Tx, tasks []*testTask) error {
				return refuse(rowsOf(tasks), unbegun)
			},
			Call: calling(func(context.Context, Row) testAnswer { return testAnswer{} }),
			Settle: func(_ context.Context, tx *postgres.Tx, batch *testBatch) error {
				var rows []Row
				for _, result := range batch.Results {
					rows = append(rows, result.Row)
				}
				if err := refuse(rows, unsettled); err != nil {
					return err
				}
				tx.AfterCommit(func() {
					for _, row := range rows {
						done.record(row.ID)
					}
				})
				return nil
			},
		}, nil
	}})
	engine := NewEngine(f.lanes, f.db)
	f.add(t, "test", f.open(t, "test"), append(rows(100), Row{ID: unbegun}, Row{ID: unsettled})...)
	for range 4 {
		f.drainAll(t, engine)
		f.clock.(*clock.Manual).Move(time.Minute)
	}
	require.Len(t, done.all(), 100)
	aside, err := f.lanes.Aside(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, aside, 2)
	require.Zero(t, f.waiting(t))
}

// A settlement that the database refused is not tried again after the lane was lost.
func TestSettlementFails_LaneLost_TurnEnds(t *testing.T) {
	t.Parallel()
	var engine *Engine
	f := newFixture(t, clock.NewSynced(), testKind{Name: "test", Open: func(_ context.Context, lane Lane) (testWork, error) {
		return testWork{Settle: func(context.Context, *postgres.Tx, *testBatch) error {
			engine.mu.Lock()
			defer engine.mu.Unlock()
			for s := range engine.byLane[lane.ID] {
				s.lost(errLost)
			}
			return fault.Unavailable(time.Second, errPlanned)
		}}, nil
	}})
	engine = NewEngine(f.lanes, f.db)
	f.add(t, "test", f.open(t, "test"), rows(1)...)
	f.requireTurnEnds(t, engine)
}

// A lane that cannot be disarmed does not keep a process from stopping.
func TestSettlementFails_ProcessStops_TurnEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clock.NewSynced(), doing(nil))
	engine, lane := NewEngine(f.lanes, f.db), f.open(t, "test")
	engine.settles = together.New(1, 1, func(context.Context, []settlement) ([]bool, error) {
		close(engine.stopping)
		return nil, fault.Unavailable(time.Second, errPlanned)
	})
	f.in(t, f.org, func(tx *postgres.Tx) error {
		f.lanes.touchTx(tx, "test", lane)
		return nil
	})
	f.requireTurnEnds(t, engine)
}

// requireTurnEnds hands the only job to the engine.
func (f *fixture) requireTurnEnds(t *testing.T, engine *Engine) {
	t.Helper()
	type job struct {
		ID   int64
		Args wakeArgs
	}
	one, err := postgres.One[job](t.Context(), f.db.System("test"), `SELECT id, args FROM river.river_job`, nil)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- engine.turnOf(t.Context(), one.ID, one.Args) }()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(soon):
		t.Fatal("the turn does not end")
	}
}
