package directory_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/schema"
)

// fixture is two cells and a directory, each on a database of its own. The cells also have
// test tables for numbers and tokens, without unique keys.
type fixture struct {
	clock  *clock.Manual
	db     *postgres.DB
	routes *directory.Directory
	cells  map[string]*factory.World
	urls   map[string]string
}

const sqlTables = `
CREATE TABLE test_accounts (org_id uuid NOT NULL, number bytea NOT NULL, generation bigint NOT NULL, active boolean NOT NULL);
CREATE TABLE test_tokens (org_id uuid NOT NULL, hash bytea NOT NULL);
CREATE TABLE test_callbacks (org_id uuid NOT NULL, number bytea NOT NULL, generation bigint NOT NULL, id bigint NOT NULL)`

// The databases of a fixture; the first two are cells.
const amber, birch, routing = "amber", "birch", "routing"

// connect is pgtest.Connect with few connections: the server is shared with other packages.
func connect(t *testing.T, url string, conns int32) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{
		URL: pgtest.Patient(t, url), Name: t.Name(), MaxConns: conns, AcquireWait: time.Minute,
		Enter: schema.EnterOrganization, EnterAll: schema.EnterAll(), Tracers: pgtest.Tracers(t),
	})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	return db
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{clock: clock.NewManual(pgtest.Start()), urls: map[string]string{}}
	for _, name := range []string{amber, birch, routing} {
		f.urls[name] = pgtest.URL(t)
	}
	cells := map[string]*postgres.DB{}
	for _, name := range []string{amber, birch} {
		cells[name] = connect(t, f.urls[name], 5)
		_, err := cells[name].Pool().Exec(t.Context(), sqlTables)
		require.NoError(t, err)
	}
	f.db = connect(t, f.urls[routing], 5)
	f.routes = directory.New(f.db, f.clock)
	f.cells = factory.In(t, f.routes, f.clock, cells)
	return f
}

// thing has the statements by which a cell stores and removes a number or token, and tells
// whether it holds one.
type thing struct{ claim, release, holds string }

var things = map[directory.Kind]thing{
	directory.PhoneNumber: {
		claim: `INSERT INTO test_accounts (org_id, number, generation, active) VALUES (@org_id, @key, @generation, true)`,
		release: `UPDATE test_accounts SET active = false
			WHERE org_id = @org_id AND number = @key AND generation = @generation AND active`,
		holds: `SELECT EXISTS (SELECT FROM test_accounts
			WHERE org_id = @org_id AND number = @key AND generation = @generation AND active)`,
	},
	directory.SetupToken: {
		claim:   `INSERT INTO test_tokens (org_id, hash) SELECT @org_id, @key WHERE @generation > 0`,
		release: `DELETE FROM test_tokens WHERE org_id = @org_id AND hash = @key AND @generation > 0`,
		holds:   `SELECT EXISTS (SELECT FROM test_tokens WHERE org_id = @org_id AND hash = @key AND @generation > 0)`,
	},
}

// write runs a statement in a cell. The statement must change one row.
func write(ctx context.Context, db *postgres.DB, org ids.Org, sql string, key []byte, generation int64) error {
	touched, err := postgres.InTx(ctx, db, org, func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(ctx, sql, postgres.Args{"key": key, "generation": generation})
	})
	if err == nil && touched != 1 {
		return fmt.Errorf("%d rows were touched by %s", touched, sql)
	}
	return err
}

// claim claims a number or a token for an organization of the cell.
func claim(
	ctx context.Context, routes *directory.Directory, db *postgres.DB, kind directory.Kind, key []byte, org ids.Org,
) (generation int64, err error) {
	err = routes.Claim(ctx, kind, key, org, func(ctx context.Context, claimed int64) error {
		generation = claimed
		return write(ctx, db, org, things[kind].claim, key, claimed)
	})
	return generation, err
}

// release releases a number or a token.
func release(
	ctx context.Context, routes *directory.Directory, db *postgres.DB, kind directory.Kind, key []byte, org ids.Org, generation int64,
) error {
	return routes.Release(ctx, kind, key, org, generation, func(ctx context.Context) error {
		return write(ctx, db, org, things[kind].release, key, generation)
	})
}

// holds asks the cell in which the organization lives.
func (f *fixture) holds(ctx context.Context, step directory.Unresolved) (bool, error) {
	home, err := f.routes.HomeOf(ctx, step.OrgID)
	if err != nil {
		return false, err
	}
	cell := f.cells[home.Cell]
	if one, known := things[step.Kind]; known {
		return postgres.One[bool](ctx, cell.DB.Of(step.OrgID), one.holds, postgres.Args{"key": step.Key, "generation": step.Generation})
	}
	return cell.Holds(ctx, step)
}

type routeRow struct {
	Kind       directory.Kind
	Key        string
	OrgID      ids.Org
	Generation int64
	State      string
}

type homeRow struct {
	OrgID ids.Org
	Cell  string
	State string
}

// rows reads the whole directory.
func (f *fixture) rows(t *testing.T) ([]routeRow, []homeRow) {
	t.Helper()
	routes, err := postgres.Many[routeRow](t.Context(), f.db.System("test"), `
		SELECT kind, encode(key, 'hex') AS key, org_id, generation, state FROM directory.routes ORDER BY kind, key`, nil)
	require.NoError(t, err)
	homes, err := postgres.Many[homeRow](t.Context(), f.db.System("test"), `
		SELECT org_id, cell, state FROM directory.org_routes ORDER BY org_id`, nil)
	require.NoError(t, err)
	return routes, homes
}

// holding is a row of a cell that must have a route. Generation is zero for kinds without one.
type holding struct {
	Kind       directory.Kind
	Key        string
	OrgID      ids.Org
	Generation int64
}

const sqlHoldings = `
SELECT 'phone_number' AS kind, encode(number, 'hex') AS key, org_id, generation FROM test_accounts WHERE active
UNION ALL
SELECT 'setup_token', encode(hash, 'hex'), org_id, 0 FROM test_tokens
UNION ALL
SELECT 'api_key', encode(hash, 'hex'), org_id, 0 FROM api_keys
UNION ALL
SELECT '', '', org_id, 0 FROM organizations`

// holdings reads the rows of all cells that must have a route, organizations included.
func (f *fixture) holdings(t *testing.T) map[string][]holding {
	t.Helper()
	all := map[string][]holding{}
	for name, cell := range f.cells {
		held, err := postgres.Many[holding](t.Context(), cell.DB.System("test"), sqlHoldings, nil)
		require.NoError(t, err)
		all[name] = held
	}
	return all
}

// agrees fails the test when the rows of the cells and the routes of the directory differ.
func (f *fixture) agrees(t *testing.T) {
	t.Helper()
	routes, homes := f.rows(t)
	home := map[ids.Org]string{}
	for _, row := range homes {
		require.Equal(t, "confirmed", row.State, "home of %s", row.OrgID)
		home[row.OrgID] = row.Cell
	}
	type key struct {
		kind directory.Kind
		key  string
	}
	held, lives := map[key]holding{}, map[ids.Org]bool{}
	for cell, all := range f.holdings(t) {
		for _, one := range all {
			require.Equal(t, cell, home[one.OrgID], "%s of %s lies in %s", one.Kind, one.OrgID, cell)
			if one.Kind == "" {
				lives[one.OrgID] = true
				continue
			}
			require.NotContains(t, held, key{one.Kind, one.Key}, "held twice")
			held[key{one.Kind, one.Key}] = one
		}
	}
	for _, row := range routes {
		one, is := held[key{row.Kind, row.Key}]
		delete(held, key{row.Kind, row.Key})
		if !is {
			require.Equal(t, "released", row.State, "no cell holds %+v", row)
			continue
		}
		require.Equal(t, "confirmed", row.State, "%+v holds", one)
		require.Equal(t, one.OrgID, row.OrgID)
		if one.Generation > 0 {
			require.Equal(t, one.Generation, row.Generation)
		}
	}
	require.Empty(t, held, "held without a route")
	require.Len(t, lives, len(home), "homes without their organization")
}
