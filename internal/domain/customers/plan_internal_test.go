package customers

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

// Many customers of one organization, and a few of another, whose names start with letters that no
// customer of the first has.
const sqlFill = `
WITH people AS (
    INSERT INTO organizations (org_id, name, plan, subscription_status, stop_keywords, updated_at)
    VALUES (@here, 'Here', 'platform', 'active', '{}', @now), (@there, 'There', 'platform', 'active', '{}', @now)
), team AS (
    INSERT INTO teams (org_id, id, name) VALUES (@here, @here, 'Here'), (@there, @there, 'There')
)
INSERT INTO customers (org_id, id, team_id, name, name_key, email, email_key, status, updated_at)
SELECT @here::uuid, gen_random_uuid(), @here, md5(n::text), md5(n::text), 'mail' || n, 'mail' || n, 'pending', @now
FROM generate_series(1, 10000) AS n
UNION ALL
SELECT @there, gen_random_uuid(), @there, 'zeta' || n, 'zeta' || n, 'zeta' || n, 'zeta' || n, 'pending', @now
FROM generate_series(1, 500) AS n`

// The test checks the plan of each filter: a filter that few customers match uses its index and
// does not read all customers of the organization.
func TestListCustomers_Plans_UseTheIndexOfTheFilter(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.Open(t), t.Context()
	here, there := ids.NewOrg(pgtest.Start()), ids.NewOrg(pgtest.Start())
	_, err := postgres.InSystemTx(ctx, db, "test", func(tx *postgres.Tx) (int64, error) {
		if _, err := tx.Exec(ctx, sqlFill, postgres.Args{"here": here, "there": there, "now": pgtest.Start()}); err != nil {
			return 0, err
		}
		return tx.Exec(ctx, `ANALYZE customers`, nil)
	})
	require.NoError(t, err)
	for name, test := range map[string]struct {
		filter Filter
		uses   []string
	}{
		"all":           {Filter{}, []string{"customers_pkey"}},
		"email":         {Filter{Email: "mail1"}, []string{"customers_email"}},
		"email, status": {Filter{Email: "mail1", Status: Active}, []string{"customers_email"}},
		"q":             {Filter{Q: "zeta"}, []string{"customers_name", "customers_email", "customers_pkey"}},
		"q, status":     {Filter{Q: "zeta", Status: Active}, []string{"customers_name", "customers_email", "customers_pkey"}},
		"q, email":      {Filter{Q: "zeta", Email: "mail1"}, []string{"customers_email", "customers_pkey"}},
	} {
		lines, err := postgres.Many[string](ctx, db.Of(here), `EXPLAIN (COSTS OFF) `+sqlOf(test.filter), postgres.Args{
			"after": ids.Ceiling[kind](), "limit": 26, "read": paging.MaxRead, "status": test.filter.Status, "email_key": test.filter.Email, "q": "zeta", "q_end": "zetb",
		})
		require.NoError(t, err)
		plan := strings.Join(lines, "\n")
		require.NotContains(t, plan, "Seq Scan", "%s:\n%s", name, plan)
		for _, index := range test.uses {
			require.Contains(t, plan, index, "%s:\n%s", name, plan)
		}
		if test.filter.Q != "" {
			require.Contains(t, plan, "(id = matching.id)", "%s: rows are fetched one by one\n%s", name, plan)
		}
	}
}
