package postgres_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

// A purge deletes all rows of one organization, whatever the types of the key. It does not read the rows again that it
// has deleted: each portion begins in the index after the last one.
func TestPurgeOrg_ManyRows_EachReadOnce(t *testing.T) {
	t.Parallel()
	var lastDelete atomic.Value
	url := pgtest.URL(t)
	db := pgtest.Connect(t, url, pgtest.Each(func(sql string) {
		if strings.Contains(sql, "DELETE FROM") {
			lastDelete.Store(sql)
		}
	}))
	system := db.System("test")
	_, err := postgres.Many[string](t.Context(), system, `
CREATE TABLE walked (org_id uuid, at timestamptz, name text COLLATE "C", raw bytea, place int, PRIMARY KEY (org_id, at, name, raw, place))`, nil)
	require.NoError(t, err)
	org := ids.NewOrg(time.Now())
	mine, other := postgres.Args{"org": org, "rows": 1020}, postgres.Args{"org": ids.NewOrg(time.Now()), "rows": 30}
	for _, args := range []postgres.Args{mine, other} {
		_, err := postgres.Many[string](t.Context(), system, `
INSERT INTO walked
SELECT @org, '2026-03-29 01:59:59.123456+00'::timestamptz + n / 100 * interval '1 microsecond', E'it''s {"' || n % 10, '\x00ff', n
FROM generate_series(1, @rows::int) n`, args)
		require.NoError(t, err)
	}
	require.NoError(t, postgres.PurgeOrg(t.Context(), db, org, []string{"walked"}))
	for want, args := range map[int]postgres.Args{0: mine, 30: other} {
		left, err := postgres.One[int](t.Context(), system, `SELECT count(*) FROM walked WHERE org_id = @org`, args)
		require.NoError(t, err)
		require.Equal(t, want, left)
	}
	last, _ := lastDelete.Load().(string)
	plan := pgtest.Plan(t, url, last, `SET LOCAL enable_seqscan = off`) // as in each transaction
	require.Regexp(t, `Index Cond: .*ROW\(org_id, at, name, raw, place\) > ROW\(`, plan)
	require.Contains(t, plan, "Tid Scan")
}

// A purge whose time is over ends after a portion, and the next one goes on.
func TestPurgeOrg_TimeOver_GoesOnWithTheNextCall(t *testing.T) {
	t.Parallel()
	db := pgtest.Connect(t, pgtest.URL(t))
	system := db.System("test")
	_, err := postgres.Many[string](t.Context(), system, `CREATE TABLE walked (org_id uuid, place int, PRIMARY KEY (org_id, place))`, nil)
	require.NoError(t, err)
	args := postgres.Args{"org": ids.NewOrg(time.Now())}
	_, err = postgres.Many[string](t.Context(), system, `INSERT INTO walked SELECT @org, n FROM generate_series(1, 120) n`, args)
	require.NoError(t, err)
	for _, want := range []int{70, 20, 0} {
		err := postgres.PurgeOrg(postgres.WithBudget(t.Context(), 0), db, args["org"].(ids.Org), []string{"walked"})
		var more *postgres.MoreError
		require.ErrorAs(t, err, &more)
		left, err := postgres.One[int](t.Context(), system, `SELECT count(*) FROM walked WHERE org_id = @org`, args)
		require.NoError(t, err)
		require.Equal(t, want, left)
	}
	require.NoError(t, postgres.PurgeOrg(postgres.WithBudget(t.Context(), 0), db, args["org"].(ids.Org), []string{"walked"}))
}
