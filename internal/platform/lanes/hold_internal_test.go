package lanes

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// TestEngineOnHold_OtherKinds_Wait: their rows are not touched, and their jobs wait for an engine that drains them.
func TestEngineOnHold_OtherKinds_Wait(t *testing.T) {
	t.Parallel()
	applied, sent := &callLog{}, &callLog{}
	allowed, waits := noted(applied), noted(sent)
	allowed.Name, allowed.OnHold, waits.Name = "allowed", true, "waits"
	f := newFixture(t, clock.NewSynced(), allowed, waits)
	old := f.open(t, "waits")
	f.add(t, "waits", old, rows(3)...)
	before := f.laneRows(t, old)
	_, stop := f.run(t, NewEngineOnHold(f.lanes, f.db))
	f.add(t, "waits", f.open(t, "waits"), rows(2)...)
	lane := f.open(t, "allowed")
	for range 3 {
		f.add(t, "allowed", lane, rows(4)...)
		eventually(t, "the rows of the kind that is drained", func() bool { return f.waiting(t) == 5 })
	}
	require.NoError(t, f.lanes.Sweep(t.Context()))
	require.Len(t, applied.all(), 12)
	require.Empty(t, sent.all())
	require.Equal(t, before, f.laneRows(t, old))
	available, err := postgres.One[int](t.Context(), f.db.System("test"),
		`SELECT count(*) FROM `+jobs.Table+` WHERE queue = 'waits' AND state = 'available' AND attempt = 0`, nil)
	require.NoError(t, err)
	require.Equal(t, 2, available, "one job for each lane")
	stop()
	f.work(t)
	eventually(t, "all rows", func() bool { return f.idle(t) })
	require.Len(t, sent.all(), 5)
}

func (f *fixture) laneRows(t *testing.T, lane ids.Any) []string {
	t.Helper()
	all, err := postgres.Many[string](t.Context(), f.db.System("test"), `SELECT r::text FROM lane_rows r WHERE lane_id = @lane ORDER BY id`,
		postgres.Args{"lane": lane})
	require.NoError(t, err)
	return all
}

func TestEachOlder_RowsOfOneKindBeforeATime(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clock.NewSynced(), testKind{Name: "sends", Open: nothing}, testKind{Name: "others", Open: nothing})
	start := time.Now()
	made := func(after time.Duration) Row {
		return Row{ID: ids.New[rowID](start.Add(after)).Any(), Key: newID(), Priority: 1}
	}
	first, second := f.open(t, "sends"), f.open(t, "sends")
	var wanted []ids.Any
	for i := range postgres.Portion + 1 {
		row := made(-time.Duration(i+1) * time.Second)
		f.add(t, "sends", first, row)
		wanted = append(wanted, row.ID)
	}
	last := made(-time.Millisecond)
	wanted = append(wanted, last.ID)
	f.add(t, "sends", second, last, made(0), made(time.Second))
	f.add(t, "others", f.open(t, "others"), made(-time.Hour))
	var got []ids.Any
	portions := 0
	err := f.lanes.EachOlder(t.Context(), "sends", start, func(lane Lane, rows []ids.Any) error {
		require.Equal(t, f.org, lane.Org)
		require.LessOrEqual(t, len(rows), postgres.Portion)
		require.True(t, slices.IsSortedFunc(rows, ids.Any.Compare))
		require.Contains(t, []ids.Any{first, second}, lane.ID)
		got, portions = append(got, rows...), portions+1
		return nil
	})
	require.NoError(t, err)
	require.ElementsMatch(t, wanted, got)
	require.Equal(t, 3, portions)
}

func nothing(context.Context, Lane) (testWork, error) { return testWork{}, nil }
