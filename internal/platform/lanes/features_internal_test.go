package lanes

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const soon = time.Minute

func eventually(t *testing.T, what string, asked func() bool) {
	t.Helper()
	require.Eventually(t, asked, soon, 5*time.Millisecond, what)
}

// doing is a kind whose rows do what the test says.
func doing(do func(ctx context.Context, row Row) Result) Kind {
	return Kind{Name: "test", Workers: 20, SlowWorkers: 4, Least: 4, Most: 8, Priorities: 4, Open: func(context.Context, Lane) (Work, error) {
		return Work{Do: do}, nil
	}}
}

func TestAFutureRowStartsWhenItIsDue(t *testing.T) {
	t.Parallel()
	var started atomic.Int64
	now := clock.NewManual(time.Now().Truncate(time.Millisecond))
	w := newWorld(t, now, doing(func(context.Context, Row) Result {
		started.Add(1)
		return Result{}
	}))
	engine := NewEngine(w.lanes, w.db)
	due := now.Now().Add(time.Hour)
	w.add(t, "test", w.open(t, "test"), Row{ID: newID(), DueAt: due})
	eventually(t, "a timer", func() bool {
		w.drainDue(t, engine)
		set, err := postgres.One[*time.Time](t.Context(), w.db.System("test"), `SELECT timer_at FROM lanes`, nil)
		return err == nil && set != nil && set.Equal(due)
	})
	now.Move(time.Hour - time.Millisecond)
	w.drainDue(t, engine)
	require.Zero(t, started.Load(), "never early")
	now.Move(time.Millisecond)
	w.drainDue(t, engine)
	require.Equal(t, int64(1), started.Load(), "its timer woke the lane: nobody swept")
}

func TestARetryComesBack(t *testing.T) {
	t.Parallel()
	now := clock.NewSynced()
	var tries atomic.Int64
	w := newWorld(t, now, doing(func(context.Context, Row) Result {
		if tries.Add(1) < 3 {
			return Result{RetryAt: now.Now().Add(200 * time.Millisecond)}
		}
		return Result{}
	}))
	w.work(t)
	w.add(t, "test", w.open(t, "test"), rows(1)...)
	eventually(t, "three tries", func() bool { return w.idle(t) && tries.Load() == 3 })
}

func TestPrioritiesGoFirstAndTheOthersGetOn(t *testing.T) {
	t.Parallel()
	seen := &ledger{}
	kind := doing(func(_ context.Context, row Row) Result {
		seen.record(row.ID)
		return Result{}
	})
	kind.Least, kind.Most = 1, 1
	w := newWorld(t, clock.NewSynced(), kind)
	lane := w.open(t, "test")
	urgent, low := rows(64), Row{ID: newID(), Priority: 3}
	w.add(t, "test", lane, low)
	w.add(t, "test", lane, urgent...)
	w.work(t)
	eventually(t, "all rows", func() bool { return w.idle(t) })
	at := slices.Index(seen.all(), low.ID)
	assert.Positive(t, at+1)
	assert.Less(t, at, guardEvery, "one row in %d comes from behind", guardEvery)
}

func TestAKeyIsServedOneAtATimeInOrder(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	running := map[ids.Any]int{}
	orders := map[ids.Any][]ids.Any{}
	w := newWorld(t, clock.NewSynced(), doing(func(_ context.Context, row Row) Result {
		mu.Lock()
		running[row.Key]++
		assert.Equal(t, 1, running[row.Key], "two rows of a key at once")
		orders[row.Key] = append(orders[row.Key], row.ID)
		mu.Unlock()
		time.Sleep(time.Millisecond)
		mu.Lock()
		running[row.Key]--
		mu.Unlock()
		return Result{}
	}))
	w.work(t)
	lane := w.open(t, "test")
	keys := []ids.Any{newID(), newID(), newID()}
	added := map[ids.Any][]ids.Any{}
	for range 20 {
		for _, key := range keys {
			row := Row{ID: newID(), Key: key}
			added[key] = append(added[key], row.ID)
			w.add(t, "test", lane, row)
		}
	}
	eventually(t, "all rows", func() bool { return w.idle(t) })
	require.Equal(t, added, orders)
}

func TestARetryHoldsItsKeyOrLetsItPass(t *testing.T) {
	t.Parallel()
	for rule, want := range map[Rule][]string{Hold: {"A", "AAB"}, Pass: {"AB", "ABA"}} {
		now := clock.NewManual(time.Now().Truncate(time.Millisecond))
		first, second := newID(), newID()
		var order []byte
		var mu sync.Mutex
		kind := doing(func(_ context.Context, row Row) Result {
			mu.Lock()
			defer mu.Unlock()
			if row.ID == second {
				order = append(order, 'B')
				return Result{}
			}
			if order = append(order, 'A'); !slices.Contains(order[:len(order)-1], 'A') {
				return Result{RetryAt: now.Now().Add(300 * time.Millisecond)}
			}
			return Result{}
		})
		kind.Retries = rule
		w := newWorld(t, now, kind)
		engine, key := NewEngine(w.lanes, w.db), newID()
		w.add(t, "test", w.open(t, "test"), Row{ID: first, Key: key}, Row{ID: second, Key: key})
		for _, sofar := range want {
			w.drainAll(t, engine)
			require.Equal(t, sofar, string(order))
			now.Move(time.Second)
		}
		require.True(t, w.idle(t))
	}
}

func TestAKeyHasAPaceOfItsOwn(t *testing.T) {
	t.Parallel()
	now := clock.NewSynced()
	var mu sync.Mutex
	var starts []time.Time
	w := newWorld(t, now, doing(func(context.Context, Row) Result {
		mu.Lock()
		defer mu.Unlock()
		starts = append(starts, now.Now())
		return Result{KeyUntil: now.Now().Add(250 * time.Millisecond)}
	}))
	w.work(t)
	key := newID()
	w.add(t, "test", w.open(t, "test"), Row{ID: newID(), Key: key}, Row{ID: newID(), Key: key}, Row{ID: newID(), Key: key})
	eventually(t, "all rows", func() bool { return w.idle(t) })
	for i := 1; i < len(starts); i++ {
		require.GreaterOrEqual(t, starts[i].Sub(starts[i-1]), 249*time.Millisecond)
	}
}

func TestALaneHasAPace(t *testing.T) {
	t.Parallel()
	seen := &ledger{}
	kind := noted(seen)
	open := kind.Open
	kind.Open = func(ctx context.Context, lane Lane) (Work, error) {
		work, err := open(ctx, lane)
		work.PerSecond = 50
		return work, err
	}
	w := newWorld(t, clock.NewSynced(), kind)
	lane := w.open(t, "noted")
	w.work(t)
	began := clock.StartWatch()
	w.add(t, "noted", lane, rows(60)...)
	eventually(t, "all rows", func() bool { return w.idle(t) })
	require.Greater(t, began.Elapsed(), time.Second, "60 rows at 50 a second")
}

func TestConcurrencyGrowsAndHalves(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int64
	var overloaded atomic.Bool
	kind := doing(func(context.Context, Row) Result {
		running := now.Add(1)
		defer now.Add(-1)
		raise(&most, running)
		time.Sleep(2 * time.Millisecond)
		return Result{Overloaded: overloaded.Load()}
	})
	kind.Least, kind.Most = 2, 8
	w := newWorld(t, clock.NewSynced(), kind)
	w.work(t)
	lane := w.open(t, "test")
	kept := func() int {
		concurrency, err := postgres.One[int](t.Context(), w.db.System("test"), `SELECT concurrency FROM lanes`, nil)
		require.NoError(t, err)
		return concurrency
	}
	w.add(t, "test", lane, rows(1_000)...)
	eventually(t, "all rows", func() bool { return w.idle(t) })
	require.Equal(t, 8, kept(), "it grew")
	require.LessOrEqual(t, most.Load(), int64(8))
	overloaded.Store(true)
	w.add(t, "test", lane, rows(300)...)
	eventually(t, "all rows", func() bool { return w.idle(t) })
	require.LessOrEqual(t, kept(), 4, "it halved, and the next drainer starts there")
}

// raise keeps the highest value seen.
func raise(most *atomic.Int64, value int64) {
	for highest := most.Load(); value > highest; highest = most.Load() {
		if most.CompareAndSwap(highest, value) {
			return
		}
	}
}

func TestABlockedLaneRests(t *testing.T) {
	t.Parallel()
	now := clock.NewManual(time.Now().Truncate(time.Millisecond))
	var calls atomic.Int64
	var recovered atomic.Bool
	blockFor := 700 * time.Millisecond
	kind := Kind{Name: "test", Workers: 4, Least: 4, Most: 8, Open: func(context.Context, Lane) (Work, error) {
		return Work{
			Do: func(context.Context, Row) Result {
				if calls.Add(1); !recovered.Load() {
					return Result{RetryAt: now.Now().Add(time.Millisecond), Overloaded: true}
				}
				return Result{}
			},
			Settle: func(_ context.Context, _ *postgres.Tx, batch *Batch) error {
				if batch.Results[0].Overloaded {
					batch.Block(now.Now().Add(blockFor))
				}
				return nil
			},
		}, nil
	}}
	w := newWorld(t, now, kind)
	engine := NewEngine(w.lanes, w.db)
	w.add(t, "test", w.open(t, "test"), rows(300)...)
	w.drainAll(t, engine)
	started := calls.Load()
	require.LessOrEqual(t, started, int64(4), "the first of them to fail keeps back who has not begun")
	recovered.Store(true)
	now.Move(blockFor / 2)
	w.drainAll(t, engine)
	require.Equal(t, started, calls.Load(), "nothing starts while the lane is blocked")
	now.Move(blockFor / 2)
	w.drainAll(t, engine)
	require.True(t, w.idle(t))
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	seen := &ledger{}
	w := newWorld(t, clock.NewSynced(), noted(seen))
	w.work(t)
	lane := w.open(t, "noted")
	w.in(t, w.org, func(tx *postgres.Tx) error { return w.lanes.BlockTx(t.Context(), tx, lane, Forever()) })
	w.add(t, "noted", lane, rows(10)...)
	time.Sleep(300 * time.Millisecond)
	w.add(t, "noted", lane, rows(10)...)
	time.Sleep(300 * time.Millisecond)
	require.Empty(t, seen.all())
	w.in(t, w.org, func(tx *postgres.Tx) error { return w.lanes.UnblockTx(t.Context(), tx, "noted", lane) })
	eventually(t, "all rows", func() bool { return len(seen.all()) == 20 && w.idle(t) })
}

func TestAPauseStopsALaneUnderWay(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	kind := doing(func(context.Context, Row) Result {
		calls.Add(1)
		time.Sleep(5 * time.Millisecond)
		return Result{}
	})
	w := newWorld(t, clock.NewSynced(), kind)
	engine, _ := w.work(t)
	lane := w.open(t, "test")
	w.add(t, "test", lane, rows(20_000)...)
	eventually(t, "some rows", func() bool { return calls.Load() > 20 })
	w.in(t, w.org, func(tx *postgres.Tx) error { return w.lanes.BlockTx(t.Context(), tx, lane, Forever()) })
	eventually(t, "the end of its turn", engine.rests)
	stopped := calls.Load()
	require.Less(t, stopped, int64(20_000))
	time.Sleep(500 * time.Millisecond)
	require.Equal(t, stopped, calls.Load(), "nothing starts any more")
	require.Equal(t, 20_000-int(stopped), w.waiting(t), "what was under way is settled, the rest waits")
	w.in(t, w.org, func(tx *postgres.Tx) error { return w.lanes.UnblockTx(t.Context(), tx, "test", lane) })
	eventually(t, "more rows", func() bool { return calls.Load() > stopped })
}

// rests tells that the engine drains no lane.
func (e *Engine) rests() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.drains) == 0
}

func TestASlowLaneLeavesTheOthersWorkers(t *testing.T) {
	t.Parallel()
	kind := doing(func(context.Context, Row) Result {
		time.Sleep(1200 * time.Millisecond)
		return Result{}
	})
	kind.Least, kind.Most = 2, 2
	w := newWorld(t, clock.NewSynced(), kind)
	w.work(t)
	w.add(t, "test", w.open(t, "test"), rows(20)...)
	eventually(t, "the slow class", func() bool {
		slow, err := postgres.One[bool](t.Context(), w.db.System("test"), `SELECT slow FROM lanes`, nil)
		return err == nil && slow
	})
	before := w.waiting(t)
	eventually(t, "it goes on", func() bool { return w.waiting(t) < before-1 })
}

func TestAnOrganizationHasItsShareOfWorkers(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int64
	kind := doing(func(context.Context, Row) Result {
		running := now.Add(1)
		defer now.Add(-1)
		raise(&most, running)
		time.Sleep(150 * time.Millisecond)
		return Result{}
	})
	kind.Least, kind.Most, kind.Workers = 1, 1, 16
	w := newWorld(t, clock.NewSynced(), kind)
	w.work(t)
	for range 20 {
		w.add(t, "test", w.open(t, "test"), rows(2)...)
	}
	eventually(t, "all rows", func() bool { return w.idle(t) })
	require.LessOrEqual(t, most.Load(), int64(8), "half of 16 workers is for others")
}

func TestLanesTakeTurns(t *testing.T) {
	t.Parallel()
	var big, small ids.Any
	var mu sync.Mutex
	done := map[ids.Any]int{}
	first := -1 // how many of the big lane came before the last of the small one
	kind := Kind{Name: "test", Workers: 1, Least: 1, Most: 1, Open: func(_ context.Context, lane Lane) (Work, error) {
		return Work{Do: func(context.Context, Row) Result {
			mu.Lock()
			defer mu.Unlock()
			if done[lane.ID]++; lane.ID == small && done[small] == 5 {
				first = done[big]
			}
			return Result{}
		}}, nil
	}}
	w := newWorld(t, clock.NewSynced(), kind)
	big, small = w.open(t, "test"), w.open(t, "test")
	w.add(t, "test", big, rows(5_000)...)
	w.add(t, "test", small, rows(5)...)
	w.work(t)
	before := func() int {
		mu.Lock()
		defer mu.Unlock()
		return first
	}
	eventually(t, "the small lane", func() bool { return before() >= 0 })
	require.Less(t, before(), 3_000, "one turn, not the whole backlog, comes first")
}

func TestAFrozenOrganizationStopsAndIsRebuiltFromItsRows(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	var lane ids.Any
	var truth []Row
	var w *world
	kind := doing(func(ctx context.Context, _ Row) Result {
		if ctx.Err() != nil {
			return Result{} // the lane was lost before this goroutine came to run
		}
		calls.Add(1)
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
		return Result{}
	})
	kind.Restore = func(ctx context.Context, tx *postgres.Tx) error {
		if err := w.lanes.OpenTx(ctx, tx, "test", lane); err != nil {
			return err
		}
		return w.lanes.AddTx(ctx, tx, "test", lane, truth...)
	}
	w = newWorld(t, clock.NewSynced(), kind)
	engine, _ := w.work(t)
	lane = w.open(t, "test")
	truth = rows(5_000)
	w.add(t, "test", lane, truth...)
	eventually(t, "some rows", func() bool { return calls.Load() > 20 })
	_, err := postgres.InClosingTx(t.Context(), w.db, "freeze", func(tx *postgres.Tx) (struct{}, error) {
		if _, err := tx.Exec(t.Context(), `SELECT close_organization(@org)`, postgres.Args{"org": w.org}); err != nil {
			return struct{}{}, err
		}
		if _, err := tx.Exec(t.Context(), `UPDATE organizations SET frozen_at = @now WHERE org_id = @org`,
			postgres.Args{"org": w.org, "now": w.clock.Now()}); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, w.lanes.DissolveTx(t.Context(), tx, w.org)
	})
	require.NoError(t, err)
	eventually(t, "the end of its turn", engine.rests)
	stopped := calls.Load()
	require.Less(t, stopped, int64(5_000))
	time.Sleep(300 * time.Millisecond)
	require.Equal(t, stopped, calls.Load(), "nothing starts any more")
	truth = rows(50)
	_, err = postgres.InFirstTx(t.Context(), w.db, w.org, func(tx *postgres.Tx) (struct{}, error) {
		if _, err := tx.Exec(t.Context(), `UPDATE organizations SET frozen_at = NULL WHERE org_id = @org_id`, postgres.Args{}); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, w.lanes.RebuildTx(t.Context(), tx)
	})
	require.NoError(t, err)
	eventually(t, "the rebuilt rows", func() bool { return w.idle(t) && calls.Load() == stopped+50 })
}
