package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
)

const (
	pickupRate  = 200
	pickupLanes = 100
	pickupSpan  = 4 * time.Second
	pickupWarm  = time.Second
	// How production looks for jobs.
	usualWorkers  = 100
	usualCooldown = 20 * time.Millisecond
	usualPoll     = 100 * time.Millisecond
)

// noting is a handler that only tells when it was called.
func noting(reach func(row ids.Any, at time.Time)) handler {
	return handler{workers: usualWorkers, call: func(_ context.Context, _, row ids.Any) (retryAt time.Time) {
		reach(row, time.Now())
		return retryAt
	}}
}

// benchPickup measures the time from a row's commit to its handler: in one process (p50_ms,
// p99_ms), of bare River in one process (river_…), and in another process (across_…).
func benchPickup(ctx context.Context, b *bench) figures {
	const bare, across = "river", "across processes"
	var current atomic.Pointer[meter[ids.Any]]
	f := newFixture(ctx, b, noting(func(row ids.Any, at time.Time) { current.Load().reach(row, at) }))
	// picked starts to work, and adds by the function that start returns.
	picked := func(name string, start func(ctx context.Context, b *bench, seen *meter[ids.Any]) (add func() error)) side {
		return side{name, func(ctx context.Context, b *bench) sample {
			seen := newMeter[ids.Any](3 * time.Second)
			current.Store(seen)
			add := start(ctx, b, seen)
			return feedMeter(ctx, seen, pickupRate, pickupWarm, b.lasting(pickupSpan), add)
		}}
	}
	shown := b.inTurn(ctx, "pickup",
		picked(ours, func(ctx context.Context, b *bench, seen *meter[ids.Any]) func() error {
			f.work(b)
			return f.addOne(ctx, f.addRows, f.open(ctx, pickupLanes, 1), seen)
		}),
		picked(bare, func(ctx context.Context, b *bench, seen *meter[ids.Any]) func() error {
			client := bareRiver(f.working.Pool(), usualWorkers, usualCooldown, usualPoll, func(row ids.Any) { seen.reach(row, time.Now()) })
			check(client.Start(ctx))
			b.later(func() { _ = client.Stop(context.WithoutCancel(ctx)) })
			return func() error {
				row := newRow().ID
				err := bareAdd(ctx, f.adding.Pool(), client, row)
				seen.add(row, time.Now())
				return err
			}
		}),
		picked(across, func(ctx context.Context, b *bench, seen *meter[ids.Any]) func() error {
			startWorker(ctx, b, f.database, seen)
			return f.addOne(ctx, f.addRows, f.open(ctx, pickupLanes, 1), seen)
		}))
	return figures{"pickup": figures{
		"p50_ms": shown.median(ours, p50), "p99_ms": shown.median(ours, p99),
		"river_p50_ms": shown.median(bare, p50), "river_p99_ms": shown.median(bare, p99),
		"across_p50_ms": shown.median(across, p50), "across_p99_ms": shown.median(across, p99),
	}}
}

// startWorker runs this program again as the process that works, until the side is over.
func startWorker(ctx context.Context, b *bench, database string, seen *meter[ids.Any]) {
	command := exec.CommandContext(ctx, must(os.Executable()), "lanes", "--worker", database) //nolint:gosec // itself
	command.Stderr = os.Stderr
	stdin := must(command.StdinPipe()) // the other process ends when it is closed
	stdout := must(command.StdoutPipe())
	check(command.Start())
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		readWorker(stdout, seen, ready)
	}()
	b.later(func() {
		_ = stdin.Close()
		<-done
		_ = command.Wait()
	})
	select {
	case <-ready:
	case <-done:
		check(errors.New("the other process did not start"))
	}
}

const workerReady = "ready"

// readWorker reads what pickupWorker prints: rows and when they were reached.
func readWorker(stdout io.Reader, seen *meter[ids.Any], ready chan<- struct{}) {
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		var name string
		var nanos int64
		if lines.Text() == workerReady {
			close(ready)
			continue
		}
		if _, err := fmt.Sscan(lines.Text(), &name, &nanos); err != nil {
			continue
		}
		var row ids.Any
		if row.UnmarshalText([]byte(name)) == nil {
			seen.reach(row, time.Unix(0, nanos))
		}
	}
}

// pickupWorker is the other process.
func pickupWorker(ctx context.Context, b *bench) figures {
	f := openFixture(ctx, b, b.worker, noting(func(row ids.Any, at time.Time) {
		fmt.Fprintf(os.Stdout, "%s %d\n", row, at.UnixNano()) // one write, so that lines stay whole
	}))
	f.work(b)
	fmt.Fprintln(os.Stdout, workerReady)
	must(io.Copy(io.Discard, os.Stdin)) // until the other process closes it
	return nil
}
