package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-chat/parley/internal/platform/ids"
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

// benchBlocked counts how many more statements a minute an idle process needs with a blocked
// lane full of rows than without (blocked), and the rows that were changed meanwhile
// (blocked_rows_updated). Both processes run at the same time: neither slows the other.
func benchBlocked(ctx context.Context, b *bench) figures {
	const without = "without the lane"
	withLane, withoutLane := &statements{}, &statements{}
	blocked, idle := blockedFixture(ctx, b, withLane, blockedRows), blockedFixture(ctx, b, withoutLane, 0)
	before := blocked.rowsChanged(ctx)
	blocked.work(b)
	idle.work(b)
	time.Sleep(5 * time.Second) // both have begun, and the block was seen
	var perMinute [2]float64
	shown := b.inTurn(ctx, "blocked",
		side{ours, func(ctx context.Context, b *bench) sample {
			counts, started := [2]int64{withLane.count.Load(), withoutLane.count.Load()}, time.Now()
			select {
			case <-time.After(b.lasting(blockedSpan)):
			case <-ctx.Done():
				check(ctx.Err())
			}
			for i, now := range []int64{withLane.count.Load(), withoutLane.count.Load()} {
				perMinute[i] = float64(now-counts[i]) / time.Since(started).Minutes()
			}
			return sample{rate: perMinute[0], unit: " statements/min"}
		}},
		side{without, func(context.Context, *bench) sample { return sample{rate: perMinute[1], unit: " statements/min"} }})
	return figures{
		"blocked":              shown.between(ours, without, func(one, other sample) float64 { return one.rate - other.rate }),
		"blocked_rows_updated": blocked.rowsChanged(ctx) - before,
	}
}

// blockedFixture has one lane, and if it has rows it is blocked.
func blockedFixture(ctx context.Context, b *bench, count *statements, rows int) *fixture {
	f := newFixture(ctx, b, noting(func(ids.Any, time.Time) {}), count)
	to := f.open(ctx, 1, 1)[0]
	if rows > 0 {
		check(f.fill(ctx, f.addRows, to, rows))
		check(f.in(ctx, to.org, func(tx *postgres.Tx) error {
			return f.lanes.BlockTx(ctx, tx, to.lane, f.clock.Now().Add(time.Hour))
		}))
	}
	f.analyze(ctx)
	return f
}

const sqlRowsChanged = `SELECT n_tup_upd + n_tup_del FROM pg_stat_user_tables WHERE relname = 'lane_rows'`

// rowsChanged is how many waiting rows were ever changed or removed.
func (f *fixture) rowsChanged(ctx context.Context) int64 {
	time.Sleep(2 * time.Second) // the server writes its counts a little later
	return must(postgres.One[int64](ctx, f.adding.System("changes of waiting rows"), sqlRowsChanged, nil))
}
