package lanes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// later counts the rows of a lane that wait for a retry.
func (f *fixture) later(t *testing.T, lane ids.Any) int {
	t.Helper()
	count, err := postgres.One[int](t.Context(), f.db.System("test"),
		`SELECT count(*) FROM lane_rows WHERE lane_id = @lane_id AND due_at > @now`, postgres.Args{"lane_id": lane, "now": f.clock.Now()})
	require.NoError(t, err)
	return count
}

// postpone makes all rows of a lane wait for a retry, three of them for each millisecond.
func (f *fixture) postpone(t *testing.T, lane ids.Any) {
	t.Helper()
	f.in(t, f.org, func(tx *postgres.Tx) error {
		_, err := tx.Exec(t.Context(), `
UPDATE lane_rows r
SET due_at = @now::timestamptz + interval '1 hour' + interval '1 ms' * (n / 3), priority = n % 2
FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM lane_rows WHERE lane_id = @lane_id) numbered
WHERE r.lane_id = @lane_id AND r.id = numbered.id`, postgres.Args{"lane_id": lane, "now": f.clock.Now()})
		return err
	})
}

func TestHurryTx_ManyRows_MovedInPortions(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clock.NewManual(time.Now().Truncate(time.Millisecond)), noted(&callLog{}))
	lane, neighbor := f.open(t, "noted"), f.open(t, "noted")
	f.fill(t, neighbor, 10)
	f.postpone(t, neighbor)
	f.fill(t, lane, 2*hurryAtOnce+10)
	f.postpone(t, lane)
	f.in(t, f.org, func(tx *postgres.Tx) error {
		if err := f.lanes.BlockTx(t.Context(), tx, lane, Forever()); err != nil { // no row leaves
			return err
		}
		return f.lanes.HurryTx(t.Context(), tx, "noted", lane)
	})
	require.Equal(t, hurryAtOnce+10, f.later(t, lane), "one transaction moves one portion")
	f.add(t, "noted", lane, Row{ID: newID(), DueAt: f.clock.Now().Add(time.Minute)}) // a row that failed again
	f.work(t)
	eventually(t, "the rows that waited are due", func() bool { return f.later(t, lane) == 1 })
	require.Equal(t, 2*hurryAtOnce+21, f.waiting(t), "no row is lost")
	require.Equal(t, 10, f.later(t, neighbor))
}

// A lane that is closed while its rows are made due keeps the rest of them for the sweep.
func TestHurry_LaneClosed_Ends(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clock.NewManual(time.Now().Truncate(time.Millisecond)), noted(&callLog{}))
	lane := f.open(t, "noted")
	f.fill(t, lane, 10)
	f.postpone(t, lane)
	f.in(t, f.org, func(tx *postgres.Tx) error { return f.lanes.CloseTx(t.Context(), tx, lane) })
	require.NoError(t, NewEngine(f.lanes, f.db).hurry(t.Context(), hurryArgs{Lane: lane, Org: f.org, Of: "noted", From: f.clock.Now()}))
	require.Equal(t, 10, f.later(t, lane))
}
