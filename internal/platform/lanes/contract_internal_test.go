package lanes

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// letters is a kind whose rows are read as text and settled letter by letter when the whole
// cannot be: an x never can.
func letters(text map[ids.Any]string, settled *callLog, aside func([]Aside[string]) error) testKind {
	return testKind{
		Name: "letters", Least: 10, Most: 10,
		SetAside: func(_ context.Context, _ *postgres.Tx, _ Lane, rows []Aside[string]) error { return aside(rows) },
		Open: func(context.Context, Lane) (testWork, error) {
			return testWork{
				Read: func(_ context.Context, tasks []*testTask) error {
					for _, task := range tasks {
						task.Value = text[task.Row.ID]
					}
					return nil
				},
				Settle: func(_ context.Context, tx *postgres.Tx, batch *testBatch) error {
					for _, result := range batch.Results {
						if strings.Contains(result.Task, "x") {
							return errPlanned
						}
						tx.AfterCommit(func() { settled.recordText(result.Task) })
					}
					return nil
				},
				Split: func(value string) []string { return strings.Split(value, "") },
			}, nil
		},
	}
}

func TestSplit_PartsAreSettledAloneAndBadOnesHandedOver(t *testing.T) {
	t.Parallel()
	good, mixed := newID(), newID()
	settled := &callLog{}
	var handed []string
	f := newFixture(t, clock.NewManual(time.Now()), letters(map[ids.Any]string{good: "abc", mixed: "dxe"}, settled, func(rows []Aside[string]) error {
		for _, row := range rows {
			require.Equal(t, mixed, row.Row.ID)
			handed = append(handed, row.Task+": "+row.Reason)
		}
		return nil
	}))
	f.add(t, "letters", f.open(t, "letters"), Row{ID: good}, Row{ID: mixed})
	f.drainAll(t, NewEngine(f.lanes, f.db))
	require.True(t, f.idle(t))
	require.ElementsMatch(t, []string{"abc", "d", "e"}, settled.texts, "the good row whole, the other in parts")
	require.Equal(t, []string{"x: as planned"}, handed)
	aside, err := f.lanes.Aside(t.Context(), 10)
	require.NoError(t, err)
	require.Empty(t, aside, "the kind has the part")
}

func TestSplit_PartCannotBeHandedOver_RowIsSetAside(t *testing.T) {
	t.Parallel()
	bad := newID()
	f := newFixture(t, clock.NewManual(time.Now()), letters(map[ids.Any]string{bad: "ax"}, &callLog{}, func([]Aside[string]) error { return errPlanned }))
	engine := NewEngine(f.lanes, f.db)
	f.add(t, "letters", f.open(t, "letters"), Row{ID: bad})
	for range 4 {
		f.drainAll(t, engine)
		f.clock.(*clock.Manual).Move(time.Minute)
	}
	require.True(t, f.idle(t))
	aside, err := f.lanes.Aside(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, aside, 1)
	require.Positive(t, engine.Counts().Unhanded)
}

func TestSetAside_Fails_RowStaysAsideAndLaneGoesOn(t *testing.T) {
	t.Parallel()
	poison := newID()
	var calls atomic.Int64
	kind := doing(func(_ context.Context, row Row) testAnswer {
		if row.ID == poison {
			panic("no")
		}
		calls.Add(1)
		return testAnswer{}
	})
	var asked atomic.Int64
	kind.SetAside = func(_ context.Context, _ *postgres.Tx, _ Lane, rows []Aside[string]) error {
		asked.Add(1)
		require.Equal(t, poison, rows[0].Row.ID)
		return errors.New("the kind has no such row")
	}
	f := newFixture(t, clock.NewManual(time.Now()), kind)
	engine := NewEngine(f.lanes, f.db)
	lane := f.open(t, "test")
	for range 4 {
		f.add(t, "test", lane, rows(5)...)
		if asked.Load() == 0 && calls.Load() == 0 {
			f.add(t, "test", lane, Row{ID: poison})
		}
		f.drainAll(t, engine)
		f.clock.(*clock.Manual).Move(time.Minute)
	}
	require.Equal(t, int64(20), calls.Load())
	require.Equal(t, int64(1), asked.Load())
	require.Equal(t, int64(1), engine.Counts().Unhanded)
	aside, err := f.lanes.Aside(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, aside, 1)
	require.True(t, f.idle(t))
}

// A commit whose answer is lost is asked for: the drainer knows whether it was made.
func TestOwnedTx_CommitUnanswered_OutcomeIsAsked(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clock.NewSynced(), noted(&callLog{}))
	engine := NewEngine(f.lanes, f.db)
	idOf := func(commit bool) (transaction string) {
		_, _ = postgres.InTx(t.Context(), f.db, f.org, func(tx *postgres.Tx) (struct{}, error) {
			var err error
			transaction, err = postgres.One[string](t.Context(), tx, `SELECT pg_current_xact_id()::text`, nil)
			require.NoError(t, err)
			if !commit {
				return struct{}{}, errPlanned
			}
			return struct{}{}, nil
		})
		return transaction
	}
	require.NoError(t, engine.askOutcome(t.Context(), idOf(true), postgres.ErrUnanswered))
	err := engine.askOutcome(t.Context(), idOf(false), postgres.ErrUnanswered)
	require.True(t, away(err), "%v", err)
	err = engine.askOutcome(t.Context(), "999999999999", postgres.ErrUnanswered)
	require.ErrorIs(t, err, errLost, "a standby that took over never heard of it")
	require.False(t, away(err))
}

// Rows behind a held key are read once and parked; the lane's other keys do not read them again.
func TestHold_RowsBehindHeldKeyAreParked(t *testing.T) {
	t.Parallel()
	now := clock.NewManual(time.Now().Truncate(time.Millisecond))
	var healed atomic.Bool
	seen := &callLog{}
	kind := doing(func(_ context.Context, row Row) testAnswer {
		if seen.record(row.ID); !healed.Load() && !row.Key.IsZero() {
			return testAnswer{RetryAt: now.Now().Add(time.Hour)}
		}
		return testAnswer{}
	})
	kind.Retries = Hold
	f := newFixture(t, now, kind)
	engine, lane, key := NewEngine(f.lanes, f.db), f.open(t, "test"), newID()
	var keyed []Row
	for i := range 300 {
		keyed = append(keyed, Row{ID: newID(), Key: key, DueAt: now.Now().Add(time.Duration(i-300) * time.Millisecond)})
	}
	f.add(t, "test", lane, keyed...)
	f.drainAll(t, engine)
	parked := func() int {
		count, err := postgres.One[int](t.Context(), f.db.System("test"), `SELECT count(*) FROM lane_rows WHERE due_at = 'infinity'`, nil)
		require.NoError(t, err)
		return count
	}
	require.Equal(t, 299, parked())
	f.add(t, "test", lane, rows(10)...)
	f.drainAll(t, engine)
	require.Len(t, seen.all(), 11, "the others go on")
	healed.Store(true)
	now.Move(2 * time.Hour)
	f.drainAll(t, engine)
	require.True(t, f.idle(t))
	var order []ids.Any
	for _, row := range keyed {
		order = append(order, row.ID)
	}
	require.Equal(t, order, seen.all()[11:], "in their order")
}
