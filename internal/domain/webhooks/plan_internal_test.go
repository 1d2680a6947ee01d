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
