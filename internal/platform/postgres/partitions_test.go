package postgres_test

import (
	"strings"
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
}

const day = 24 * time.Hour

func TestExpiry_Round_DropsTheTwoOldestOfEachTable(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	ctx, tables := t.Context(), schema.Partitioned()
	for range 7 { // the expiry stores a round each time, as the process would
		require.NoError(t, w.DB.EnsurePartitions(ctx, tables, w.Clock.Now()))
		w.Clock.Move(5 * day)
		require.NoError(t, w.DB.StoreRound(ctx, w.Clock.Now()))
	}
	expiry := postgres.NewExpiry(w.DB, tables)
	var all []string
	for round := 0; ; round++ {
		dropped, err := expiry.Round(ctx, w.Clock.Now(), time.Hour)
		require.NoError(t, err)
		perTable := map[string]int{}
		for _, name := range dropped {
			table, _, _ := strings.Cut(name, "_p2")
			perTable[table]++
			require.LessOrEqual(t, perTable[table], 2, dropped)
		}
		if round == 0 {
			require.Equal(t, 2, perTable["idempotency_keys"])
			require.Contains(t, dropped, "idempotency_keys_p20260313", "the oldest first")
		}
		if all = append(all, dropped...); len(dropped) == 0 {
			break
		}
	}
	require.Contains(t, all, "api_log_p20260318")
	require.NotContains(t, all, "api_log_p20260320", "a partition that ended less than 30 days ago is kept")
	require.NotContains(t, all, "audit_log_p202602")
}

func TestExpiry_ClockAhead_DropsNothingUntilConfirmed(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	ctx := t.Context()
	require.NoError(t, w.DB.EnsurePartitions(ctx, schema.Partitioned(), w.Clock.Now()))
	expiry := postgres.NewExpiry(w.DB, schema.Partitioned())
	round := func(uptime time.Duration) ([]string, error) { return expiry.Round(ctx, w.Clock.Now(), uptime) }
	_, err := round(time.Hour)
	require.NoError(t, err, "before the first round nothing is known")

	w.Clock.Move(3 * day)
	for range 3 {
		dropped, err := round(2 * time.Hour)
		require.ErrorIs(t, err, postgres.ErrClockAhead)
		require.Empty(t, dropped)
		require.True(t, expiry.Halted())
	}
	_, err = postgres.NewExpiry(w.DB, schema.Partitioned()).Round(ctx, w.Clock.Now(), 100*day)
	require.ErrorIs(t, err, postgres.ErrClockAhead, "a process that has just started explains nothing")

	w.Clock.Move(-3 * day)
	_, err = round(2 * time.Hour)
	require.NoError(t, err, "the clock was set right")

	w.Clock.Move(3 * day)
	require.NoError(t, w.DB.StoreRound(ctx, w.Clock.Now()))
	dropped, err := round(2 * time.Hour)
	require.NoError(t, err, "an operator confirmed it")
	require.NotEmpty(t, dropped)
	require.False(t, expiry.Halted())

	w.Clock.Move(10 * day)
	_, err = round(2*time.Hour + 10*day)
	require.NoError(t, err, "the process ran all the time, without its database")

	w.Clock.Move(time.Hour)
	_, err = postgres.NewExpiry(w.DB, schema.Partitioned()).Round(ctx, w.Clock.Now(), time.Minute)
	require.NoError(t, err, "a round of another process")
	w.Clock.Move(10 * day)
	_, err = round(2*time.Hour + 20*day)
	require.ErrorIs(t, err, postgres.ErrClockAhead, "since the round of another process this one does not know how much time passed")
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
