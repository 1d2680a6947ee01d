package lanes

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const sqlOwnRow = `
WITH added AS (
    ` + Adding + `
    VALUES (@lane_id, 0, @now, @id, NULL)
)
` + Touched + `
WHERE lane_id = @lane_id`

// addOwn adds a row by a statement of the test's own.
func (w *world) addOwn(t *testing.T, lane ids.Any, verb func(tx *postgres.Tx) error) ids.Any {
	t.Helper()
	row := newID()
	w.in(t, w.org, func(tx *postgres.Tx) error {
		err := w.lanes.AddLastTx(t.Context(), tx, "noted", sqlOwnRow, postgres.Args{"lane_id": lane, "id": row, "now": w.clock.Now()})
		if err != nil {
			return err
		}
		return verb(tx)
	})
	return row
}

// TestAddLast_WakesALaneThatWasBelievedBusy: belief saves a round trip and no wake-up.
func TestAddLast_WakesALaneThatWasBelievedBusy(t *testing.T) {
	t.Parallel()
	seen := &ledger{}
	w := newWorld(t, clock.NewManual(time.Now().Truncate(time.Millisecond)), noted(seen)) // no belief grows old
	lane := w.open(t, "noted")
	nothing := func(*postgres.Tx) error { return nil }
	added := []ids.Any{w.addOwn(t, lane, nothing)} // nobody works yet: the lane stays armed
	added = append(added, w.addOwn(t, lane, nothing))
	require.True(t, w.lanes.busy.org(w.clock.Now(), orgKind{w.org, "noted"}))

	added = append(added, w.addOwn(t, lane, func(tx *postgres.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE lanes SET armed = false, token = NULL WHERE lane_id = @lane_id`, postgres.Args{"lane_id": lane})
		return err
	}))
	w.work(t)
	eventually(t, "all rows", func() bool { return w.idle(t) })
	require.ElementsMatch(t, added, seen.all())
	eventually(t, "what was disarmed here is known here", func() bool {
		return !w.lanes.busy.org(w.clock.Now(), orgKind{w.org, "noted"})
	})
}

// TestAddLast_RollsBackWithItsTransaction: the row goes with the commit or not at all.
func TestAddLast_RollsBackWithItsTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clock.NewSynced(), noted(&ledger{}))
	lane := w.open(t, "noted")
	for range 2 {
		w.addOwn(t, lane, func(*postgres.Tx) error { return nil })
	}
	before := w.waiting(t)
	_, err := postgres.InTx(t.Context(), w.db, w.org, func(tx *postgres.Tx) (int, error) {
		args := postgres.Args{"lane_id": lane, "id": newID(), "now": w.clock.Now()}
		if err := w.lanes.AddLastTx(t.Context(), tx, "noted", sqlOwnRow, args); err != nil {
			return 0, err
		}
		return 0, context.Canceled
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, before, w.waiting(t))
}
