package lanes_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

// The ways in which a row can be poison, and the class and reason of each in the end.
const (
	panics  = "panic"
	faults  = "call"
	refuses = "settle"
)

var (
	errPoison = errors.New("poison")

	reasons = map[string]string{panics: "panic: poison", faults: "poison", refuses: "cannot settle: poison"}
)

// batch is one run over lanes, some of whose rows may be poison.
type batch struct {
	*site

	poison map[ids.Any]string
	cured  atomic.Bool
	calls  atomic.Int64
}

func newBatch(t *testing.T, healthy int, poison ...string) *batch {
	t.Helper()
	b := &batch{poison: map[ids.Any]string{}}
	b.site = newSite(t, pgtest.URL(t), b.kind(), 20)
	b.add(t, healthy+len(poison))
	for i, at := range rand.Perm(len(b.rows))[:len(poison)] {
		b.poison[b.rows[at]] = poison[i]
	}
	return b
}

func (b *batch) kind() callKind {
	return callKind{Name: "poisoned", Workers: 20, Least: 4, Most: 16, Open: func(context.Context, lanes.Lane) (callWork, error) {
		return callWork{Call: b.call, Settle: b.settle}, nil
	}}
}

func (b *batch) is(row lanes.Row, how string) bool { return b.poison[row.ID] == how && !b.cured.Load() }

func (b *batch) call(_ context.Context, row lanes.Row, _ string) callAnswer {
	b.calls.Add(1)
	time.Sleep(between(5*time.Millisecond, 15*time.Millisecond))
	switch {
	case b.is(row, panics):
		panic(errPoison)
	case b.is(row, faults):
		return callAnswer{Fault: errPoison}
	}
	return callAnswer{}
}

func (b *batch) settle(ctx context.Context, tx *postgres.Tx, done *callBatch) error {
	for _, one := range done.Results {
		if b.is(one.Row, refuses) {
			return fmt.Errorf("cannot settle: %w", errPoison)
		}
	}
	return settleTx(ctx, tx, "here", done)
}

// work drains the lanes in this process until it is stopped.
func (b *batch) work(t *testing.T) (stop func()) {
	t.Helper()
	return runEngine(t, b.db, b.known, b.clock, slog.New(slog.DiscardHandler))
}

// runEngine drains lanes in this process until the test ends or stop is called.
func runEngine(t *testing.T, db *postgres.DB, known *lanes.Lanes, now clock.Clock, logger *slog.Logger) (stop func()) {
	t.Helper()
	engine, set := lanes.NewEngine(known, db), jobs.NewSet()
	engine.Handle(set)
	runner, err := jobs.NewRunner(db, now, logger, set)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var group sync.WaitGroup
	group.Go(func() { engine.Run(ctx) })
	group.Go(func() { _ = runner.Run(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		group.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// measure drains the lanes and returns how long that took for the healthy rows.
func (b *batch) measure(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	stop := b.work(t)
	defer stop()
	b.awaitProgress(t, len(b.rows)-len(b.poison), settledWithin())
	last, err := postgres.One[time.Time](t.Context(), b.db.System("test"), `SELECT max(at) FROM settled`, nil)
	require.NoError(t, err)
	return last.Sub(began)
}

// TestProcess_PoisonRows has ten rows that nobody can do among thousands: they cost the
// others little, end aside with their reason, and come back when they are asked to.
func TestProcess_PoisonRows(t *testing.T) {
	t.Parallel()
	healthy := sized(2_000, 10_000)
	poison := slices.Concat(slices.Repeat([]string{panics}, 4), slices.Repeat([]string{faults}, 3), slices.Repeat([]string{refuses}, 3))
	var clean, poisoned []float64
	var last *batch
	for range sized(1, 3) {
		if full() {
			clean = append(clean, newBatch(t, healthy).measure(t).Seconds())
		}
		last = newBatch(t, healthy-len(poison), poison...)
		poisoned = append(poisoned, last.measure(t).Seconds())
	}
	if full() {
		slices.Sort(clean)
		slices.Sort(poisoned)
		slowed := poisoned[1] / clean[1]
		t.Logf("%d rows: %.2f s without poison %.2f, %.2f s with %d poison rows %.2f, ratio %.2f",
			healthy, clean[1], clean, poisoned[1], len(poison), poisoned, slowed)
		defer require.LessOrEqual(t, slowed, 1.2)
	}
	last.faulted(t)
	if full() { // the third fault comes 25 s after the first
		last.setAside(t)
	}
}

// faulted finds every poison row among the faults, waiting for its retry or aside.
func (b *batch) faulted(t *testing.T) {
	t.Helper()
	type known struct {
		ID    ids.Any
		Class string
	}
	b.work(t)
	require.Eventually(t, func() bool {
		found, err := postgres.Many[known](t.Context(), b.db.System("test"), `SELECT id, class FROM lane_faults`, nil)
		require.NoError(t, err)
		for _, one := range found {
			require.Equal(t, b.poison[one.ID], one.Class)
		}
		return len(found) == len(b.poison)
	}, settledWithin(), 100*time.Millisecond)
	require.Equal(t, len(b.poison), b.standing(t).Waiting)
}

// setAside waits until every poison row is aside with its reason, and brings one back.
func (b *batch) setAside(t *testing.T) {
	t.Helper()
	began := time.Now()
	var aside []lanes.AsideRow
	require.Eventually(t, func() bool {
		var err error
		aside, err = b.known.Aside(t.Context(), 100)
		require.NoError(t, err)
		return len(aside) == len(b.poison)
	}, settledWithin(), 100*time.Millisecond)
	require.Zero(t, b.standing(t).Waiting)
	for _, one := range aside {
		require.Equal(t, b.poison[one.ID], one.Class)
		require.Equal(t, reasons[one.Class], one.Reason)
		require.Equal(t, "poisoned", one.Kind)
	}
	t.Logf("%d rows aside after %.0f s, each with its reason; %d calls for %d rows", len(aside), time.Since(began).Seconds(), b.calls.Load(), len(b.rows))

	b.cured.Store(true)
	healthy := len(b.rows) - len(b.poison)
	_, err := b.known.Retry(t.Context(), aside[0].ID)
	require.NoError(t, err)
	b.awaitProgress(t, healthy+1, settledWithin())
	results := b.results(t)
	require.Len(t, results, healthy+1)
	require.Equal(t, 1, results[aside[0].ID].Times)
	left, err := b.known.Aside(t.Context(), 100)
	require.NoError(t, err)
	require.Len(t, left, len(b.poison)-1)
	for row, result := range results {
		require.Equal(t, 1, result.Times, row)
	}
}
