package postgres_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

var errRefused = errors.New("refused")

const sqlRename = `UPDATE organizations SET name = @name WHERE org_id = @org_id`

func rename(ctx context.Context, tx *postgres.Tx, name string) error {
	_, err := tx.Exec(ctx, sqlRename, postgres.Args{"name": name})
	return err
}

func nameOf(t *testing.T, db *postgres.DB, org ids.Org) string {
	t.Helper()
	name, err := postgres.One[string](t.Context(), db.Of(org), `SELECT name FROM organizations WHERE org_id = @org_id`, nil)
	require.NoError(t, err)
	return name
}

func TestInTx_Error_RollsBack(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	org, _ := w.Org(t)
	ctx := t.Context()

	_, err := postgres.InTx(ctx, w.DB, org, func(tx *postgres.Tx) (int, error) {
		require.NoError(t, rename(ctx, tx, "half"))
		return 0, errRefused
	})
	require.ErrorIs(t, err, errRefused)
	require.NotEqual(t, "half", nameOf(t, w.DB, org))

	require.Panics(t, func() {
		_, _ = postgres.InTx(ctx, w.DB, org, func(tx *postgres.Tx) (int, error) {
			require.NoError(t, rename(ctx, tx, "half"))
			panic("boom")
		})
	})
	require.NotEqual(t, "half", nameOf(t, w.DB, org))

	result, err := postgres.InTx(ctx, w.DB, org, func(tx *postgres.Tx) (int, error) { return 7, rename(ctx, tx, "whole") })
	require.NoError(t, err)
	require.Equal(t, 7, result)
	require.Equal(t, "whole", nameOf(t, w.DB, org))
}

type witness struct {
	steps []string
	keep  error
}

func (w *witness) Begin(context.Context, *postgres.Tx) error {
	w.steps = append(w.steps, "begin")
	return nil
}

func (w *witness) Keep(_ context.Context, _ *postgres.Tx, result any) error {
	w.steps = append(w.steps, "keep "+result.(string))
	return w.keep
}

func TestInTx_WitnessAndHooks_RunInOrder(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	org, _ := w.Org(t)
	watch := &witness{}
	ctx := postgres.WithWitness(t.Context(), watch)
	verb := func(tx *postgres.Tx) (string, error) {
		watch.steps = append(watch.steps, "verb")
		tx.BeforeCommit(func(context.Context) error {
			watch.steps = append(watch.steps, "before commit")
			tx.AfterCommit(func() { watch.steps = append(watch.steps, "after commit, added before it") })
			return nil
		})
		tx.AfterCommit(func() { watch.steps = append(watch.steps, "after commit") })
		return "result", rename(ctx, tx, "seen")
	}
	_, err := postgres.InTx(ctx, w.DB, org, verb)
	require.NoError(t, err)
	require.Equal(t, []string{"begin", "verb", "keep result", "before commit", "after commit", "after commit, added before it"}, watch.steps)

	watch.steps, watch.keep = nil, errRefused
	_, err = postgres.InTx(ctx, w.DB, org, func(tx *postgres.Tx) (string, error) { return "result", rename(ctx, tx, "unseen") })
	require.ErrorIs(t, err, errRefused)
	require.Equal(t, "seen", nameOf(t, w.DB, org), "an error of the witness rolls back")
}

func TestInTx_Deadlock_RunsAgain(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	first, _ := w.Org(t)
	ctx := t.Context()
	label, other := w.Label(t, first), w.Label(t, first)
	const lock = `UPDATE labels SET color = 'red' WHERE org_id = @org_id AND id = @id`
	var tries atomic.Int64
	var met sync.WaitGroup
	met.Add(2)
	lockBoth := func(a, b any) error {
		var once sync.Once
		_, err := postgres.InTx(ctx, w.DB, first, func(tx *postgres.Tx) (int, error) {
			tries.Add(1)
			if _, err := tx.Exec(ctx, lock, postgres.Args{"id": a}); err != nil {
				return 0, err
			}
			once.Do(met.Done)
			met.Wait()
			_, err := tx.Exec(ctx, lock, postgres.Args{"id": b})
			return 0, err
		})
		return err
	}
	results := make(chan error, 2)
	go func() { results <- lockBoth(label.ID, other.ID) }()
	go func() { results <- lockBoth(other.ID, label.ID) }()
	require.NoError(t, <-results)
	require.NoError(t, <-results)
	// On a machine that stands still the other one may exceed its lock timeout, and runs again too.
	require.GreaterOrEqual(t, tries.Load(), int64(3), "the victim ran once more")
}

func TestScope_OtherOrganization_NotVisible(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	mine, _ := w.Org(t)
	theirs, _ := w.Org(t)
	label := w.Label(t, theirs)
	const sql = `SELECT name FROM labels WHERE org_id = @org_id AND id = @id`

	_, err := postgres.One[string](t.Context(), w.DB.Of(mine), sql, postgres.Args{"id": label.ID})
	require.ErrorIs(t, err, postgres.ErrNoRow)
	_, err = postgres.One[string](t.Context(), w.DB.Of(mine), sql, postgres.Args{"id": label.ID, "org_id": theirs})
	require.ErrorIs(t, err, postgres.ErrNoRow, "a caller cannot bind another organization")
	_, err = postgres.One[string](t.Context(), w.DB.Of(theirs), sql, postgres.Args{"id": label.ID})
	require.NoError(t, err)
	_, err = postgres.One[string](t.Context(), w.DB.Of(theirs), sql, postgres.Args{})
	require.ErrorContains(t, err, "@id", "a missing argument is named")
}

func TestAcquire_PoolBusy_Unavailable(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.URL(t), MaxConns: 1, AcquireWait: 500 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	ctx := t.Context()
	// On a slow machine the first connection may take longer than the wait too.
	require.Eventually(t, func() bool {
		_, err := postgres.InSystemTx(ctx, db, "hold the only connection", func(*postgres.Tx) (int, error) {
			_, err := postgres.One[int](ctx, db.System("test"), `SELECT 1`, nil)
			require.Equal(t, fault.ServiceUnavailable, fault.Of(err))
			return 0, nil
		})
		return err == nil
	}, 3*time.Minute, time.Millisecond)
}

func TestSteady_ManyCalls_OneGenericPlan(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.URL(t), MaxConns: 1, AcquireWait: time.Minute, Steady: true})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	const asked = `SELECT generic_plans + custom_plans * 1000 FROM pg_prepared_statements WHERE statement LIKE 'SELECT $1::int%'`
	for i := range 3 {
		_, err := postgres.One[int](t.Context(), db.System("test"), `SELECT @n::int`, postgres.Args{"n": i})
		require.NoError(t, err)
	}
	plans, err := postgres.One[int](t.Context(), db.System("test"), asked, nil)
	require.NoError(t, err)
	require.Equal(t, 3, plans, "all calls used the generic plan")
	plan, err := postgres.Many[string](t.Context(), db.System("test"), `EXPLAIN SELECT FROM pg_am WHERE oid = 1`, nil)
	require.NoError(t, err)
	require.Contains(t, plan[0], "Index", "a table that is small now may not stay so")
}

func TestCancel_Statement_ConnectionIsKept(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	pid := func() int {
		pid, err := postgres.One[int](t.Context(), db.System("test"), `SELECT pg_backend_pid()`, nil)
		require.NoError(t, err)
		return pid
	}
	// The server has a second to cancel the statement. On a slow machine that may fail once.
	require.Eventually(t, func() bool {
		before := pid()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := postgres.One[int](ctx, db.System("test"), `SELECT 1 FROM pg_sleep(300)`, nil)
		return err != nil && before == pid()
	}, 3*time.Minute, time.Millisecond, "the statement is cancelled, the connection not lost")
}

func TestClassify_DemotedPrimary_ConnectionsReplaced(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	write := func(sql string) error {
		_, err := postgres.InSystemTx(t.Context(), db, "test", func(tx *postgres.Tx) (int64, error) { return tx.Exec(t.Context(), sql, nil) })
		return err
	}
	// A demoted primary refuses the writes of its open sessions in this way.
	require.NoError(t, write(`SET default_transaction_read_only = on`))
	require.NoError(t, write(`UPDATE plans SET customers = customers`), "refused once, then repeated on a fresh connection")
	readOnly, err := postgres.One[string](t.Context(), db.System("test"), `SHOW default_transaction_read_only`, nil)
	require.NoError(t, err)
	require.Equal(t, "off", readOnly)
}

func TestAfterCommit_OneConnection_HookCanUseIt(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.URL(t), MaxConns: 1, AcquireWait: time.Minute})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	ran := false
	_, err = postgres.InSystemTx(t.Context(), db, "test", func(tx *postgres.Tx) (int, error) {
		tx.AfterCommit(func() { ran = db.Ping(t.Context()) == nil })
		return 0, nil
	})
	require.NoError(t, err)
	require.True(t, ran)

	ran = false
	_, err = postgres.InSystemTx(t.Context(), db, "test", func(tx *postgres.Tx) (int, error) {
		tx.AfterCommit(func() { ran = true })
		return 0, errRefused
	})
	require.ErrorIs(t, err, errRefused)
	require.False(t, ran, "nothing happens after a rollback")
}

func TestWitness_SystemTransaction_NotCalled(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	org, _ := w.Org(t)
	watch := &witness{}
	ctx := postgres.WithWitness(t.Context(), watch)
	_, err := postgres.InSystemTx(ctx, w.DB, "test", func(*postgres.Tx) (string, error) { return "system", nil })
	require.NoError(t, err)
	_, err = postgres.InTx(postgres.Apart(ctx), w.DB, org, func(*postgres.Tx) (string, error) { return "apart", nil })
	require.NoError(t, err)
	require.Empty(t, watch.steps)
	_, err = postgres.InTx(ctx, w.DB, ids.Org{}, func(*postgres.Tx) (string, error) { return "nobody", nil })
	require.ErrorContains(t, err, "without an organization")
}

func TestLast_SentWithTheCommit_FailureRollsBack(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	org, _ := w.Org(t)
	ctx := t.Context()
	const sqlName = `SELECT name FROM organizations WHERE org_id = @org_id`
	read := func(into *string) func(pgx.Rows) error {
		return func(rows pgx.Rows) (err error) {
			*into, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[string])
			return err
		}
	}

	var last string
	var committed bool
	_, err := postgres.InTx(ctx, w.DB, org, func(tx *postgres.Tx) (int, error) {
		tx.AfterCommit(func() { committed = true })
		tx.Last(sqlName, nil, read(&last))
		return 0, rename(ctx, tx, "first")
	})
	require.NoError(t, err)
	require.True(t, committed)
	require.Equal(t, "first", last, "it runs after all others")
	require.Equal(t, "first", nameOf(t, w.DB, org))

	committed = false
	_, err = postgres.InTx(ctx, w.DB, org, func(tx *postgres.Tx) (int, error) {
		tx.AfterCommit(func() { committed = true })
		tx.Last(`SELECT 1 / (name <> 'second')::int FROM organizations WHERE org_id = @org_id`, nil, read(&last))
		return 0, rename(ctx, tx, "second")
	})
	require.ErrorContains(t, err, "division by zero")
	require.NotErrorIs(t, err, postgres.ErrUnanswered)
	require.False(t, committed)
	require.Equal(t, "first", nameOf(t, w.DB, org), "its failure rolls all back")
}
