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

// Each priority keeps its order, and of every eight rows one is of priority 1 while any waits.
func TestSchedule_Add_OrderAndShareOfPriorityOne(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)
	rapid.Check(t, func(rt *rapid.T) {
		s := newSchedule(0, rapid.IntRange(0, laterEvery-1).Draw(rt, "starts"))
		rows := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) Row {
			return Row{
				ID: newID(), Priority: rapid.IntRange(0, priorities-1).Draw(rt, "priority"),
				DueAt: start.Add(time.Duration(rapid.IntRange(0, 50).Draw(rt, "due")) * time.Millisecond),
			}
		}), 0, 200).Draw(rt, "rows")
		s.add(rows)
		require.ElementsMatch(rt, rows, s.queue)
		last := map[int]Row{}
		for _, row := range s.queue {
			if before, found := last[row.Priority]; found {
				require.Negative(rt, byDue(before, row), "order within a priority")
			}
			last[row.Priority] = row
		}
		for i := 0; i+laterEvery <= len(s.queue); i++ {
			stretch := s.queue[i : i+laterEvery]
			waits := slices.ContainsFunc(s.queue[i+laterEvery:], func(row Row) bool { return row.Priority == 1 })
			require.False(rt, waits && !slices.ContainsFunc(stretch, func(row Row) bool { return row.Priority == 1 }),
				"%d starts of priority 0 while priority 1 waits", laterEvery)
		}
	})
}

// Random operations never start two rows of a key at once, never reorder a key, and count right.
func TestSchedule_Property_KeysAndCounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s, keys := newSchedule(0, 0), []ids.Any{{}, newID(), newID()}
		var running []Row
		last := map[ids.Any]time.Time{}
		due := time.Now()
		rt.Repeat(map[string]func(*rapid.T){
			"add": func(rt *rapid.T) {
				due = due.Add(time.Millisecond)
				row := Row{ID: newID(), Key: rapid.SampledFrom(keys).Draw(rt, "key"), DueAt: due, taken: clock.StartWatch()}
				s.add([]Row{row, row})
			},
			"next": func(rt *rapid.T) {
				chunk, _, stale := s.next(rapid.IntRange(1, 4).Draw(rt, "free"), 8)
				require.False(rt, stale)
				for _, row := range chunk {
					if !row.Key.IsZero() {
						require.False(rt, slices.ContainsFunc(running, func(other Row) bool { return other.Key == row.Key }), "two rows of a key")
						require.False(rt, row.DueAt.Before(last[row.Key]), "order within a key")
						last[row.Key] = row.DueAt
					}
					running = append(running, row)
				}
			},
			"settle": func(rt *rapid.T) {
				if len(running) == 0 {
					rt.Skip()
				}
				s.move(running[0], settling)
				s.settled(running[0])
				running = running[1:]
			},
			"": func(rt *rapid.T) {
				require.Equal(rt, len(running), s.in(started))
				require.Equal(rt, len(s.queue), s.in(waiting))
				require.Equal(rt, len(s.rows), s.known(priorities))
			},
		})
	})
}

func waitingRows(count, priority int) []Row {
	rows := make([]Row, count)
	for i := range rows {
		rows[i] = Row{ID: newID(), Priority: priority, taken: clock.StartWatch()}
	}
	return rows
}

// A row that was taken too long ago is dropped, with those behind it in its key.
func TestSchedule_Next_StaleRowTakesItsKeyAlong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, key := newSchedule(0, 0), newID()
		old := waitingRows(1, 0)
		old[0].Key = key
		time.Sleep(startWithin + time.Millisecond)
		young := waitingRows(2, 0)
		young[0].Key, young[0].DueAt = key, time.Now()
		s.add(append(old, young...))
		chunk, wait, stale := s.next(8, 8)
		require.True(t, stale)
		require.Zero(t, wait)
		require.Equal(t, young[1:], chunk)
		require.Equal(t, 1, s.known(priorities))
	})
}

// Rows of priority 1 start a few at a time, and rows of priority 0 wait for none of them.
func TestSchedule_LaterPerSecond_StartsEvenly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const perSecond = 500
		s := newSchedule(perSecond, 0)
		var began []int
		for watch := clock.StartWatch(); watch.Elapsed() < time.Second; {
			s.add(append(waitingRows(1, 0), waitingRows(20, 1)...))
			chunk, wait, _ := s.next(32, 32)
			require.True(t, slices.ContainsFunc(chunk, func(row Row) bool { return row.Priority == 0 }))
			began = append(began, len(chunk)-1)
			for _, row := range chunk {
				s.settled(row)
			}
			require.Positive(t, wait)
			time.Sleep(wait)
		}
		require.Len(t, began, 100)
		for _, count := range began {
			require.Equal(t, perSecond/100, count)
		}
	})
}

func TestSchedule_SetPace_KeepsCount(t *testing.T) {
	t.Parallel()
	s := newSchedule(0, 0)
	s.setPace(1)
	require.Zero(t, s.pace())
	s.setPace(2)
	require.Positive(t, s.pace(), "what was started before still counts")
	s.setPace(0)
	require.Nil(t, s.limiter)
}

// Calls of priority 1 fill all places that they may have, and more of them wait.
func TestPriority_ZeroFindsAPlaceBesideOne(t *testing.T) {
	t.Parallel()
	const places = 8
	release, first := make(chan struct{}), make(chan struct{})
	var later atomic.Int64
	kind := doing(func(ctx context.Context, row Row) testAnswer {
		if row.Priority == 0 {
			close(first)
			return testAnswer{}
		}
		later.Add(1)
		select {
		case <-release:
		case <-ctx.Done():
		}
		return testAnswer{}
	})
	kind.Least, kind.Most = places, places
	kind.Timeout = soon // a call that is cut off frees its place
	f := newFixture(t, clock.NewSynced(), kind)
	f.work(t)
	lane := f.open(t, "test")
	for range 3 * places {
		f.add(t, "test", lane, Row{ID: newID(), Priority: 1})
	}
	eventually(t, "more calls of priority 1 than may start together", func() bool { return later.Load() > places/2 })
	f.add(t, "test", lane, Row{ID: newID()})
	select {
	case <-first:
	case <-time.After(soon):
		require.FailNow(t, "priority 0 waits for priority 1")
	}
	require.LessOrEqual(t, later.Load(), int64(places-places/4))
	close(release)
	eventually(t, "all the others", func() bool { return later.Load() == 3*places })
}

func testDrain(e *Engine) *drain[string, string] {
	k := &kind[string, string]{with: settings{least: 4, most: 4}}
	return newDrain(k, &session{e: e, kind: k, crew: &crew{}, nudged: make(chan struct{}, 1)})
}

// A lane that was busy waits for more before it is disarmed, unless another lane waits for its worker.
func TestDrain_Linger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := testDrain(&Engine{})
		d.supply, d.lastEnded = dry, clock.StartWatch()
		require.Zero(t, d.linger(), "it was not busy")
		d.turnRows = lingerRows
		require.Equal(t, lingerFor, d.linger())
		time.Sleep(lingerFor / 2)
		require.Equal(t, lingerFor/2, d.linger())
		d.crew.waiting.Add(1)
		require.Zero(t, d.linger(), "another lane waits")
		d.crew.waiting.Add(-1)
		d.phase = ending
		require.Zero(t, d.linger(), "its turn is over")
		d.phase = draining
		time.Sleep(lingerFor)
		require.Zero(t, d.linger(), "it was long ago")
	})
}

// While rows of priority 1 wait, a take asks only for priority 0: the backlog is not read again
// for every row that overtakes it.
func TestDrain_Refill_AsksOnlyForPriorityZeroWhileOneWaits(t *testing.T) {
	t.Parallel()
	var asked []takeRequest
	first := Row{ID: newID(), taken: clock.StartWatch()}
	e := &Engine{clock: clock.NewSynced(), takes: together.New(1, 1, func(_ context.Context, all []takeRequest) ([]taken, error) {
		asked = append(asked, all...)
		return []taken{{owned: true, rows: []Row{first}}}, nil
	})}
	d := testDrain(e)
	d.rows.add(waitingRows(50, 1))
	require.NoError(t, d.refill(t.Context()))
	require.Empty(t, asked, "rows are at hand and none came")

	d.supply = fresh
	require.NoError(t, d.refill(t.Context()))
	require.Equal(t, []takeRequest{{limit: batchRows, priorities: 1}}, asked)
	require.Equal(t, 51, d.rows.in(waiting))
	require.Equal(t, more, d.supply, "nothing was asked of priority 1")

	d.rows.dropWaiting()
	require.NoError(t, d.refill(t.Context()))
	require.Equal(t, takeRequest{limit: batchRows, priorities: priorities}, asked[1])
	require.Equal(t, dry, d.supply)
}
