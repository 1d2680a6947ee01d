package main

import (
	"context"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	denseLanes   = 100
	denseRows    = 150_000
	denseJobs    = 60_000
	sparseLanes  = 10_000
	drainWorkers = 200
	// With these bare River is fastest here.
	bareWorkers  = 500
	bareCooldown = 2 * time.Millisecond
	barePoll     = 20 * time.Millisecond
)

// draining is a fixture whose rows are only counted.
type draining struct {
	*fixture

	done atomic.Pointer[counter]
}

func newDraining(ctx context.Context, b *bench, perRow bool) *draining {
	d := &draining{}
	count := func(context.Context, ids.Any, ids.Any) (retryAt time.Time) {
		d.done.Load().add()
		return retryAt
	}
	d.fixture = newFixture(ctx, b, handler{workers: drainWorkers, perRow: perRow, call: count})
	return d
}

// drain starts to work by start, and returns how many of the rows that wait are done and settled
// per second. In a profile it is labelled, because adding them may take longer.
func (d *draining) drain(ctx context.Context, want int, start func()) (drained sample) {
	d.analyze(ctx)
	done := &counter{}
	d.done.Store(done)
	pprof.Do(ctx, pprof.Labels("phase", "drain"), func(ctx context.Context) {
		start()
		done.await(ctx, want)
		for busy := true; busy; time.Sleep(time.Millisecond) {
			busy = must(postgres.One[bool](ctx, d.adding.System("whether all is settled"), sqlBusy, nil))
		}
		drained.rate = float64(want) / time.Since(time.Unix(0, done.first.Load())).Seconds()
	})
	return drained
}

// sqlBusy tells whether a row or a job is still to be done or to be settled.
const sqlBusy = `
SELECT EXISTS (SELECT FROM lane_rows) OR EXISTS (SELECT FROM lanes WHERE armed)
    OR EXISTS (SELECT FROM ` + jobs.Table + ` WHERE state = 'available') OR EXISTS (SELECT FROM ` + jobs.Table + ` WHERE state = 'running')`

// benchDrainDense drains lanes full of rows against bare River's jobs (drain_dense), both
// doing nothing.
func benchDrainDense(ctx context.Context, b *bench) figures {
	const bare = "river"
	d, beside := newDraining(ctx, b, false), newDraining(ctx, b, false)
	shown := b.inTurn(ctx, "drain_dense",
		side{ours, func(ctx context.Context, b *bench) sample {
			each := max(1, b.many(denseRows)/denseLanes)
			for _, to := range d.open(ctx, denseLanes, 1) {
				check(d.fill(ctx, d.addRows, to, each))
			}
			return d.drain(ctx, each*denseLanes, func() { d.work(b) })
		}},
		beside.riverSide(bare, denseJobs))
	return figures{"drain_dense": shown.ratio(ours, bare, rate)}
}

// riverSide works jobs that do nothing by bare River.
func (d *draining) riverSide(name string, usual int) side {
	return side{name, func(ctx context.Context, b *bench) sample {
		d.open(ctx, 0, 0)
		count := b.many(usual)
		client := bareRiver(d.working.Pool(), bareWorkers, bareCooldown, barePoll, func(ids.Any) { d.done.Load().add() })
		bareFill(ctx, client, count)
		b.later(func() { _ = client.Stop(context.WithoutCancel(ctx)) })
		return d.drain(ctx, count, func() { check(client.Start(ctx)) })
	}}
}

// benchDrainSparse drains lanes of one row each, where a lane saves nothing, against one job
// for each row in the same runner (drain_sparse).
func benchDrainSparse(ctx context.Context, b *bench) figures {
	const perRow = "per row"
	d := newDraining(ctx, b, true)
	drained := func(name string, add adder) side {
		return side{name, func(ctx context.Context, b *bench) sample {
			places := d.open(ctx, 100, max(1, b.many(sparseLanes)/100))
			check(times(fillClients, len(places), func(i int) error { return d.fill(ctx, add, places[i], 1) }))
			return d.drain(ctx, len(places), func() { d.work(b) })
		}}
	}
	shown := b.inTurn(ctx, "drain_sparse", drained(ours, d.addRows), drained(perRow, d.addJobs))
	return figures{"drain_sparse": shown.ratio(ours, perRow, rate)}
}
