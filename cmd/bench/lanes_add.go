package main

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	addClients = 16
	addLanes   = 100
	addThreads = 10_000
	laneKind   = "lane"
	perRowKind = "per_row"
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

// benchAdd measures what a row in a busy lane costs the transaction that adds it. Nobody
// drains, so that only adding is seen; the lanes stay armed.
func benchAdd(ctx context.Context, given lanesOptions, figures *lanesFigures) error {
	noOp := func(context.Context, lanes.Lane) (lanes.Work, error) { return lanes.Work{}, nil }
	s, err := newStage(ctx, given.server, nil,
		lanes.Kind{Name: laneKind, Open: noOp}, lanes.Kind{Name: perRowKind, Open: noOp, PerRow: true})
	if err != nil {
		return err
	}
	defer s.stop()
	for statement := range strings.SplitSeq(sqlAddTables, ";") {
		if _, err := s.adding.Pool().Exec(ctx, statement); err != nil {
			return err
		}
	}
	places, err := s.open(ctx, laneKind, 10, addLanes/10)
	if err != nil {
		return err
	}
	for _, to := range places {
		if err := s.fill(ctx, laneKind, to, 1); err != nil {
			return err
		}
	}
	if err := s.settleDown(ctx); err != nil {
		return err
	}
	side := func(name, kind string) leg[pace] {
		return leg[pace]{name, func(ctx context.Context) (pace, error) { return s.addRate(ctx, given.lasting(usualSpan), places, kind) }}
	}
	legs := []leg[pace]{side("bare", ""), side(ours, laneKind), side("river", perRowKind)}
	for _, warm := range legs {
		if _, err := warm.run(ctx); err != nil {
			return err
		}
	}
	shown, err := inTurn(ctx, "add", legs...)
	if err != nil {
		return err
	}
	figures.Add, figures.AddRiver = ratioOf(shown[1], shown[0], perSecond), ratioOf(shown[2], shown[0], perSecond)
	return nil
}

// addRate commits transactions for a while and returns how many a second.
func (s *stage) addRate(ctx context.Context, span time.Duration, places []place, kind string) (pace, error) {
	body := strings.Repeat("b", 300)
	var committed atomic.Int64
	started := time.Now()
	err := clients(addClients, func(int) (bool, error) {
		to := places[rand.IntN(len(places))] //nolint:gosec // only spreads
		err := s.in(ctx, to.org, func(tx *postgres.Tx) error { return s.addOne(ctx, tx, kind, to.lane, body) })
		committed.Add(1)
		return time.Since(started) < span, err
	})
	return pace(float64(committed.Load()) / time.Since(started).Seconds()), err
}

func (s *stage) addOne(ctx context.Context, tx *postgres.Tx, kind string, lane ids.Any, body string) error {
	row := newRow()
	if _, err := tx.Exec(ctx, sqlAddMessage, postgres.Args{"id": row.ID, "body": body}); err != nil {
		return err
	}
	thread := rand.IntN(addThreads) //nolint:gosec // only spreads
	if _, err := tx.Exec(ctx, sqlAddThread, postgres.Args{"id": thread}); err != nil {
		return err
	}
	if kind == "" {
		return nil
	}
	return s.lanes.AddTx(ctx, tx, kind, lane, row)
}
