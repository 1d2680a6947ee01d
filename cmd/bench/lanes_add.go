package main

import (
	"context"
	"math/rand/v2"
	"strings"

	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	addClients = 16
	addLanes   = 100
	addThreads = 10_000
)

// What a send writes, at its least: a message, and the thread that it belongs to.
const (
	sqlAddTables = `
CREATE TABLE bench_messages (org_id uuid, id uuid, body text NOT NULL, PRIMARY KEY (org_id, id));
CREATE TABLE bench_threads (id int PRIMARY KEY, count bigint NOT NULL) WITH (fillfactor = 50);
INSERT INTO bench_threads SELECT n, 0 FROM generate_series(0, 9999) AS n;
VACUUM ANALYZE bench_threads`
	sqlAddMessage = `INSERT INTO bench_messages (org_id, id, body) VALUES (@org_id, @id, @body)`
	sqlAddThread  = `UPDATE bench_threads SET count = count + 1 WHERE id = @id`
)

// benchAdd measures what a row in a busy lane (add) and a job of its own (add_river) cost the
// transaction that adds it, against the same transaction without. The lanes are armed and
// nothing drains them, so that only adding is measured.
func benchAdd(ctx context.Context, b *bench) figures {
	const bare, river = "bare", "river"
	f := newFixture(ctx, b, handler{})
	for statement := range strings.SplitSeq(sqlAddTables, ";") {
		must(f.adding.Pool().Exec(ctx, statement))
	}
	places := f.open(ctx, 10, addLanes/10)
	for _, to := range places {
		check(f.fill(ctx, f.addRows, to, 1))
	}
	f.analyze(ctx)
	body := strings.Repeat("b", 300)
	adding := func(name string, add adder) side {
		return side{name, func(ctx context.Context, b *bench) sample {
			return during(addClients, b.lasting(usualSpan), func(int) error {
				to := places[rand.IntN(len(places))] //nolint:gosec // only spreads
				return f.in(ctx, to.org, func(tx *postgres.Tx) error { return f.send(ctx, tx, to, body, add) })
			})
		}}
	}
	sides := []side{adding(bare, nil), adding(ours, f.addRows), adding(river, f.addJobs)}
	b.warm(ctx, sides...)
	shown := b.inTurn(ctx, "add", sides...)
	return figures{"add": shown.ratio(ours, bare, rate), "add_river": shown.ratio(river, bare, rate)}
}

func (f *fixture) send(ctx context.Context, tx *postgres.Tx, to place, body string, add adder) error {
	row := newRow()
	if _, err := tx.Exec(ctx, sqlAddMessage, postgres.Args{"id": row.ID, "body": body}); err != nil {
		return err
	}
	thread := rand.IntN(addThreads) //nolint:gosec // only spreads
	if _, err := tx.Exec(ctx, sqlAddThread, postgres.Args{"id": thread}); err != nil || add == nil {
		return err
	}
	return add(ctx, tx, to.lane, row)
}
