package schema_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/schema"
)

// docs/conformance.md lists the rules that these tests prove.

func TestConformance_Partitioned_Periods(t *testing.T) {
	t.Parallel()
	tables := map[string]postgres.Partitioned{}
	for _, one := range schema.Partitioned() {
		tables[one.Table] = one
	}
	for table, want := range map[string]struct {
		days  int
		every postgres.Period
	}{
		"events": {30, postgres.Weekly}, "webhook_deliveries": {30, postgres.Weekly}, "webhook_attempts": {30, postgres.Weekly},
		"api_log": {30, postgres.Daily}, "callbacks": {7, postgres.Daily}, "callback_items": {30, postgres.Weekly},
		"audit_log": {400, postgres.Monthly}, "idempotency_keys": {1, postgres.Daily},
	} {
		require.Equal(t, time.Duration(want.days)*24*time.Hour, tables[table].Keep, table)
		require.Equal(t, want.every, tables[table].Every, table)
	}
	require.Equal(t, postgres.Monthly, tables["messages"].Every)
}

func TestConformance_Partitioned_NoForeignKeys(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), pgtest.URL(t))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	var keys int
	require.NoError(t, conn.QueryRow(t.Context(), `
SELECT count(*)
FROM pg_constraint k
JOIN pg_class c ON c.oid = k.confrelid
WHERE k.contype = 'f' AND (c.relkind = 'p' OR c.relispartition)`).Scan(&keys))
	require.Zero(t, keys)
}
