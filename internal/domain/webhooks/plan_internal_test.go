package webhooks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

// The plan is made once, it may be while the tables are known to be empty, and has to do when
// they are large: each delivery and each event is read by its key.
func TestParcels_AreReadByTheirKeys(t *testing.T) {
	t.Parallel()
	plan := pgtest.Plan(t, pgtest.URL(t), sqlParcels, `SET LOCAL enable_seqscan = off`, `ANALYZE`)
	require.NotContains(t, plan, "Seq Scan on events", plan)
	require.NotContains(t, plan, "Seq Scan on webhook_deliveries", plan)
	require.NotContains(t, plan, "Hash", plan)
	require.Regexp(t, `Index Cond: \(\(org_id = \$\d+\) AND \(id = asked\.id\)\)`, plan)
	require.Regexp(t, `Index Cond: \(\(org_id = \$\d+\) AND \(id = d[_\d]*\.event_id\)\)`, plan)
}
