package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

const oldEvents = "events_p20260302"

func exists(t *testing.T, db *postgres.DB, table string) bool {
	t.Helper()
	found, err := postgres.One[bool](t.Context(), db.System("test"), `SELECT to_regclass(@table) IS NOT NULL`, postgres.Args{"table": table})
	require.NoError(t, err)
	return found
}

// A transaction that has read the table delays the drop and nobody else: the drop gives up, and a later one ends it.
func TestDropPartition_InUse_GivesUpAndIsEndedLater(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db, ctx := pgtest.Connect(t, url), t.Context()
	require.True(t, exists(t, db, oldEvents))
	reader, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { _ = reader.Close(ctx) }()
	_, err = reader.Exec(ctx, `BEGIN; SELECT count(*) FROM events`)
	require.NoError(t, err)

	for range 2 { // the second finds the partition half detached
		require.Error(t, db.DropPartition(ctx, "events", oldEvents))
	}
	watch := clock.StartWatch()
	_, err = postgres.One[int](ctx, db.System("test"), `SELECT count(*) FROM events`, nil)
	require.NoError(t, err, "others read meanwhile, %s", watch.Elapsed())
	timeout, err := postgres.One[string](ctx, db.System("test"), `SHOW lock_timeout`, nil)
	require.NoError(t, err)
	require.Equal(t, "3min", timeout, "the connection has its settings again")

	_, err = reader.Exec(ctx, `COMMIT`)
	require.NoError(t, err)
	require.NoError(t, db.DropPartition(ctx, "events", oldEvents))
	require.False(t, exists(t, db, oldEvents))
	require.NoError(t, db.DropPartition(ctx, "events", oldEvents), "once more")
}

// A process that died after it had detached a partition leaves a table, which is dropped in its time.
func TestExpiry_DetachedAndNotDropped_IsDropped(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db, ctx := pgtest.Connect(t, url), t.Context()
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, `ALTER TABLE events DETACH PARTITION `+oldEvents)
	require.NoError(t, err)
	events := []postgres.Partitioned{{Table: "events", Every: postgres.Weekly, Keep: 30 * day}}
	end := time.Date(2026, 3, 9, 0, 0, 0, 0, time.UTC)
	dropped, err := postgres.NewExpiry(db, events).Round(ctx, end.Add(30*day), 0)
	require.NoError(t, err)
	require.Equal(t, []string{oldEvents}, dropped)
	require.False(t, exists(t, db, oldEvents))
}

// While another process changes the schema, nothing is dropped.
func TestDropPartition_SchemaIsBeingChanged_Busy(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db, ctx := pgtest.Connect(t, url), t.Context()
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, `SELECT pg_advisory_lock(hashtext('parley ddl'))`)
	require.NoError(t, err)
	require.ErrorIs(t, db.DropPartition(ctx, "events", oldEvents), postgres.ErrBusy)
	require.True(t, exists(t, db, oldEvents))
}
