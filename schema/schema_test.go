package schema_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/schema"
)

func TestLists_EveryTable_InExactlyOne(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	tables, err := postgres.Many[string](t.Context(), db.System("catalogue"), `
		SELECT relname::text
		FROM pg_class
		WHERE relnamespace = 'public'::regnamespace
		  AND relkind IN ('r', 'p')
		  AND NOT relispartition
		ORDER BY relname`, nil)
	require.NoError(t, err)
	listed := slices.Sorted(slices.Values(slices.Concat(schema.Tenant(), schema.System())))
	require.Equal(t, tables, listed)
}

func TestLockOrder_EveryTenantTable_HasAPlace(t *testing.T) {
	t.Parallel()
	order := schema.LockOrder()
	require.Subset(t, order, schema.Tenant())
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(order))), len(order), "a name stands twice")
	for _, name := range order {
		table, _, _ := strings.Cut(name, " ")
		require.Contains(t, append(schema.Tenant(), schema.System()...), table)
	}
}

func TestLockOrder_TableInArchitecture_IsTheSame(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../ARCHITECTURE.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(text), "\n## Lock order\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var names []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(section, -1) {
		names = append(names, row[1])
	}
	require.Equal(t, schema.LockOrder(), names)
}

func TestKeysOfTenantTablesStartWithTheOrganization(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	type key struct{ Relation, Name, FirstColumn string }
	keys, err := postgres.Many[key](t.Context(), db.System("catalogue"), `
		SELECT indrelid::regclass::text AS relation, indexrelid::regclass::text AS name, attname::text AS first_column
		FROM pg_index
		JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
		WHERE indisunique
		  AND indrelid::regclass::text = ANY (@tables)
		UNION ALL
		SELECT conrelid::regclass::text, conname, attname
		FROM pg_constraint
		JOIN pg_attribute ON attrelid = conrelid AND attnum = conkey[1]
		WHERE contype = 'f'
		  AND conrelid::regclass::text = ANY (@tables)
		  AND confrelid::regclass::text = ANY (@tables)`, postgres.Args{"tables": schema.Tenant()})
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, k := range keys {
		require.Equal(t, "org_id", k.FirstColumn, "%s of %s", k.Name, k.Relation)
		seen[k.Relation] = true
	}
	for _, table := range schema.Tenant() {
		require.True(t, seen[table], "%s has no key", table)
	}
}

func TestMigrate_Twice_ChangesNothing(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	for _, migrations := range []postgres.Migrations{schema.Migrations(), schema.Directory()} {
		applied, err := postgres.Migrate(t.Context(), url, migrations)
		require.NoError(t, err)
		require.Zero(t, applied)
		pending, err := pgtest.Connect(t, url).Pending(t.Context(), migrations)
		require.NoError(t, err)
		require.Zero(t, pending)
	}
}

func TestMigrate_DatabaseMadeBeforeTheFold_RefusedAndUnchanged(t *testing.T) {
	t.Parallel()
	for _, migrations := range []postgres.Migrations{schema.Migrations(), schema.Directory()} {
		t.Run(migrations.Schema, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			db := pgtest.Connect(t, url).System("test")
			rename := `ALTER TABLE ` + migrations.Schema + `.schema_migrations RENAME TO goose_db_version`
			_, err := postgres.Many[string](t.Context(), db, rename, nil)
			require.NoError(t, err)

			var refused *postgres.BeforeFoldError
			_, err = postgres.Migrate(t.Context(), url, migrations)
			require.ErrorAs(t, err, &refused)
			require.ErrorAs(t, postgres.RefuseBeforeFold(t.Context(), url, migrations), &refused)
			made, err := postgres.One[bool](t.Context(), db, `SELECT to_regclass(@table) IS NOT NULL`,
				postgres.Args{"table": migrations.Schema + ".schema_migrations"})
			require.NoError(t, err)
			require.False(t, made)
		})
	}
}

type anyKind struct{}

func (anyKind) Prefix() string { return "any" }

// A function that is not inlined is parsed and planned in every statement that calls it.
func TestNewID_InAStatement_IsInlined(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	plan, err := postgres.Many[string](t.Context(), db.System("plan"), `EXPLAIN (VERBOSE) SELECT ulid(now())`, nil)
	require.NoError(t, err)
	require.Contains(t, strings.Join(plan, "\n"), "gen_random_uuid()")

	made, err := postgres.Many[ids.Any](t.Context(), db.System("ids"),
		`SELECT ulid(timestamptz '2026-03-14 09:26:53.589Z') FROM generate_series(1, 1000)`, nil)
	require.NoError(t, err)
	seen := map[ids.Any]bool{}
	for _, id := range made {
		require.Equal(t, time.Date(2026, 3, 14, 9, 26, 53, 589e6, time.UTC), ids.From[anyKind](id).CreatedAt())
		seen[id] = true
	}
	require.Len(t, seen, 1000)
}

// While a table is small the planner takes any index that starts with the organization, and a
// prepared statement keeps that plan when the table has grown. A predicate on its own column keeps
// an index from statements that do not name the column.
func TestIndexesOfLargeTables_BesidesThePrimaryKey_ArePartial(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	type index struct{ Relation, Name string }
	whole, err := postgres.Many[index](t.Context(), db.System("catalogue"), `
		SELECT indrelid::regclass::text AS relation, indexrelid::regclass::text AS name
		FROM pg_index
		WHERE indpred IS NULL
		  AND NOT indisprimary
		  AND indrelid::regclass::text = ANY (@tables)`, postgres.Args{"tables": []string{
		"contacts", "contact_keys", "conversations", "messages", "message_states", "send_attempts",
		"events", "webhook_deliveries", "webhook_attempts",
	}})
	require.NoError(t, err)
	require.Empty(t, whole)
}
