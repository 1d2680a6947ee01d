package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/schema"
)

func TestPartitions_TimePasses_CreatedAheadAndDropped(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	ctx, tables := t.Context(), schema.Partitioned()
	ahead := func() int {
		count, err := w.DB.PartitionsAhead(ctx, tables, w.Clock.Now())
		require.NoError(t, err)
		return count
	}
	require.Equal(t, 4, ahead())
	require.NoError(t, w.DB.EnsurePartitions(ctx, tables, w.Clock.Now()), "twice is no error")

	w.Clock.Move(3 * 24 * time.Hour)
	require.Equal(t, 1, ahead())
	w.Clock.Move(3 * 24 * time.Hour)
	require.Equal(t, -1, ahead(), "today has no partition")
	require.NoError(t, w.DB.EnsurePartitions(ctx, tables, w.Clock.Now()))
	require.Equal(t, 4, ahead())

	w.Clock.Move(29 * 24 * time.Hour)
	dropped, err := w.DB.DropExpired(ctx, tables, w.Clock.Now())
	require.NoError(t, err)
	require.NotContains(t, dropped, "api_log_p20260320", "a partition that ended less than 30 days ago is kept")
	require.Contains(t, dropped, "api_log_p20260318")
	require.Contains(t, dropped, "idempotency_keys_p20260318")
	require.NotContains(t, dropped, "audit_log_p202602")
}

func TestPartitions_Rows_InThePartitionOfTheirTime(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	org, _ := w.Org(t)
	where := func() []string {
		names, err := postgres.Many[string](t.Context(), w.DB.Of(org),
			`SELECT tableoid::regclass::text FROM audit_log WHERE org_id = @org_id ORDER BY id`, nil)
		require.NoError(t, err)
		return names
	}
	require.Equal(t, []string{"audit_log_p202603"}, where(), "creating an organization is audited")
	w.Clock.Move(time.Date(2026, 3, 31, 23, 59, 59, 999e6, time.UTC).Sub(w.Clock.Now()))
	w.Key(t, org)
	w.Clock.Move(time.Millisecond)
	w.Key(t, org)
	require.Equal(t, []string{"audit_log_p202603", "audit_log_p202603", "audit_log_p202604"}, where())
}

func TestPartitions_TablesWithUpdates_PagesHaveRoom(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	options, err := postgres.Many[string](t.Context(), w.DB.System("test"), `
SELECT relname || ' ' || array_to_string(reloptions, ',')
FROM pg_class
WHERE relname IN ('message_states_p202603', 'webhook_deliveries_p20260309', 'messages_p202603')
ORDER BY relname`, nil)
	require.NoError(t, err)
	require.Equal(t, []string{
		"message_states_p202603 fillfactor=40", "messages_p202603 fillfactor=100", "webhook_deliveries_p20260309 fillfactor=50",
	}, options)
}
