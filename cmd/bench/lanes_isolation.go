package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	healthyLanes  = 98
	healthyTakes  = 2 * time.Millisecond
	flatOut       = 1_000_000 // rows/s that nothing reaches
	isolationWarm = 2 * time.Second
	isolationSpan = 6 * time.Second
	capacitySpan  = 3 * time.Second
	deadRows      = 100_000
	deadTakes     = 10 * time.Second
	slowRows      = 300
	slowTakes     = 5 * time.Second
)

// isolation is what the handler knows of the side that is measured.
type isolation struct {
	dead, slow ids.Any
	seen       *meter[ids.Any]
	over       chan struct{}
}

// call works a row of a healthy lane in 2 ms, of the slow lane in 5 s; rows of the dead lane
// fail after 10 s.
func (i *isolation) call(ctx context.Context, lane, row ids.Any) (retryAt time.Time) {
	switch lane {
	case i.dead:
		i.sleep(ctx, deadTakes)
		return time.Now().Add(time.Hour)
	case i.slow:
		i.sleep(ctx, slowTakes)
	default:
		time.Sleep(healthyTakes)
		i.seen.reach(row, time.Now())
	}
	return time.Time{}
}

// sleep ends with the side, so that the next need not wait.
func (i *isolation) sleep(ctx context.Context, takes time.Duration) {
	select {
	case <-time.After(takes):
	case <-ctx.Done():
	case <-i.over:
	}
}

// benchIsolation measures what a dead and a slow lane do to healthy ones, fed at half of what
// they can do: isolation.throughput and isolation.p99 against the same without the two, and
// naive_… the same with one job for each row instead of lanes.
func benchIsolation(ctx context.Context, b *bench) figures {
	var current atomic.Pointer[isolation]
	call := func(ctx context.Context, lane, row ids.Any) time.Time { return current.Load().call(ctx, lane, row) }
	f := newFixture(ctx, b, handler{workers: 100, slowWorkers: 20, perRow: true, call: call})
	perSecond := flatOut
	healthy := func(name string, add adder, troubled bool, usual time.Duration) side {
		return side{name, func(ctx context.Context, b *bench) sample {
			places := f.open(ctx, healthyLanes+2, 1)
			dead, slow := places[healthyLanes], places[healthyLanes+1]
			i := &isolation{dead: dead.lane, slow: slow.lane, seen: newMeter[ids.Any](time.Second), over: make(chan struct{})}
			current.Store(i)
			if troubled {
				check(f.fill(ctx, add, dead, deadRows))
				check(f.fill(ctx, add, slow, slowRows))
			}
			f.analyze(ctx)
			f.work(b)
			b.later(func() { close(i.over) })
			return feedMeter(ctx, i.seen, perSecond, isolationWarm, b.lasting(usual), f.addOne(ctx, add, places[:healthyLanes], i.seen))
		}}
	}
	const alone, naive, naiveAlone = "ours untroubled", "naive", "naive untroubled"
	capacity := [2]sample{
		b.once(ctx, healthy(alone, f.addRows, false, capacitySpan)), b.once(ctx, healthy(naiveAlone, f.addJobs, false, capacitySpan)),
	}
	fmt.Fprintf(os.Stdout, "isolation, as fast as possible: %s %s; %s %s\n", alone, capacity[0], naiveAlone, capacity[1])
	perSecond = max(1, int(min(capacity[0].rate, capacity[1].rate)/2))
	shown := b.inTurn(ctx, "isolation",
		healthy(ours, f.addRows, true, isolationSpan), healthy(alone, f.addRows, false, isolationSpan),
		healthy(naive, f.addJobs, true, isolationSpan), healthy(naiveAlone, f.addJobs, false, isolationSpan))
	return figures{"isolation": figures{
		"throughput": shown.ratio(ours, alone, rate), "p99": shown.ratio(ours, alone, p99),
		"naive_throughput": shown.ratio(naive, naiveAlone, rate), "naive_p99": shown.ratio(naive, naiveAlone, p99),
	}}
}

// addOne returns a function that adds a row to a random lane and notes when it was committed.
func (f *fixture) addOne(ctx context.Context, add adder, places []place, seen *meter[ids.Any]) func() error {
	return func() error {
		to, row := places[rand.IntN(len(places))], newRow() //nolint:gosec // only spreads
		return f.in(ctx, to.org, func(tx *postgres.Tx) error {
			tx.AfterCommit(func() { seen.add(row.ID, time.Now()) }) // before the lanes' own hook
			return add(ctx, tx, to.lane, row)
		})
	}
}
