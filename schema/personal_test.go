package schema_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/schema"
)

// A column that can hold text is registered before it is used: someone has decided whether it is personal, and how it leaves.
func TestPersonal_EveryTextColumnOfTheDatabase_IsRegistered(t *testing.T) {
	t.Parallel()
	type table struct {
		Name    string
		Columns []string
	}
	found, err := postgres.Many[table](t.Context(), pgtest.Open(t).System("catalogue"), `
		SELECT CASE WHEN c.relnamespace = 'public'::regnamespace THEN '' ELSE c.relnamespace::regnamespace::text || '.' END || c.relname AS name,
		       coalesce(array_agg(a.attname::text ORDER BY a.attname) FILTER (WHERE format_type(a.atttypid, NULL)
		           NOT IN ('uuid', 'boolean', 'smallint', 'integer', 'bigint', 'date', 'timestamp with time zone',
		               'timestamp with time zone[]', 'timestamp without time zone', 'bit', 'river.river_job_state')), '{}') AS columns
		FROM pg_class c
		JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		WHERE c.relnamespace::regnamespace::text IN ('public', 'directory', 'river')
		  AND c.relkind IN ('r', 'p')
		  AND NOT c.relispartition
		GROUP BY c.oid`, nil)
	require.NoError(t, err)
	inDatabase, registered := map[string][]string{}, map[string][]string{}
	for _, one := range found {
		inDatabase[one.Name] = one.Columns
	}
	for _, one := range schema.Personal() {
		if !strings.Contains(one.Place, ": ") {
			require.NotContains(t, registered, one.Place, "it stands twice")
			registered[one.Place] = slices.Sorted(slices.Values(append([]string{}, slices.Concat(one.Personal, one.Plain)...)))
		}
	}
	for name, columns := range inDatabase {
		require.Contains(t, registered, name, "a table that schema.Personal does not name")
		require.ElementsMatch(t, columns, registered[name], "the columns of %s that can hold text", name)
	}
	require.Len(t, registered, len(inDatabase), "schema.Personal names tables that do not exist")
}

func TestPersonal_EveryHolding_SaysWhyAndHowItLeaves(t *testing.T) {
	t.Parallel()
	exits := []schema.Exit{schema.Deleted, schema.Expires, schema.Stays}
	for _, one := range schema.Personal() {
		require.Contains(t, exits, one.Contact, one.Place)
		require.Contains(t, exits, one.Number, one.Place)
		require.NotEmpty(t, one.Kept, one.Place)
		if len(one.Personal) > 0 {
			require.NotEmpty(t, one.Why, one.Place)
		}
	}
}
