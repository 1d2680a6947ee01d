package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// stage is a database with lanes: one pool adds, another works, as in production.
type stage struct {
	database       string
	adding, worked *postgres.DB
	lanes          *lanes.Lanes
	logger         *slog.Logger
	clock          clock.Clock
	undo           []func()
}

// place is a lane and whose it is.
type place struct {
	org  ids.Org
	lane ids.Any
}

const (
	stageConns  = 16
	fillClients = 8
)

// newStage makes a scratch database with the tables of a cell and of River.
func newStage(ctx context.Context, server string, tracers []pgx.QueryTracer, kinds ...lanes.Kind) (*stage, error) {
	database, drop, err := scratchDatabase(ctx, server)
	if err != nil {
		return nil, err
	}
	s, err := openStage(ctx, database, tracers, kinds...)
	if err != nil {
		drop()
		return nil, err
	}
	s.undo = slices.Insert(s.undo, 1, drop)
	if err := s.prepare(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// openStage uses a database as it is.
func openStage(ctx context.Context, database string, tracers []pgx.QueryTracer, kinds ...lanes.Kind) (*stage, error) {
	told := &warnings{count: map[string]int{}}
	logger := slog.New(told)
	s := &stage{database: database, logger: logger, clock: clock.NewSynced(), undo: []func(){told.sum}}
	for _, db := range []**postgres.DB{&s.adding, &s.worked} {
		cells, err := s.cells(ctx, tracers)
		if err != nil {
			s.stop()
			return nil, err
		}
		s.undo = append(s.undo, cells.Close)
		_ = cells.Each(func(cell *app.Cell) error {
			*db = cell.DB
			return nil
		})
	}
	queue, err := jobs.NewQueue(s.adding, s.clock, logger)
	if err != nil {
		s.stop()
		return nil, err
	}
	s.lanes = lanes.New(s.adding, queue, s.clock, logger)
	for _, kind := range kinds {
		s.lanes.Register(kind)
	}
	return s, nil
}

// cells open the database as a process of the product does: its transactions enter their
// organization first, and that is part of what they cost.
func (s *stage) cells(ctx context.Context, tracers []pgx.QueryTracer) (*app.Cells, error) {
	config := app.ReadConfig(map[string]string{
		"PARLEY_DATABASE_URL": s.database, "PARLEY_DIRECTORY_DATABASE_URL": s.database, "PARLEY_MASTER_KEY": app.DevMasterKey(),
	})
	return app.OpenCells(ctx, config, app.CellsConfig{Conns: stageConns, Logger: s.logger, Tracers: tracers})
}

func (s *stage) prepare(ctx context.Context) error {
	for _, setting := range []string{"fsync", "synchronous_commit"} {
		var value string
		if err := s.adding.Pool().QueryRow(ctx, "SHOW "+setting).Scan(&value); err != nil {
			return err
		}
		if value != "on" {
			return fmt.Errorf("%s is %s: figures without durability mean nothing", setting, value)
		}
	}
	cells, err := s.cells(ctx, nil)
	if err != nil {
		return err
	}
	defer cells.Close()
	if err := cells.Migrate(ctx, func(string, int) {}); err != nil {
		return err
	}
	_, err = jobs.Migrate(ctx, s.worked)
	return err
}

// stop undoes what newStage did, the last first.
func (s *stage) stop() {
	for _, undo := range slices.Backward(s.undo) {
		undo()
	}
}

// open starts over with empty lanes: so many organizations, and so many lanes of each.
func (s *stage) open(ctx context.Context, kind string, organizations, each int) ([]place, error) {
	_, err := s.adding.Pool().Exec(ctx, `TRUNCATE lanes, lane_rows, lane_keys, lane_faults, `+jobs.Table)
	if err != nil {
		return nil, err
	}
	places := make([]place, organizations*each)
	var next atomic.Int64
	err = clients(fillClients, func(int) (bool, error) {
		at := int(next.Add(1)) - 1
		if at >= organizations {
			return false, nil
		}
		return true, s.openOrg(ctx, kind, places[at*each:(at+1)*each])
	})
	return places, err
}

// openOrg makes an organization and its lanes.
func (s *stage) openOrg(ctx context.Context, kind string, places []place) error {
	org := ids.NewOrg(s.clock.Now())
	_, err := postgres.InFirstTx(ctx, s.adding, org, func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(ctx, `
			INSERT INTO organizations (org_id, name, plan, subscription_status, updated_at)
			VALUES (@org_id, 'Bench', 'platform', 'active', @now)`, postgres.Args{"now": s.clock.Now()})
	})
	if err != nil {
		return err
	}
	return s.in(ctx, org, func(tx *postgres.Tx) error {
		for i := range places {
			places[i] = place{org: org, lane: newRow().ID}
			if err := s.lanes.OpenTx(ctx, tx, kind, places[i].lane); err != nil {
				return err
			}
		}
		return nil
	})
}

func newRow() lanes.Row { return lanes.Row{ID: ids.NewOrg(time.Now()).Any()} }

func (s *stage) in(ctx context.Context, org ids.Org, verb func(tx *postgres.Tx) error) error {
	_, err := postgres.InTx(ctx, s.adding, org, func(tx *postgres.Tx) (struct{}, error) { return struct{}{}, verb(tx) })
	return err
}

// fillAt is how many rows a transaction adds where only the rows matter.
const fillAt = 1000

// fill has so many rows wait in a lane.
func (s *stage) fill(ctx context.Context, kind string, to place, count int) error {
	for count > 0 {
		rows := make([]lanes.Row, min(count, fillAt))
		for i := range rows {
			rows[i] = newRow()
		}
		count -= len(rows)
		if err := s.in(ctx, to.org, func(tx *postgres.Tx) error { return s.lanes.AddTx(ctx, tx, kind, to.lane, rows...) }); err != nil {
			return err
		}
	}
	return nil
}

// settleDown lets the server know what it holds: a scratch database is too young for autovacuum.
func (s *stage) settleDown(ctx context.Context) error {
	_, err := s.adding.Pool().Exec(ctx, `ANALYZE lanes, lane_rows, lane_keys, `+jobs.Table)
	return err
}

// work drains until it is stopped, as a working process does.
func (s *stage) work() (stop func(), err error) {
	set, engine := jobs.NewSet(), lanes.NewEngine(s.lanes, s.worked)
	engine.Handle(set)
	runner, err := jobs.NewRunner(s.worked, s.clock, s.logger, set)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { engine.Run(ctx) })
	group.Go(func() {
		if err := runner.Run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	})
	return func() {
		cancel()
		group.Wait()
	}, nil
}

// clients run the same verb at once, again and again until it says that it is over, and
// return the first error.
func clients(count int, verb func(client int) (more bool, err error)) error {
	var group sync.WaitGroup
	failures := make([]error, count)
	for client := range count {
		group.Go(func() {
			for more := true; more && failures[client] == nil; {
				more, failures[client] = verb(client)
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}
