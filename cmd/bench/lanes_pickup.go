package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
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

type pickupFigures struct {
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	RiverP50  float64 `json:"river_p50_ms"`
	RiverP99  float64 `json:"river_p99_ms"`
	AcrossP50 float64 `json:"across_p50_ms"`
	AcrossP99 float64 `json:"across_p99_ms"`
}

// stamping is a kind that tells when each row reached its handler.
func stamping(reach func(row ids.Any, at time.Time)) lanes.Kind {
	work := lanes.Work{Do: func(_ context.Context, row lanes.Row) lanes.Result {
		reach(row.ID, time.Now())
		return lanes.Result{}
	}}
	return lanes.Kind{
		Name: laneKind, Workers: usualWorkers, Least: 4, Most: 32,
		Open: func(context.Context, lanes.Lane) (lanes.Work, error) { return work, nil },
	}
}

// benchPickup measures the time from a row's commit to its handler.
func benchPickup(ctx context.Context, given lanesOptions, figures *lanesFigures) error {
	var current atomic.Pointer[meter]
	s, err := newStage(ctx, given.server, nil, stamping(func(row ids.Any, at time.Time) { current.Load().reach(row, at) }))
	if err != nil {
		return err
	}
	defer s.stop()
	p := &pickup{stage: s, span: given.lasting(pickupSpan), current: &current}
	shown, err := inTurn(ctx, "pickup",
		leg[spread]{ours, p.together}, leg[spread]{"river", p.bare}, leg[spread]{"across processes", p.across})
	if err != nil {
		return err
	}
	p50, p99 := func(s spread) float64 { return s.p50 }, func(s spread) float64 { return s.p99 }
	figures.Pickup = &pickupFigures{
		P50: medianOf(shown[0], p50), P99: medianOf(shown[0], p99),
		RiverP50: medianOf(shown[1], p50), RiverP99: medianOf(shown[1], p99),
		AcrossP50: medianOf(shown[2], p50), AcrossP99: medianOf(shown[2], p99),
	}
	return nil
}

type pickup struct {
	*stage

	span    time.Duration
	current *atomic.Pointer[meter]
}

// together adds and works in this process.
func (p *pickup) together(ctx context.Context) (spread, error) {
	stop, err := p.work()
	if err != nil {
		return spread{}, err
	}
	defer stop()
	return p.rows(ctx, newMeter())
}

// across works in another process, which tells when it reached each row.
func (p *pickup) across(ctx context.Context) (spread, error) {
	seen := newMeter()
	stop, err := startWorker(ctx, p.database, seen)
	if err != nil {
		return spread{}, err
	}
	defer stop()
	return p.rows(ctx, seen)
}

func (p *pickup) rows(ctx context.Context, seen *meter) (spread, error) {
	p.current.Store(seen)
	places, err := p.open(ctx, laneKind, pickupLanes, 1)
	if err != nil {
		return spread{}, err
	}
	return p.measure(ctx, seen, func() error {
		to, row := places[rand.IntN(len(places))], newRow() //nolint:gosec // only spreads
		return p.in(ctx, to.org, func(tx *postgres.Tx) error {
			tx.AfterCommit(func() { seen.add(row.ID, time.Now()) }) // before the lanes' own hook
			return p.lanes.AddTx(ctx, tx, laneKind, to.lane, row)
		})
	})
}

// bare is River alone, adding and working in this process.
func (p *pickup) bare(ctx context.Context) (spread, error) {
	seen := newMeter()
	pool := p.worked.Pool()
	client, err := bareRiver(pool, usualWorkers, usualCooldown, usualPoll, func(row ids.Any) { seen.reach(row, time.Now()) })
	if err != nil {
		return spread{}, err
	}
	if err := client.Start(ctx); err != nil {
		return spread{}, err
	}
	shown, err := p.measure(ctx, seen, func() error {
		row := newRow().ID
		err := bareAdd(ctx, p.adding.Pool(), client, row)
		seen.add(row, time.Now())
		return err
	})
	return shown, errors.Join(err, client.Stop(context.WithoutCancel(ctx)))
}

// measure adds at the rate and leaves out what was added while things warmed up.
func (p *pickup) measure(ctx context.Context, seen *meter, add func() error) (spread, error) {
	from := time.Now().Add(pickupWarm)
	if err := feed(ctx, pickupRate, pickupWarm+p.span, add); err != nil {
		return spread{}, err
	}
	until := time.Now()
	seen.wait(3 * time.Second)
	return spreadOf(seen.delays(from, until))
}

// startWorker runs this program again as the process that works.
func startWorker(ctx context.Context, database string, seen *meter) (stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, self, "lanes", "--worker", database) //nolint:gosec // itself
	command.Stderr = os.Stderr
	leash, err := command.StdinPipe() // the other process ends when this one lets go
	if err != nil {
		return nil, err
	}
	told, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		listen(told, seen, ready)
	}()
	select {
	case <-ready:
	case <-done:
		return nil, errors.Join(errors.New("the other process did not start"), command.Wait())
	}
	return func() {
		_ = leash.Close()
		<-done
		_ = command.Wait()
	}, nil
}

const workerReady = "ready"

// listen reads what pickupWorker tells: rows and when they were reached.
func listen(told io.Reader, seen *meter, ready chan<- struct{}) {
	for lines := bufio.NewScanner(told); lines.Scan(); {
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
func pickupWorker(ctx context.Context, database string) error {
	s, err := openStage(ctx, database, nil, stamping(func(row ids.Any, at time.Time) {
		fmt.Fprintf(os.Stdout, "%s %d\n", row, at.UnixNano()) // one write, so that lines stay whole
	}))
	if err != nil {
		return err
	}
	defer s.stop()
	stop, err := s.work()
	if err != nil {
		return err
	}
	defer stop()
	fmt.Fprintln(os.Stdout, workerReady)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
