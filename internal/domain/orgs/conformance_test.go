package orgs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/factory"
)

// plan is a row of the table plans. docs/conformance.md lists the rule that this test proves.
type plan struct {
	Name             string
	APIAccess        bool
	Customers        bool
	MessagesPerMonth int64
	RatePerSecond    int
	RateBurst        int
	HistoryDays      int
}

func TestConformance_Plans_AsDecided(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	plans, err := postgres.Many[plan](t.Context(), w.DB.System("test"), `
SELECT name, api_access, customers, messages_per_month, rate_per_second, rate_burst, history_days
FROM plans
WHERE name IN ('free', 'starter', 'growth', 'platform')
ORDER BY rate_per_second`, nil)
	require.NoError(t, err)
	require.Equal(t, []plan{
		{"free", false, false, 100, 5, 10, 7},
		{"starter", true, false, 10_000, 20, 40, 30},
		{"growth", true, false, 250_000, 100, 200, 180},
		{"platform", true, true, 10_000_000, 500, 1_000, 365},
	}, plans)
}
