package webhooks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

// The plan may be made while the statistics say that the tables are empty, and is kept when
// they are large. Each delivery and each event must be read by its key.
func TestOutgoing_ReadByPrimaryKeys(t *testing.T) {
	t.Parallel()
	plan := pgtest.Plan(t, pgtest.URL(t), sqlOutgoing, `SET LOCAL enable_seqscan = off`, `ANALYZE`)
	require.NotContains(t, plan, "Seq Scan on events", plan)
	require.NotContains(t, plan, "Seq Scan on webhook_deliveries", plan)
	require.NotContains(t, plan, "Hash", plan)
	require.Regexp(t, `Index Cond: \(\(org_id = \$\d+\) AND \(id = asked\.id\)\)`, plan)
	require.Regexp(t, `Index Cond: \(\(org_id = \$\d+\) AND \(id = d[_\d]*\.event_id\)\)`, plan)
}

func TestDeliveries_FewExpected_EachIsFoundByItsKey(t *testing.T) {
	t.Parallel()
	pgtest.RequireByKey(t, `
INSERT INTO webhook_deliveries (org_id, id, subscription_id, event_id, event_key, event_type, status)
SELECT gen_random_uuid(), ulid('2026-03-14'), gen_random_uuid(), gen_random_uuid(), n::text, 'message.sent', 'succeeded'
FROM generate_series(1, 10000) AS n`,
		map[string]string{"settle": sqlSettleDeliveries, "kill": sqlKill})
}
