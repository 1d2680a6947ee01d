package postgres_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/schema"
)

const (
	sqlOrgName    = `SELECT name FROM organizations WHERE org_id = @org_id`
	sqlLabelNames = `SELECT name FROM labels WHERE org_id = @org_id AND name LIKE @like ORDER BY id`
	sqlNoLabel    = `SELECT name FROM labels WHERE org_id = @org_id AND name = ''`
)

func TestBatch_ScopeAndTx_OneRoundTrip(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	org, _ := w.Org(t)
	label, other := w.Label(t, org), w.Label(t, org)
	var trips atomic.Int64
	ctx := pgtest.CountTrips(t.Context(), &trips)
	for range 2 { // the first prepares the statements
		trips.Store(0)
		var name string
		var names, none []string
		require.NoError(t, postgres.Batch(ctx, w.DB.Of(org), postgres.IntoOne(&name, sqlOrgName, nil),
			postgres.IntoMany(&names, sqlLabelNames, postgres.Args{"like": "%"}), postgres.IntoMany(&none, sqlNoLabel, nil)))
		require.Contains(t, name, "Organization")
		require.Equal(t, []string{label.Name, other.Name}, names)
		require.Equal(t, []string{}, none)
	}
	require.EqualValues(t, 1, trips.Load())

	for range 2 {
		trips.Store(0)
		names, err := postgres.InTx(ctx, w.DB, org, func(tx *postgres.Tx) (names []string, err error) {
			if err := rename(ctx, tx, "own"); err != nil {
				return nil, err
			}
			var name string
			err = postgres.Batch(ctx, tx, postgres.IntoOne(&name, sqlOrgName, nil),
				postgres.IntoMany(&names, sqlLabelNames, postgres.Args{"like": label.Name}))
			require.Equal(t, "own", name, "what the transaction wrote")
			return names, err
		})
		require.NoError(t, err)
		require.Equal(t, []string{label.Name}, names)
	}
	require.EqualValues(t, 4, trips.Load(), "begin, update, batch, commit")
}

func TestBatch_MissingRowAndFailure_Returned(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	org, _ := w.Org(t)
	label := w.Label(t, org)
	var one string
	var names []string
	missing := func() error {
		return postgres.Batch(t.Context(), w.DB.Of(org), postgres.IntoOne(&one, sqlNoLabel, nil),
			postgres.IntoMany(&names, sqlLabelNames, postgres.Args{"like": "%"}))
	}
	require.ErrorIs(t, missing(), postgres.ErrNoRow)
	require.Equal(t, []string{label.Name}, names, "the statements after a missing row run")

	names = nil
	require.ErrorContains(t, postgres.Batch(t.Context(), w.DB.Of(org),
		postgres.IntoOne(&one, `SELECT (1 / (name = '')::int)::text FROM organizations WHERE org_id = @org_id`, nil),
		postgres.IntoMany(&names, sqlLabelNames, postgres.Args{"like": "%"})), "division by zero")
	require.Nil(t, names, "the statements after a failure do not run")
	require.ErrorContains(t, postgres.Batch(t.Context(), w.DB.Of(org), postgres.IntoMany(&names, sqlLabelNames, nil)), "@like")
	require.ErrorIs(t, missing(), postgres.ErrNoRow, "the connection can be used after a failure")

	_, err := postgres.InTx(t.Context(), w.DB, org, func(tx *postgres.Tx) (int, error) {
		err := postgres.Batch(t.Context(), tx, postgres.IntoOne(&one, sqlNoLabel, nil))
		require.ErrorIs(t, err, postgres.ErrNoRow)
		return 0, rename(t.Context(), tx, "after")
	})
	require.NoError(t, err)
	require.Equal(t, "after", nameOf(t, w.DB, org), "a missing row does not end the transaction")
}

// A statement sees what was committed while the statement before it waited for a lock.
func TestBatch_StatementAfterALock_SeesWhatTheHolderCommitted(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	org, _ := w.Org(t)
	ctx := t.Context()
	const lock = "-- locks: contact_keys by hash\nSELECT true FROM pg_advisory_xact_lock(7)"
	var held, waiting sync.WaitGroup
	held.Add(1)
	waiting.Go(func() {
		held.Wait()
		var locked bool
		var name string
		_, err := postgres.InTx(ctx, w.DB, org, func(tx *postgres.Tx) (int, error) {
			return 0, postgres.Batch(ctx, tx, postgres.IntoOne(&locked, lock, nil), postgres.IntoOne(&name, sqlOrgName, nil))
		})
		if err != nil || name != "by the holder" {
			t.Errorf("the second statement read %q: %v", name, err)
		}
	})
	_, err := postgres.InTx(ctx, w.DB, org, func(tx *postgres.Tx) (int, error) {
		if err := rename(ctx, tx, "by the holder"); err != nil {
			return 0, err
		}
		_, err := postgres.One[bool](ctx, tx, `SELECT true FROM pg_advisory_xact_lock(7)`, nil)
		held.Done()
		require.Eventually(t, func() bool {
			count, err := postgres.One[int](ctx, w.DB.System("test"), `
SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`, nil)
			return err == nil && count > 0
		}, 3*time.Minute, time.Millisecond)
		return 0, err
	})
	require.NoError(t, err)
	waiting.Wait()
}

func TestBatch_Tracers_SeeEachStatement(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	org, _ := factory.On(t, pgtest.Connect(t, url)).Org(t)
	var faults []string
	report := func(fault string) { faults = append(faults, fault) }
	db, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.Patient(t, url), AcquireWait: time.Minute, Tracers: []pgx.QueryTracer{
		postgres.NewTenancy(schema.Tenant(), report), postgres.NewLocks(schema.LockOrder(), report),
	}})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	var name string
	var found []string
	var rows []ids.Any
	require.NoError(t, postgres.Batch(t.Context(), db.Of(org),
		postgres.IntoOne(&name, sqlOrgName, nil), postgres.IntoMany(&found, `SELECT name FROM labels`, nil)))
	require.Len(t, faults, 1)
	require.Contains(t, faults[0], "labels binds no org_id")

	faults = nil
	require.NoError(t, postgres.Batch(t.Context(), db.System("test"), postgres.IntoMany(&found, `SELECT name FROM labels`, nil)))
	require.Empty(t, faults, "a system scope may read all")
	_, err = postgres.InTx(t.Context(), db, org, func(tx *postgres.Tx) (int, error) {
		return 0, postgres.Batch(t.Context(), tx, postgres.IntoMany(&rows, lockContact, nil), postgres.IntoMany(&rows, lockLabel, nil))
	})
	require.NoError(t, err)
	require.Len(t, faults, 1)
	require.Contains(t, faults[0], "locks labels after contacts")
}
