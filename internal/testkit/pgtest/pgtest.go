// Package pgtest gives each test a PostgreSQL database of its own, cloned from a
// template that holds the migrated schema, with the tracers of tenancy and of the lock order on.
package pgtest

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/schema"
)

// Start is the time at which the clock of most tests starts. Test databases have partitions
// around it.
func Start() time.Time { return time.Date(2026, 3, 14, 9, 26, 53, 589_000_000, time.UTC) }

// URL makes a migrated database for a cell and a directory, and returns its URL. It has partitions
// around Start and today. The test fails when the database contains a secret at its end.
func URL(t testing.TB) string {
	t.Helper()
	databaseURL := clone(t)
	watch(t, databaseURL)
	return databaseURL
}

// Open makes a migrated database and a pool on it with Tracers.
func Open(t testing.TB) *postgres.DB {
	t.Helper()
	return Connect(t, URL(t))
}

// patience is the timeout of statements, locks and connections in tests that do not test timeouts,
// because the machine may be busy. The product's own timeouts are much shorter.
const patience = 3 * time.Minute

// Patient returns the URL with timeouts of length patience.
func Patient(t testing.TB, databaseURL string) string {
	t.Helper()
	address, err := url.Parse(databaseURL)
	require.NoError(t, err)
	query := address.Query()
	for _, setting := range []string{"lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"} {
		query.Set(setting, strconv.FormatInt(patience.Milliseconds(), 10))
	}
	query.Set("connect_timeout", strconv.Itoa(int(patience.Seconds())))
	address.RawQuery = query.Encode()
	return address.String()
}

// Connect opens a watched pool on a database made by URL; more tracers may watch too.
func Connect(t testing.TB, databaseURL string, tracers ...pgx.QueryTracer) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{
		URL: Patient(t, databaseURL), Name: t.Name(), MaxConns: 12, AcquireWait: patience,
		Enter: schema.EnterOrganization, EnterAll: schema.EnterAll(), Tracers: append(append(Tracers(t), trips{}), tracers...),
	})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	return db
}

// Plan returns the generic plan of a statement. The statements in before run first; everything is
// rolled back. The ids @least and @greatest span all partitions.
func Plan(t testing.TB, databaseURL, sql string, before ...string) string {
	t.Helper()
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, databaseURL)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(ctx))) }()
	for _, statement := range append([]string{`BEGIN`, `SET LOCAL plan_cache_mode = force_generic_plan`}, before...) {
		_, err := conn.Exec(ctx, statement)
		require.NoError(t, err)
	}
	spanned := pgx.NamedArgs{"least": "'00000000-0000-0000-0000-000000000000'", "greatest": "'ffffffff-ffff-ffff-ffff-ffffffffffff'"}
	numbered, values, err := spanned.RewriteQuery(ctx, conn, sql, nil)
	require.NoError(t, err)
	_, err = conn.Prepare(ctx, "asked", numbered)
	require.NoError(t, err)
	arguments := make([]string, len(values))
	for i, value := range values {
		arguments[i] = "NULL"
		if given, is := value.(string); is {
			arguments[i] = given
		}
	}
	rows, err := conn.Query(ctx, `EXPLAIN (COSTS OFF) EXECUTE asked (`+strings.Join(arguments, ", ")+`)`, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return strings.Join(lines, "\n")
}

// Tracers fail t when a statement on a tenant table is not tied to its organization, and when a
// transaction locks tables in another order than schema.LockOrder.
func Tracers(t testing.TB) []pgx.QueryTracer {
	t.Helper()
	return []pgx.QueryTracer{
		postgres.NewTenancy(schema.Tenant(), func(fault string) { t.Errorf("tenancy: %s", fault) }),
		postgres.NewLocks(schema.LockOrder(), func(fault string) { t.Errorf("lock order: %s", fault) }),
	}
}
