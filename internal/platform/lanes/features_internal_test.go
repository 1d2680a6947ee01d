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

const soon = 3 * time.Minute

func eventually(t *testing.T, what string, asked func() bool) {
	t.Helper()
	require.Eventually(t, asked, soon, 5*time.Millisecond, what)
}

// doing is a kind whose calls do what the test says.
func doing(do func(ctx context.Context, row Row) testAnswer) testKind {
	return testKind{Name: "test", Workers: 20, SlowWorkers: 4, Least: 4, Most: 8, Open: func(context.Context, Lane) (testWork, error) {
		return testWork{Call: calling(do)}, nil
	}}
}

func TestDueAt_FutureRow_TimerWakesLane(t *testing.T) {
	t.Parallel()
	var started atomic.Int64
	now := clock.NewManual(time.Now().Truncate(time.Millisecond))
	f := newFixture(t, now, doing(func(context.Context, Row) testAnswer {
		started.Add(1)
		return testAnswer{}
	}))
	engine := NewEngine(f.lanes, f.db)
	due := now.Now().Add(time.Hour)
	f.add(t, "test", f.open(t, "test"), Row{ID: newID(), DueAt: due})
	eventually(t, "a timer", func() bool {
		f.drainDue(t, engine)
		set, err := postgres.One[*time.Time](t.Context(), f.db.System("test"), `SELECT timer_at FROM lanes`, nil)
		return err == nil && set != nil && set.Equal(due)
	})
	now.Move(time.Hour - time.Millisecond)
	f.drainDue(t, engine)
	require.Zero(t, started.Load(), "never early")
	now.Move(time.Millisecond)
	f.drainDue(t, engine)
	require.Equal(t, int64(1), started.Load(), "its timer woke the lane: nobody swept")
}

func TestRetryAt_RowIsCalledAgain(t *testing.T) {
	t.Parallel()
	now := clock.NewSynced()
	var tries atomic.Int64
	f := newFixture(t, now, doing(func(context.Context, Row) testAnswer {
		if tries.Add(1) < 3 {
			return testAnswer{RetryAt: now.Now().Add(200 * time.Millisecond)}
		}
		return testAnswer{}
	}))
	f.work(t)
	f.add(t, "test", f.open(t, "test"), rows(1)...)
	eventually(t, "three tries", func() bool { return f.idle(t) && tries.Load() == 3 })
}

func TestPriority_OneStartInEightIsOfPriorityOne(t *testing.T) {
	t.Parallel()
	seen := &callLog{}
	kind := doing(func(_ context.Context, row Row) testAnswer {
		seen.record(row.ID)
		return testAnswer{}
	})
	kind.Least, kind.Most = 1, 1
	f := newFixture(t, clock.NewSynced(), kind)
	lane := f.open(t, "test")
	urgent, low := rows(64), Row{ID: newID(), Priority: 1}
	f.add(t, "test", lane, low)
	f.add(t, "test", lane, urgent...)
	f.work(t)
	eventually(t, "all rows", func() bool { return f.idle(t) })
	at := slices.Index(seen.all(), low.ID)
	assert.Positive(t, at+1)
	assert.Less(t, at, laterEvery, "one row in %d comes from behind", laterEvery)
}

func TestKey_OneAtATimeInOrder(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	running := map[ids.Any]int{}
	orders := map[ids.Any][]ids.Any{}
	f := newFixture(t, clock.NewSynced(), doing(func(_ context.Context, row Row) testAnswer {
		mu.Lock()
		running[row.Key]++
		assert.Equal(t, 1, running[row.Key], "two rows of a key at once")
		orders[row.Key] = append(orders[row.Key], row.ID)
		mu.Unlock()
		time.Sleep(time.Millisecond)
		mu.Lock()
		running[row.Key]--
		mu.Unlock()
		return testAnswer{}
	}))
	f.work(t)
	lane := f.open(t, "test")
	keys := []ids.Any{newID(), newID(), newID()}
	added := map[ids.Any][]ids.Any{}
	for range 20 {
		for _, key := range keys {
			row := Row{ID: newID(), Key: key}
			added[key] = append(added[key], row.ID)
			f.add(t, "test", lane, row)
		}
	}
	eventually(t, "all rows", func() bool { return f.idle(t) })
	require.Equal(t, added, orders)
}

func TestRetries_HoldKeepsKeyBack_PassDoesNot(t *testing.T) {
	t.Parallel()
	for rule, want := range map[Rule][]string{Hold: {"A", "AAB"}, Pass: {"AB", "ABA"}} {
		now := clock.NewManual(time.Now().Truncate(time.Millisecond))
		first, second := newID(), newID()
		var order []byte
		var mu sync.Mutex
		kind := doing(func(_ context.Context, row Row) testAnswer {
			mu.Lock()
			defer mu.Unlock()
			if row.ID == second {
				order = append(order, 'B')
				return testAnswer{}
			}
			if order = append(order, 'A'); !slices.Contains(order[:len(order)-1], 'A') {
				return testAnswer{RetryAt: now.Now().Add(300 * time.Millisecond)}
			}
			return testAnswer{}
		})
		kind.Retries = rule
		f := newFixture(t, now, kind)
		engine, key := NewEngine(f.lanes, f.db), newID()
		f.add(t, "test", f.open(t, "test"), Row{ID: first, Key: key}, Row{ID: second, Key: key})
		for _, sofar := range want {
			f.drainAll(t, engine)
			require.Equal(t, sofar, string(order))
			now.Move(time.Second)
		}
		require.True(t, f.idle(t))
	}
}

func TestKeyUntil_NextRowOfKeyWaits(t *testing.T) {
	t.Parallel()
	now := clock.NewSynced()
	var mu sync.Mutex
	var starts []time.Time
	f := newFixture(t, now, doing(func(context.Context, Row) testAnswer {
		mu.Lock()
		defer mu.Unlock()
		starts = append(starts, now.Now())
		return testAnswer{KeyUntil: now.Now().Add(250 * time.Millisecond)}
	}))
	f.work(t)
	key := newID()
	f.add(t, "test", f.open(t, "test"), Row{ID: newID(), Key: key}, Row{ID: newID(), Key: key}, Row{ID: newID(), Key: key})
	eventually(t, "all rows", func() bool { return f.idle(t) })
	for i := 1; i < len(starts); i++ {
		require.GreaterOrEqual(t, starts[i].Sub(starts[i-1]), 249*time.Millisecond)
	}
}

func TestPerSecond_StartsAreLimited(t *testing.T) {
	t.Parallel()
	seen := &callLog{}
	kind := noted(seen)
	open := kind.Open
	kind.Open = func(ctx context.Context, lane Lane) (testWork, error) {
		work, err := open(ctx, lane)
		work.PerSecond = 50
		return work, err
	}
	f := newFixture(t, clock.NewSynced(), kind)
	lane := f.open(t, "noted")
	f.work(t)
	began := clock.StartWatch()
	f.add(t, "noted", lane, rows(60)...)
	eventually(t, "all rows", func() bool { return f.idle(t) })
	require.Greater(t, began.Elapsed(), time.Second, "60 rows at 50 a second")
}

func TestConcurrency_GrowsAndHalves(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int64
	var overloaded atomic.Bool
	kind := doing(func(context.Context, Row) testAnswer {
		running := now.Add(1)
		defer now.Add(-1)
		raise(&most, running)
		time.Sleep(2 * time.Millisecond)
		return testAnswer{Overloaded: overloaded.Load()}
	})
	kind.Least, kind.Most = 2, 8
	f := newFixture(t, clock.NewSynced(), kind)
	f.work(t)
	lane := f.open(t, "test")
	kept := func() int {
		concurrency, err := postgres.One[int](t.Context(), f.db.System("test"), `SELECT concurrency FROM lanes`, nil)
		require.NoError(t, err)
		return concurrency
	}
	f.add(t, "test", lane, rows(1_000)...)
	eventually(t, "all rows", func() bool { return f.idle(t) })
	require.Equal(t, 8, kept(), "it grew")
	require.LessOrEqual(t, most.Load(), int64(8))
	overloaded.Store(true)
	f.add(t, "test", lane, rows(300)...)
	eventually(t, "all rows", func() bool { return f.idle(t) })
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

func TestBatchBlock_NothingStartsUntilItIsOver(t *testing.T) {
	t.Parallel()
	now := clock.NewManual(time.Now().Truncate(time.Millisecond))
	var calls atomic.Int64
	var recovered atomic.Bool
	blockFor := 700 * time.Millisecond
	kind := testKind{Name: "test", Workers: 4, Least: 4, Most: 8, Open: func(context.Context, Lane) (testWork, error) {
		return testWork{
			Call: calling(func(context.Context, Row) testAnswer {
				if calls.Add(1); !recovered.Load() {
					return testAnswer{RetryAt: now.Now().Add(time.Millisecond), Overloaded: true}
				}
				return testAnswer{}
			}),
			Settle: func(_ context.Context, _ *postgres.Tx, batch *testBatch) error {
				if batch.Results[0].Overloaded {
					batch.Block(now.Now().Add(blockFor))
				}
				return nil
			},
		}, nil
	}}
	f := newFixture(t, now, kind)
	engine := NewEngine(f.lanes, f.db)
	f.add(t, "test", f.open(t, "test"), rows(300)...)
	f.drainAll(t, engine)
	started := calls.Load()
	require.LessOrEqual(t, started, int64(4), "the first of them to fail keeps back who has not begun")
	recovered.Store(true)
	now.Move(blockFor / 2)
	f.drainAll(t, engine)
	require.Equal(t, started, calls.Load(), "nothing starts while the lane is blocked")
	now.Move(blockFor / 2)
	f.drainAll(t, engine)
	require.True(t, f.idle(t))
}

func TestBlockTx_UnblockTx_RowsWaitAndFlow(t *testing.T) {
	t.Parallel()
	seen := &callLog{}
	f := newFixture(t, clock.NewSynced(), noted(seen))
	f.work(t)
	lane := f.open(t, "noted")
	f.in(t, f.org, func(tx *postgres.Tx) error { return f.lanes.BlockTx(t.Context(), tx, lane, Forever()) })
	f.add(t, "noted", lane, rows(10)...)
	time.Sleep(300 * time.Millisecond)
	f.add(t, "noted", lane, rows(10)...)
	time.Sleep(300 * time.Millisecond)
	require.Empty(t, seen.all())
	f.in(t, f.org, func(tx *postgres.Tx) error { return f.lanes.UnblockTx(t.Context(), tx, "noted", lane) })
	eventually(t, "all rows", func() bool { return len(seen.all()) == 20 && f.idle(t) })
}

func TestBlockTx_BusyLane_StopsStarting(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	kind := doing(func(context.Context, Row) testAnswer {
		calls.Add(1)
		time.Sleep(5 * time.Millisecond)
		return testAnswer{}
	})
	f := newFixture(t, clock.NewSynced(), kind)
	engine, _ := f.work(t)
	lane := f.open(t, "test")
	f.add(t, "test", lane, rows(20_000)...)
	eventually(t, "some rows", func() bool { return calls.Load() > 20 })
	f.in(t, f.org, func(tx *postgres.Tx) error { return f.lanes.BlockTx(t.Context(), tx, lane, Forever()) })
	eventually(t, "the end of its turn", engine.rests)
	stopped := calls.Load()
	require.Less(t, stopped, int64(20_000))
	time.Sleep(500 * time.Millisecond)
	require.Equal(t, stopped, calls.Load(), "nothing starts any more")
	require.Equal(t, 20_000-int(stopped), f.waiting(t), "what was under way is settled, the rest waits")
	f.in(t, f.org, func(tx *postgres.Tx) error { return f.lanes.UnblockTx(t.Context(), tx, "test", lane) })
	eventually(t, "more rows", func() bool { return calls.Load() > stopped })
}

// rests tells that the engine drains no lane.
func (e *Engine) rests() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.sessions) == 0
}

func TestSlowLane_MovesToSlowWorkers(t *testing.T) {
	t.Parallel()
	kind := doing(func(context.Context, Row) testAnswer {
		time.Sleep(1200 * time.Millisecond)
		return testAnswer{}
	})
	kind.Least, kind.Most = 2, 2
	f := newFixture(t, clock.NewSynced(), kind)
	f.work(t)
	f.add(t, "test", f.open(t, "test"), rows(20)...)
	eventually(t, "the slow class", func() bool {
		slow, err := postgres.One[bool](t.Context(), f.db.System("test"), `SELECT slow FROM lanes`, nil)
		return err == nil && slow
	})
	before := f.waiting(t)
	eventually(t, "it goes on", func() bool { return f.waiting(t) < before-1 })
}

func TestWorkers_OrganizationHasAShare(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int64
	kind := doing(func(context.Context, Row) testAnswer {
		running := now.Add(1)
		defer now.Add(-1)
		raise(&most, running)
		time.Sleep(150 * time.Millisecond)
		return testAnswer{}
	})
	kind.Least, kind.Most, kind.Workers = 1, 1, 16
	f := newFixture(t, clock.NewSynced(), kind)
	f.work(t)
	for range 20 {
		f.add(t, "test", f.open(t, "test"), rows(2)...)
	}
	eventually(t, "all rows", func() bool { return f.idle(t) })
	require.LessOrEqual(t, most.Load(), int64(8), "half of 16 workers is for others")
}

func TestTurns_SmallLaneDoesNotWaitForBigOne(t *testing.T) {
	t.Parallel()
	var big, small ids.Any
	var mu sync.Mutex
	done := map[ids.Any]int{}
	first := -1 // how many of the big lane came before the last of the small one
	kind := testKind{Name: "test", Workers: 1, Least: 1, Most: 1, Open: func(_ context.Context, lane Lane) (testWork, error) {
		return testWork{Call: calling(func(context.Context, Row) testAnswer {
			mu.Lock()
			defer mu.Unlock()
			if done[lane.ID]++; lane.ID == small && done[small] == 5 {
				first = done[big]
			}
			return testAnswer{}
		})}, nil
	}}
	f := newFixture(t, clock.NewSynced(), kind)
	big, small = f.open(t, "test"), f.open(t, "test")
	f.add(t, "test", big, rows(5_000)...)
	f.add(t, "test", small, rows(5)...)
	f.work(t)
	before := func() int {
		mu.Lock()
		defer mu.Unlock()
		return first
	}
	eventually(t, "the small lane", func() bool { return before() >= 0 })
	require.Less(t, before(), 3_000, "one turn, not the whole backlog, comes first")
}

func TestDissolve_RebuildTx_RowsAreRestored(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	var lane ids.Any
	var f *fixture
	kind := doing(func(ctx context.Context, _ Row) testAnswer {
		if ctx.Err() != nil {
			return testAnswer{} // the lane was lost before this goroutine came to run
		}
		calls.Add(1)
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
		return testAnswer{}
	})
	restored := 0
	kind.Restore = func(context.Context, *postgres.Tx) error {
		restored++
		return nil
	}
	f = newFixture(t, clock.NewSynced(), kind)
	engine, _ := f.work(t)
	lane = f.open(t, "test")
	f.add(t, "test", lane, rows(5_000)...)
	eventually(t, "some rows", func() bool { return calls.Load() > 20 })
	_, err := postgres.InClosingTx(t.Context(), f.db, "freeze", func(tx *postgres.Tx) (int64, error) {
		if _, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(organization_lock(@org))`, postgres.Args{"org": f.org}); err != nil {
			return 0, err
		}
		return tx.Exec(t.Context(), `UPDATE organizations SET frozen_at = @now WHERE org_id = @org`,
			postgres.Args{"org": f.org, "now": f.clock.Now()})
	})
	require.NoError(t, err)
	require.NoError(t, f.lanes.Dissolve(t.Context(), f.org))
	eventually(t, "the end of its turn", engine.rests)
	stopped := calls.Load()
	require.Less(t, stopped, int64(5_000))
	time.Sleep(300 * time.Millisecond)
	require.Equal(t, stopped, calls.Load(), "nothing starts any more")
	require.NoError(t, f.lanes.ReturnRows(t.Context(), f.org))
	require.NoError(t, f.lanes.clearClosed(t.Context()), "rows whose lane is not made yet stay")
	_, err = postgres.InFirstTx(t.Context(), f.db, f.org, func(tx *postgres.Tx) (struct{}, error) {
		if _, err := tx.Exec(t.Context(), `UPDATE organizations SET frozen_at = NULL WHERE org_id = @org_id`, postgres.Args{}); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, f.lanes.RebuildTx(t.Context(), tx)
	})
	require.NoError(t, err)
	eventually(t, "the rows that were left", func() bool { return f.idle(t) && calls.Load() >= 5_000 })
	require.Equal(t, 1, restored)
}
