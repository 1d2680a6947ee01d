package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// fixture is a database with lanes of one kind. One pool adds, another works, as in production.
type fixture struct {
	handler

	database        string
	adding, working *postgres.DB
	queue           *jobs.Queue
	lanes           *lanes.Lanes
	logger          *slog.Logger
	clock           clock.Clock
}

// handler says how rows are worked, by lanes or by one job for each row.
type handler struct {
	// workers is how many lanes, or jobs, are worked at once; slowWorkers how many slow lanes more.
	workers, slowWorkers int
	// perRow has the process look for jobs of single rows too.
	perRow bool
	// call works a row. It returns when to try again; zero is never.
	call func(ctx context.Context, lane, row ids.Any) (retryAt time.Time)
}

// place is a lane and the organization that it belongs to.
type place struct {
	org  ids.Org
	lane ids.Any
}

const (
	laneKind = "lane"
	// fillClients add rows that are drained later, fillAtOnce in a transaction.
	fillClients, fillAtOnce = 8, 1000
)

// newFixture makes a scratch database with the tables of a cell and of River.
func newFixture(ctx context.Context, b *bench, how handler, tracers ...pgx.QueryTracer) *fixture {
	database := scratchDatabase(ctx, b)
	migrate(ctx, map[string]string{"PARLEY_DATABASE_URL": database})
	return openFixture(ctx, b, database, how, tracers...)
}

// openFixture uses a database as it is.
func openFixture(ctx context.Context, b *bench, database string, how handler, tracers ...pgx.QueryTracer) *fixture {
	f := &fixture{handler: how, database: database, clock: clock.NewSynced()}
	// A benchmark that goes wrong must say so.
	f.logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	for _, db := range []**postgres.DB{&f.adding, &f.working} {
		// Opened as a process does: its transactions enter their organization first, which is part of their cost.
		config := app.ReadConfig(map[string]string{"PARLEY_DATABASE_URL": database})
		cells := must(app.OpenCells(ctx, config, app.CellsConfig{Conns: poolConns, Logger: f.logger, Tracers: tracers}))
		b.later(cells.Close)
		_ = cells.Each(func(cell *app.Cell) error {
			*db = cell.DB
			return nil
		})
	}
	f.queue = must(jobs.NewQueue(f.adding, f.clock, f.logger))
	f.lanes = lanes.New(f.adding, f.queue, f.clock, f.logger)
	lanes.Register(f.lanes, lanes.Kind[struct{}, struct{}]{
		Name: laneKind, Retries: lanes.Hold, Workers: how.workers, SlowWorkers: how.slowWorkers, Least: 4, Most: 32, Timeout: 12 * time.Second,
		Open: func(_ context.Context, lane lanes.Lane) (lanes.Work[struct{}, struct{}], error) {
			return lanes.Work[struct{}, struct{}]{Call: func(ctx context.Context, row lanes.Row, _ struct{}) lanes.Answer[struct{}] {
				retryAt := how.call(ctx, lane.ID, row.ID)
				return lanes.Answer[struct{}]{RetryAt: retryAt, Overloaded: !retryAt.IsZero()}
			}}, nil
		},
	})
	return f
}

// work drains until the side is over, as a working process does.
func (f *fixture) work(b *bench) {
	set, engine := jobs.NewSet(), lanes.NewEngine(f.lanes, f.working)
	engine.Handle(set)
	if f.perRow {
		f.handleRowJobs(set)
	}
	runner := must(jobs.NewRunner(f.working, f.clock, f.logger, set))
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { engine.Run(ctx) })
	group.Go(func() {
		if err := runner.Run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	})
	b.later(func() {
		cancel()
		group.Wait()
	})
}

// open starts over with empty lanes, each organization with as many.
func (f *fixture) open(ctx context.Context, organizations, each int) []place {
	must(f.adding.Pool().Exec(ctx, `TRUNCATE lanes, lane_rows, lane_keys, lane_faults, `+jobs.Table))
	places := make([]place, organizations*each)
	check(times(fillClients, organizations, func(i int) error { return f.openOrg(ctx, places[i*each:(i+1)*each]) }))
	return places
}

// openOrg makes an organization and its lanes.
func (f *fixture) openOrg(ctx context.Context, places []place) error {
	org := ids.NewOrg(f.clock.Now())
	_, err := postgres.InFirstTx(ctx, f.adding, org, func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(ctx, `
			INSERT INTO organizations (org_id, name, plan, subscription_status, updated_at)
			VALUES (@org_id, 'Bench', 'platform', 'active', @now)`, postgres.Args{"now": f.clock.Now()})
	})
	if err != nil {
		return err
	}
	return f.in(ctx, org, func(tx *postgres.Tx) error {
		for i := range places {
			places[i] = place{org: org, lane: newRow().ID}
			if err := f.lanes.OpenTx(ctx, tx, laneKind, places[i].lane); err != nil {
				return err
			}
		}
		return nil
	})
}

func newRow() lanes.Row { return lanes.Row{ID: ids.NewOrg(time.Now()).Any()} }

func (f *fixture) in(ctx context.Context, org ids.Org, verb func(tx *postgres.Tx) error) error {
	_, err := postgres.InTx(ctx, f.adding, org, func(tx *postgres.Tx) (struct{}, error) { return struct{}{}, verb(tx) })
	return err
}

// adder adds rows to a lane: addRows has the lane work them, addJobs one job each.
type adder func(ctx context.Context, tx *postgres.Tx, lane ids.Any, rows ...lanes.Row) error

func (f *fixture) addRows(ctx context.Context, tx *postgres.Tx, lane ids.Any, rows ...lanes.Row) error {
	return f.lanes.AddTx(ctx, tx, laneKind, lane, rows...)
}

// fill adds rows by transactions of many.
func (f *fixture) fill(ctx context.Context, add adder, to place, count int) error {
	return f.fillWith(ctx, add, to, count, newRow)
}

func (f *fixture) fillWith(ctx context.Context, add adder, to place, count int, row func() lanes.Row) error {
	for count > 0 {
		rows := make([]lanes.Row, min(count, fillAtOnce))
		for i := range rows {
			rows[i] = row()
		}
		count -= len(rows)
		if err := f.in(ctx, to.org, func(tx *postgres.Tx) error { return add(ctx, tx, to.lane, rows...) }); err != nil {
			return err
		}
	}
	return nil
}

// analyze tells the planner what the tables hold: a scratch database is too young for autovacuum.
func (f *fixture) analyze(ctx context.Context) {
	must(f.adding.Pool().Exec(ctx, `ANALYZE lanes, lane_rows, lane_keys, `+jobs.Table))
}
