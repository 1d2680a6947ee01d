package pgtest

import (
	"context"
	"fmt"
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// An index condition on the organization alone.
var wholeOrganization = regexp.MustCompile(`Index Cond: \(org_id = \$\d+\)\n`)

// RequireByKey checks that statements find each row by a whole key, whatever the planner expects: in a new database
// without statistics, and where the statistics say that an organization has one row. A prepared statement keeps such
// a plan while the table grows; one that knows the organization alone would read all rows of the largest.
func RequireByKey(t testing.TB, table, another string, statements map[string]string) {
	t.Helper()
	url := URL(t)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) })
	check := func(state string) {
		for name, sql := range statements {
			plan := Plan(t, url, sql)
			require.NotRegexp(t, wholeOrganization, plan+"\n", "%s, %s:\n%s", name, state, plan)
			require.NotContains(t, plan, fmt.Sprintf("Seq Scan on %s ", table), "%s, %s:\n%s", name, state, plan)
		}
	}
	check("no statistics")
	for _, statement := range []string{`SET session_replication_role = replica`, another, `ANALYZE`} { // without foreign keys
		_, err := conn.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	check("one row in each organization")
}
