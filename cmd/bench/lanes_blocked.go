package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	blockedRows = 100_000
	blockedSpan = 20 * time.Second // two sweeps, four looks of the watchdog
)

// statements counts what a process asks of its database.
type statements struct{ count atomic.Int64 }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.count.Add(1)
	return ctx
}

func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// benchBlocked counts what an idle engine asks, with and without a blocked lane full of
// rows. Both run at the same time: neither takes anything from the other.
func benchBlocked(ctx context.Context, given lanesOptions, figures *lanesFigures) error {
	with, without := &statements{}, &statements{}
	blocked, err := blockedStage(ctx, given.server, with, blockedRows)
	if err != nil {
		return err
	}
	defer blocked.stop()
	idle, err := blockedStage(ctx, given.server, without, 0)
	if err != nil {
		return err
	}
	defer idle.stop()
	before, err := blocked.rowsChanged(ctx)
	if err != nil {
		return err
	}
	for _, s := range []*stage{blocked, idle} {
		stop, err := s.work()
		if err != nil {
			return err
		}
		defer stop()
	}
	extra, err := extraStatements(ctx, given.lasting(blockedSpan), with, without)
	if err != nil {
		return err
	}
	after, err := blocked.rowsChanged(ctx)
	changed := after - before
	figures.Blocked, figures.BlockedRowsUpdated = &extra, &changed
	return err
}

// blockedStage has one lane, and if it has rows it is blocked.
func blockedStage(ctx context.Context, server string, count *statements, rows int) (*stage, error) {
	s, err := newStage(ctx, server, []pgx.QueryTracer{count}, lanes.Kind{
		Name: laneKind, Workers: usualWorkers,
		Open: func(context.Context, lanes.Lane) (lanes.Work, error) { return lanes.Work{}, nil },
	})
	if err != nil {
		return nil, err
	}
	err = func() error {
		places, err := s.open(ctx, laneKind, 1, 1)
		if err != nil || rows == 0 {
			return err
		}
		if err := s.fill(ctx, laneKind, places[0], rows); err != nil {
			return err
		}
		return s.in(ctx, places[0].org, func(tx *postgres.Tx) error {
			return s.lanes.BlockTx(ctx, tx, places[0].lane, s.clock.Now().Add(time.Hour))
		})
	}()
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, s.settleDown(ctx)
}

// extraStatements is how many more a minute one process asks than the other, at the median.
func extraStatements(ctx context.Context, span time.Duration, with, without *statements) (float64, error) {
	time.Sleep(5 * time.Second) // both have begun, and the block was seen
	var extras []float64
	for round := range lanesRounds {
		a, b, started := with.count.Load(), without.count.Load(), time.Now()
		select {
		case <-time.After(span):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		minute := time.Minute.Seconds() / time.Since(started).Seconds()
		ofWith, ofWithout := float64(with.count.Load()-a)*minute, float64(without.count.Load()-b)*minute
		fmt.Fprintf(os.Stdout, "blocked, round %d: ours %.0f statements/min; without the lane %.0f/min\n", round+1, ofWith, ofWithout)
		extras = append(extras, ofWith-ofWithout)
	}
	return rounded(median(extras)), nil
}

const sqlRowsChanged = `SELECT n_tup_upd + n_tup_del FROM pg_stat_user_tables WHERE relname = 'lane_rows'`

// rowsChanged is how many waiting rows were ever changed or taken out.
func (s *stage) rowsChanged(ctx context.Context) (int64, error) {
	time.Sleep(2 * time.Second) // the server writes down its counts a little later
	return postgres.One[int64](ctx, s.adding.System("changes of waiting rows"), sqlRowsChanged, nil)
}
