package lanes

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/together"
)

// Whatever waits, each priority keeps its order, and of every so many rows one is the one
// that waits longest behind the first priority: the others always get on.
func TestEveryPriorityGetsOn(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)
	rapid.Check(t, func(rt *rapid.T) {
		d := &drain{guard: rapid.IntRange(0, guardEvery-1).Draw(rt, "guard")}
		rows := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) Row {
			return Row{
				ID: newID(), Priority: rapid.IntRange(0, maxPriorities-1).Draw(rt, "priority"),
				DueAt: start.Add(time.Duration(rapid.IntRange(0, 50).Draw(rt, "due")) * time.Millisecond),
			}
		}), 0, 200).Draw(rt, "rows")
		ordered := d.interleave(slices.Clone(rows))
		require.ElementsMatch(rt, rows, ordered)
		last := map[int]Row{}
		for _, row := range ordered {
			if before, found := last[row.Priority]; found {
				require.Negative(rt, byDue(before, row), "order within a priority")
			}
			last[row.Priority] = row
		}
		requireNoneStarves(rt, ordered)
	})
}

// requireNoneStarves wants, in every stretch of guardEvery rows during which others wait,
// one that is not of the first priority that waits.
func requireNoneStarves(rt *rapid.T, ordered []Row) {
	for i := 0; i+guardEvery <= len(ordered); i++ {
		stretch := ordered[i : i+guardEvery]
		first := stretch[0].Priority
		behind := slices.ContainsFunc(ordered[i+guardEvery:], func(row Row) bool { return row.Priority > first })
		same := !slices.ContainsFunc(stretch, func(row Row) bool { return row.Priority != first })
		if same && behind && first == lowest(ordered[i:]) {
			rt.Fatalf("%d rows of priority %d in a row while others wait", guardEvery, first)
		}
	}
}

func lowest(rows []Row) int {
	return slices.MinFunc(rows, func(a, b Row) int { return a.Priority - b.Priority }).Priority
}

// TestTheFirstPriorityFindsAPlace: rows of a later one take their time in all places that
// they may have, and more of them wait.
func TestTheFirstPriorityFindsAPlace(t *testing.T) {
	t.Parallel()
	const places = 8
	release, first := make(chan struct{}), make(chan struct{})
	var later atomic.Int64
	kind := doing(func(ctx context.Context, row Row) Result {
		if row.Priority == 0 {
			close(first)
			return Result{}
		}
		later.Add(1)
		select {
		case <-release:
		case <-ctx.Done():
		}
		return Result{}
	})
	kind.Least, kind.Most = places, places
	w := newWorld(t, clock.NewSynced(), kind)
	w.work(t)
	lane := w.open(t, "test")
	for range 3 * places {
		w.add(t, "test", lane, Row{ID: newID(), Priority: 1})
	}
	eventually(t, "more of the later ones than may start together", func() bool { return later.Load() > places/2 })
	w.add(t, "test", lane, Row{ID: newID()})
	select {
	case <-first:
	case <-time.After(soon):
		require.FailNow(t, "the first priority waits for the later ones")
	}
	require.LessOrEqual(t, later.Load(), int64(places-places/4))
	close(release)
	eventually(t, "all the others", func() bool { return later.Load() == 3*places })
}

// TestLaterOnesComeEvenly: of rows that all could start, those of a later priority come a
// few at a time, and those of the first wait for none of them.
func TestLaterOnesComeEvenly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const perSecond = 500
		d := &drain{kind: &Kind{LaterPerSecond: perSecond}, slots: 32, busyKeys: map[ids.Any]bool{}}
		d.waiting = waiting(perSecond*2, 1)
		var began []int
		for watch := clock.StartWatch(); watch.Elapsed() < time.Second; {
			d.waiting = append(waiting(1, 0), d.waiting...)
			chunk, wait := d.choose(32)
			require.Equal(t, 0, chunk[0].Priority)
			began = append(began, len(chunk)-1)
			require.Positive(t, wait)
			time.Sleep(wait)
		}
		require.Len(t, began, 100)
		for _, count := range began {
			require.Equal(t, perSecond/100, count)
		}
	})
}

func waiting(count, priority int) []Row {
	rows := make([]Row, count)
	for i := range rows {
		rows[i] = Row{ID: newID(), Priority: priority, taken: clock.StartWatch()}
	}
	return rows
}

// TestABusyLaneLingers: a lane that was busy waits for more before it is disarmed, unless
// somebody else waits for its worker.
func TestABusyLaneLingers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &drain{kind: &Kind{}, crew: &crew{}, drained: true, ended: clock.StartWatch()}
		require.Zero(t, d.linger(), "it was not busy")
		d.sliceRows = lingerRows
		require.Equal(t, lingerFor, d.linger())
		time.Sleep(lingerFor / 2)
		require.Equal(t, lingerFor/2, d.linger())
		d.crew.waiting.Add(1)
		require.Zero(t, d.linger(), "another lane waits")
		d.crew.waiting.Add(-1)
		d.ending = true
		require.Zero(t, d.linger(), "its turn is over")
		d.ending = false
		time.Sleep(lingerFor)
		require.Zero(t, d.linger(), "it was long ago")
	})
}

// TestOnlyWhatGoesFirstIsLookedForWhileLaterRowsWait: a backlog of later rows is not read
// again for every row that overtakes it, nor taken for all there is.
func TestOnlyWhatGoesFirstIsLookedForWhileLaterRowsWait(t *testing.T) {
	t.Parallel()
	var asked []takeQuestion
	first := Row{ID: newID(), taken: clock.StartWatch()}
	e := &Engine{clock: clock.NewSynced(), takes: together.New(1, 1, func(_ context.Context, all []takeQuestion) ([]taken, error) {
		asked = append(asked, all...)
		return []taken{{owned: true, rows: []Row{first}}}, nil
	})}
	d := &drain{e: e, kind: &Kind{Priorities: 2}, slots: 4, busyKeys: map[ids.Any]bool{}, waiting: waiting(50, 1)}
	require.NoError(t, d.refill(t.Context()))
	require.Empty(t, asked, "rows are at hand and none came")

	d.fresh = true
	require.NoError(t, d.refill(t.Context()))
	require.Equal(t, []takeQuestion{{limit: batchRows, priorities: 1}}, asked)
	require.Len(t, d.waiting, 51)
	require.False(t, d.drained, "nothing was asked of the later ones")

	d.waiting = nil
	require.NoError(t, d.refill(t.Context()))
	require.Equal(t, takeQuestion{limit: batchRows, priorities: 2}, asked[1])
	require.True(t, d.drained)
}
