package pgtest

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

var ofOrganization = regexp.MustCompile(`org_id = [^)]*`)

// Autovacuum analyzes tables in which something was written.
const sqlAnalyze = `
DO $$
DECLARE written regclass;
BEGIN
    FOR written IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND pg_relation_size(oid) > 0 LOOP
        EXECUTE format('ANALYZE %s', written);
    END LOOP;
END $$`

// RequireByKey checks that statements find each row by a whole key, whatever the planner expects: in a new database
// without statistics, and after fill, which inserts one row for each of many organizations. A prepared statement keeps its
// plan while the table grows: one that knows the organization alone, or a range of ids, would read very many rows.
func RequireByKey(t testing.TB, fill string, statements map[string]string) {
	t.Helper()
	url := URL(t)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	for name, sql := range statements {
		requireByKey(t, name+", without statistics", Plan(t, url, sql))
	}
	for _, statement := range []string{`SET session_replication_role = replica`, fill, sqlAnalyze} { // without foreign keys
		_, err := conn.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	for name, sql := range statements {
		requireByKey(t, name+", one row in each organization", Plan(t, url, sql))
	}
}

func requireByKey(t testing.TB, name, plan string) {
	t.Helper()
	require.NotContains(t, plan, "Seq Scan", "%s:\n%s", name, plan)
	lines := strings.Split(plan, "\n")
	for i, line := range lines {
		_, condition, found := strings.Cut(line, "Index Cond: ")
		if !found || strings.Contains(lines[i-1], "on organizations") {
			continue
		}
		require.Contains(t, ofOrganization.ReplaceAllString(condition, ""), " = ", "%s: %s in\n%s", name, condition, plan)
	}
}
