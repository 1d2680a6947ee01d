package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	heldRows   = 100_000
	besideHeld = 100_000
)

const sqlUnparked = `SELECT count(*) FROM lane_rows WHERE due_at <> 'infinity'`

// holding is what the handler knows of the side that is measured: the row that holds its key, and
// how many of the other rows are done.
type holding struct {
	holder ids.Any
	done   counter
}

// call lets the holder wait for its retry, so that the other rows of its key wait behind it.
func (h *holding) call(row ids.Any) (retryAt time.Time) {
	if row == h.holder {
		return time.Now().Add(time.Hour)
	}
	h.done.add()
	return time.Time{}
}

// benchHeld measures what 100,000 rows behind a held key cost the other keys of their lane (held.lane)
// and another lane (held.others): the time that their rows take against the time without those.
func benchHeld(ctx context.Context, b *bench) figures {
	var current atomic.Pointer[holding]
	call := func(_ context.Context, _, row ids.Any) time.Time { return current.Load().call(row) }
	f := newFixture(ctx, b, handler{workers: drainWorkers, call: call})
	drained := func(name string, measured int, troubled bool) side {
		return side{name, func(ctx context.Context, b *bench) sample {
			places, h := f.open(ctx, 2, 1), &holding{}
			current.Store(h)
			if troubled {
				holder := keyed(newRow().ID)
				h.holder = holder.ID
				f.hold(ctx, b, places[0], holder, b.many(heldRows))
			}
			want := b.many(besideHeld)
			check(f.fillWith(ctx, f.addRows, places[measured], want, func() lanes.Row { return keyed(newRow().ID) }))
			must(f.adding.Pool().Exec(ctx, `VACUUM ANALYZE lane_rows`)) // otherwise autovacuum would, at a time of its own
			f.work(b)
			h.done.await(ctx, want)
			return h.done.pace()
		}}
	}
	const lane, laneAlone, others, othersAlone = "lane", "lane alone", "others", "others alone"
	shown := b.inTurn(ctx, "held",
		drained(lane, 0, true), drained(laneAlone, 0, false), drained(others, 1, true), drained(othersAlone, 1, false))
	return figures{"held": figures{"lane": shown.ratio(laneAlone, lane, rate), "others": shown.ratio(othersAlone, others, rate)}}
}

// keyed returns a row with a key.
func keyed(key ids.Any) lanes.Row {
	row := newRow()
	row.Key = key
	return row
}

// hold adds the holder of a key and rows behind it. It works until takes have met and parked them all.
func (f *fixture) hold(ctx context.Context, b *bench, to place, holder lanes.Row, count int) {
	check(f.in(ctx, to.org, func(tx *postgres.Tx) error { return f.addRows(ctx, tx, to.lane, holder) }))
	check(f.fillWith(ctx, f.addRows, to, count, func() lanes.Row { return keyed(holder.Key) }))
	f.analyze(ctx)
	scope(b.options, func(b *bench) struct{} {
		f.work(b)
		for unparked := count; unparked > 1; time.Sleep(10 * time.Millisecond) { // the holder waits for its own retry
			unparked = int(must(postgres.One[int64](ctx, f.adding.System("rows that are not parked"), sqlUnparked, nil)))
		}
		return struct{}{}
	})
}
