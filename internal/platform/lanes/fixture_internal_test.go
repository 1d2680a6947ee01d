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

// The tests use kinds whose tasks and values are text.
type (
	testKind   = Kind[string, string]
	testWork   = Work[string, string]
	testTask   = Task[string, string]
	testAnswer = Answer[string]
	testResult = Result[string, string]
	testBatch  = Batch[string, string]
)

// calling makes the Call of a kind that needs no task.
func calling(call func(ctx context.Context, row Row) testAnswer) func(context.Context, Row, string) testAnswer {
	return func(ctx context.Context, row Row, _ string) testAnswer { return call(ctx, row) }
}

func rowsOf(tasks []*testTask) (rows []Row) {
	for _, task := range tasks {
		rows = append(rows, task.Row)
	}
	return rows
}

// fixture is a database with lanes of a kind that a test brings.
type fixture struct {
	db    *postgres.DB
	clock clock.Clock
	queue *jobs.Queue
	lanes *Lanes
	org   ids.Org
}

func newFixture(t testing.TB, now clock.Clock, kinds ...testKind) *fixture {
	t.Helper()
	return fixtureOn(t, pgtest.Open(t), now, kinds...)
}

func fixtureOn(t testing.TB, db *postgres.DB, now clock.Clock, kinds ...testKind) *fixture {
	t.Helper()
	queue, err := jobs.NewQueue(db, now, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	f := &fixture{db: db, clock: now, queue: queue, lanes: New(db, queue, now, slog.New(slog.NewTextHandler(t.Output(), nil)))}
	for _, kind := range kinds {
		Register(f.lanes, kind)
	}
	f.org = f.newOrg(t)
	return f
}

func (f *fixture) newOrg(t testing.TB) ids.Org {
	t.Helper()
	org := ids.NewOrg(f.clock.Now())
	_, err := postgres.InFirstTx(t.Context(), f.db, org, func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(t.Context(), `INSERT INTO organizations (org_id, name, plan, subscription_status, updated_at)
VALUES (@org_id, 'test', 'platform', 'active', @now)`, postgres.Args{"now": f.clock.Now()})
	})
	require.NoError(t, err)
	return org
}

func newID() ids.Any { return ids.NewOrg(time.Now()).Any() }

func (f *fixture) in(t testing.TB, org ids.Org, verb func(tx *postgres.Tx) error) {
	t.Helper()
	_, err := postgres.InTx(t.Context(), f.db, org, func(tx *postgres.Tx) (struct{}, error) { return struct{}{}, verb(tx) })
	require.NoError(t, err)
}

func (f *fixture) open(t testing.TB, kind string) ids.Any {
	t.Helper()
	lane := newID()
	f.in(t, f.org, func(tx *postgres.Tx) error { return f.lanes.OpenTx(t.Context(), tx, kind, lane) })
	return lane
}

func (f *fixture) add(t testing.TB, kind string, lane ids.Any, rows ...Row) {
	t.Helper()
	f.in(t, f.org, func(tx *postgres.Tx) error { return f.lanes.AddTx(t.Context(), tx, kind, lane, rows...) })
}

func rows(n int) []Row {
	many := make([]Row, n)
	for i := range many {
		many[i] = Row{ID: newID()}
	}
	return many
}

// work runs an engine with River beside it until the test ends or stop is called.
func (f *fixture) work(t testing.TB) (engine *Engine, stop func()) {
	t.Helper()
	return f.run(t, NewEngine(f.lanes, f.db))
}

func (f *fixture) run(t testing.TB, engine *Engine) (_ *Engine, stop func()) {
	t.Helper()
	set := jobs.NewSet()
	engine.Handle(set)
	runner, err := jobs.NewRunner(f.db, f.clock, slog.New(slog.NewTextHandler(t.Output(), nil)), set)
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

func (f *fixture) waiting(t testing.TB) int {
	t.Helper()
	count, err := postgres.One[int](t.Context(), f.db.System("test"), `SELECT count(*) FROM lane_rows`, nil)
	require.NoError(t, err)
	return count
}

func (f *fixture) idle(t testing.TB) bool {
	t.Helper()
	count, err := postgres.One[int](t.Context(), f.db.System("test"), `SELECT count(*) FROM lanes WHERE armed`, nil)
	require.NoError(t, err)
	return count == 0 && f.waiting(t) == 0
}

// callLog remembers which rows were called, in order.
type callLog struct {
	mu    sync.Mutex
	done  []ids.Any
	texts []string
}

func (l *callLog) recordText(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.texts = append(l.texts, text)
}

func (l *callLog) record(id ids.Any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = append(l.done, id)
}

func (l *callLog) all() []ids.Any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]ids.Any(nil), l.done...)
}

func noted(seen *callLog) testKind {
	return testKind{Name: "noted", Workers: 20, Most: 8, Open: func(context.Context, Lane) (testWork, error) {
		return testWork{Call: calling(func(_ context.Context, row Row) testAnswer {
			seen.record(row.ID)
			return testAnswer{}
		})}, nil
	}}
}

func TestLanes_RowsAreDrained(t *testing.T) {
	t.Parallel()
	seen := &callLog{}
	f := newFixture(t, clock.NewSynced(), noted(seen))
	f.work(t)
	var added []ids.Any
	for range 5 {
		lane := f.open(t, "noted")
		for range 10 {
			many := rows(25)
			f.add(t, "noted", lane, many...)
			for _, row := range many {
				added = append(added, row.ID)
			}
		}
	}
	eventually(t, "all rows", func() bool { return f.idle(t) })
	require.ElementsMatch(t, added, seen.all())
}

// turnOf drains a lane that River woke until its turn ends.
func (e *Engine) turnOf(ctx context.Context, id int64, args wakeArgs) error {
	s, err := e.woken(ctx, id, args)
	if s != nil {
		e.run(s)
		e.underWay.Wait() // the look after the end
	}
	return err
}
