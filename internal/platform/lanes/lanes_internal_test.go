package lanes

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

// world is a database with lanes of a kind that a test brings.
type world struct {
	db    *postgres.DB
	clock clock.Clock
	queue *jobs.Queue
	lanes *Lanes
	org   ids.Org
}

func newWorld(t testing.TB, now clock.Clock, kinds ...Kind) *world {
	t.Helper()
	return worldOn(t, pgtest.Open(t), now, kinds...)
}

func worldOn(t testing.TB, db *postgres.DB, now clock.Clock, kinds ...Kind) *world {
	t.Helper()
	queue, err := jobs.NewQueue(db, now, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	w := &world{db: db, clock: now, queue: queue, lanes: New(db, queue, now, slog.New(slog.NewTextHandler(t.Output(), nil)))}
	for _, kind := range kinds {
		w.lanes.Register(kind)
	}
	w.org = w.newOrg(t)
	return w
}

func (w *world) newOrg(t testing.TB) ids.Org {
	t.Helper()
	org := ids.NewOrg(w.clock.Now())
	_, err := postgres.InFirstTx(t.Context(), w.db, org, func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(t.Context(), `INSERT INTO organizations (org_id, name, plan, subscription_status, updated_at)
VALUES (@org_id, 'test', 'platform', 'active', @now)`, postgres.Args{"now": w.clock.Now()})
	})
	require.NoError(t, err)
	return org
}

func newID() ids.Any { return ids.NewOrg(time.Now()).Any() }

func (w *world) in(t testing.TB, org ids.Org, verb func(tx *postgres.Tx) error) {
	t.Helper()
	_, err := postgres.InTx(t.Context(), w.db, org, func(tx *postgres.Tx) (struct{}, error) { return struct{}{}, verb(tx) })
	require.NoError(t, err)
}

func (w *world) open(t testing.TB, kind string) ids.Any {
	t.Helper()
	lane := newID()
	w.in(t, w.org, func(tx *postgres.Tx) error { return w.lanes.OpenTx(t.Context(), tx, kind, lane) })
	return lane
}

func (w *world) add(t testing.TB, kind string, lane ids.Any, rows ...Row) {
	t.Helper()
	w.in(t, w.org, func(tx *postgres.Tx) error { return w.lanes.AddTx(t.Context(), tx, kind, lane, rows...) })
}

func rows(n int) []Row {
	many := make([]Row, n)
	for i := range many {
		many[i] = Row{ID: newID()}
	}
	return many
}

// work runs an engine with River beside it until the test ends or stop is called.
func (w *world) work(t testing.TB) (engine *Engine, stop func()) {
	t.Helper()
	set := jobs.NewSet()
	engine = NewEngine(w.lanes, w.db)
	engine.Handle(set)
	runner, err := jobs.NewRunner(w.db, w.clock, slog.New(slog.NewTextHandler(t.Output(), nil)), set)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var group sync.WaitGroup
	group.Go(func() { engine.Run(ctx) })
	group.Go(func() { require.NoError(t, runner.Run(ctx)) })
	stop = sync.OnceFunc(func() {
		cancel()
		group.Wait()
	})
	t.Cleanup(stop)
	return engine, stop
}

func (w *world) waiting(t testing.TB) int {
	t.Helper()
	count, err := postgres.One[int](t.Context(), w.db.System("test"), `SELECT count(*) FROM lane_rows`, nil)
	require.NoError(t, err)
	return count
}

func (w *world) idle(t testing.TB) bool {
	t.Helper()
	count, err := postgres.One[int](t.Context(), w.db.System("test"), `SELECT count(*) FROM lanes WHERE armed`, nil)
	require.NoError(t, err)
	return count == 0 && w.waiting(t) == 0
}

// ledger remembers which rows were done, in order.
type ledger struct {
	mu   sync.Mutex
	done []ids.Any
}

func (l *ledger) record(id ids.Any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = append(l.done, id)
}

func (l *ledger) all() []ids.Any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]ids.Any(nil), l.done...)
}

func noted(seen *ledger) Kind {
	return Kind{Name: "noted", Workers: 20, Most: 8, Open: func(context.Context, Lane) (Work, error) {
		return Work{Do: func(_ context.Context, row Row) Result {
			seen.record(row.ID)
			return Result{}
		}}, nil
	}}
}

func TestRowsAreDrained(t *testing.T) {
	t.Parallel()
	seen := &ledger{}
	w := newWorld(t, clock.NewSynced(), noted(seen))
	w.work(t)
	var added []ids.Any
	for range 5 {
		lane := w.open(t, "noted")
		for range 10 {
			many := rows(25)
			w.add(t, "noted", lane, many...)
			for _, row := range many {
				added = append(added, row.ID)
			}
		}
	}
	eventually(t, "all rows", func() bool { return w.idle(t) })
	require.ElementsMatch(t, added, seen.all())
}

// turnOf drains a lane that River woke to the end of its turn.
func (e *Engine) turnOf(ctx context.Context, id int64, args wakeArgs) error {
	d, err := e.woken(ctx, id, args)
	if d != nil {
		e.run(d)
		e.underWay.Wait() // the look after the end
	}
	return err
}
