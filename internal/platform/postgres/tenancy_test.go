package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/schema"
)

// watched runs a statement in the scope of an organization and returns what the tracer reported.
func watched(t *testing.T, sql string, args postgres.Args) []string {
	t.Helper()
	url := pgtest.URL(t)
	org, _ := factory.On(t, pgtest.Connect(t, url)).Org(t)
	var faults []string
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url, Tracers: []pgx.QueryTracer{
		postgres.NewTenancy(schema.Tenant(), func(fault string) { faults = append(faults, fault) }),
	}})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	_, err = postgres.InTx(t.Context(), db, org, func(tx *postgres.Tx) (int64, error) { return tx.Exec(t.Context(), sql, args) })
	require.NoError(t, err)
	return faults
}

func TestTenancy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sql   string
		fault string
	}{
		"bound":                {`SELECT id FROM labels WHERE org_id = @org_id`, ""},
		"bound with alias":     {`SELECT l.id FROM labels l WHERE l.org_id = @org_id`, ""},
		"no tenant table":      {`SELECT name FROM plans`, ""},
		"tied join":            {`SELECT 1 FROM labels l JOIN teams t ON t.org_id = l.org_id AND t.id = l.team_id WHERE l.org_id = @org_id`, ""},
		"join by USING":        {`SELECT 1 FROM labels l JOIN teams t USING (org_id) WHERE l.org_id = @org_id`, ""},
		"insert":               {`INSERT INTO teams (org_id, id, name) VALUES (@org_id, gen_random_uuid(), 'x')`, ""},
		"update":               {`UPDATE labels SET color = 'red' WHERE org_id = @org_id`, ""},
		"given by a subquery":  {`UPDATE labels l SET color = 'red' FROM (SELECT @org_id::uuid AS org_id) g WHERE l.org_id = g.org_id`, ""},
		"given and not tied":   {`UPDATE labels l SET color = 'red' FROM (SELECT @org_id::uuid AS org_id) g WHERE l.color = 'blue'`, "binds no org_id"},
		"unbound select":       {`SELECT id FROM labels`, "binds no org_id"},
		"unbound by id":        {`SELECT name FROM labels WHERE id = gen_random_uuid()`, "binds no org_id"},
		"unbound update":       {`UPDATE labels SET color = 'red'`, "binds no org_id"},
		"unbound delete":       {`DELETE FROM ONLY labels`, "binds no org_id"},
		"bound in a comment":   {"SELECT id FROM labels -- WHERE org_id = @org_id\n", "binds no org_id"},
		"bound in a string":    {`SELECT id FROM labels WHERE name = ' org_id = $1 '`, "binds no org_id"},
		"quoted with schema":   {`SELECT id FROM "public"."labels"`, "binds no org_id"},
		"untied join":          {`SELECT 1 FROM labels l JOIN teams t ON t.id = l.team_id WHERE l.org_id = @org_id`, "ties only 1"},
		"unbound subselect":    {`SELECT 1 FROM labels l WHERE l.org_id = @org_id AND EXISTS (SELECT FROM teams)`, "ties only 1"},
		"insert elsewhere":     {`INSERT INTO teams (org_id, id, name) SELECT org_id, gen_random_uuid(), 'x' FROM organizations`, "binds no org_id"},
		"insert without org":   {`INSERT INTO teams (id, org_id, name) SELECT gen_random_uuid(), org_id, 'x' FROM organizations LIMIT 0`, "binds no org_id"},
		"comma join":           {`SELECT 1 FROM labels l, teams t WHERE l.org_id = @org_id`, "by a comma"},
		"comma join of three":  {`SELECT 1 FROM plans AS p, labels WHERE org_id = @org_id`, "by a comma"},
		"several at once":      {`SELECT id FROM labels WHERE org_id = ANY (ARRAY[@org_id::uuid])`, "binds no org_id"},
		"organizations itself": {`SELECT name FROM organizations`, "binds no org_id"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults := watched(t, test.sql, nil)
			if test.fault == "" {
				require.Empty(t, faults)
				return
			}
			require.Len(t, faults, 1)
			require.Contains(t, faults[0], test.fault)
		})
	}
}

func TestTenancy_LetsTheSystemAccessorPass(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	_, err := postgres.Many[string](t.Context(), w.DB.System("count all labels"), `SELECT name FROM labels`, nil)
	require.NoError(t, err)
}
