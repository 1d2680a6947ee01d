package quota_test

import (
	"context"
	"flag"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/quota"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/leaks"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/proof"
)

// CI draws fewer histories than `make proof-repeats`.
func TestMain(m *testing.M) {
	if !proof.Full() {
		if err := flag.Set("rapid.checks", "30"); err != nil {
			panic(err)
		}
	}
	os.Exit(leaks.Main(m))
}

// fixture is a cell with an organization; each process that a test starts has a Service of its own.
type fixture struct {
	*factory.World

	org orgs.ID
	url string
	// work is the pool of flushes, as in a process, so that they do not wait behind accepts.
	work *postgres.DB
	// statements counts those of accepts.
	statements *atomic.Int64
}

func newFixture(t testing.TB) fixture {
	t.Helper()
	f := fixture{url: pgtest.URL(t), statements: &atomic.Int64{}}
	f.World = factory.On(t, pgtest.Connect(t, f.url, pgtest.Each(func(string) { f.statements.Add(1) })))
	f.work = pgtest.Connect(t, f.url)
	f.org, _ = f.Org(t)
	return f
}

// process starts a process: an instance of the service.
func (f fixture) process() *quota.Service {
	return quota.New(quota.Deps{DB: f.DB, Work: f.work, Clock: f.Clock, Jobs: f.Jobs, Logger: f.Logger})
}

// seed counts messages that another process accepted, whatever the limit.
func (f fixture) seed(t testing.TB, used int) {
	t.Helper()
	_, err := f.process().Reserve(t.Context(), f.org, 1<<40, used)
	require.NoError(t, err)
}

// warm makes a process count in memory, and returns how many messages that took.
func (f fixture) warm(t testing.TB, p *quota.Service, limit int64) int {
	t.Helper()
	for range 2 {
		_, err := p.Reserve(t.Context(), f.org, limit, 1)
		require.NoError(t, err)
	}
	return 2
}

// shared returns the month's row: what is used, and the allowances that have not expired.
func (f fixture) shared(t require.TestingT, ctx context.Context) (used, allowed int64) { //nolint:revive // as in testify
	now := f.Clock.Now()
	row, err := postgres.One[struct{ Used, Allowed int64 }](ctx, f.DB.Of(f.org), `
SELECT coalesce(sum(used), 0)::bigint AS used, coalesce(sum(allowed) FILTER (WHERE allowed_until > @now), 0)::bigint AS allowed
FROM quota_usage
WHERE org_id = @org_id
  AND month = @month`, postgres.Args{
		"now": now, "month": time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC),
	})
	require.NoError(t, err)
	return row.Used, row.Allowed
}

func (f fixture) requireUsed(t testing.TB, want int) {
	t.Helper()
	used, _ := f.shared(t, t.Context())
	require.EqualValues(t, want, used)
}

// decided reserves, and lets time pass while the answer is service_unavailable: a second at a time,
// after which the living processes flush. It returns nil when the quota is exceeded.
func (f fixture) decided(
	t require.TestingT, ctx context.Context, p *quota.Service, limit int64, n int, living []*quota.Service, //nolint:revive // as in testify
) *quota.Reservation {
	for range 30 {
		r, err := p.Reserve(ctx, f.org, limit, n)
		switch fault.Of(err) {
		case fault.QuotaExceeded:
			return nil
		case fault.ServiceUnavailable:
			f.pass(t, ctx, living)
		default:
			require.NoError(t, err)
			return r
		}
	}
	require.FailNow(t, "the answer is service_unavailable for ever")
	return nil
}

// pass lets a second pass, in which each living process flushes.
func (f fixture) pass(t require.TestingT, ctx context.Context, living []*quota.Service) { //nolint:revive // as in testify
	f.Clock.Move(quota.FlushEvery)
	for _, p := range living {
		require.NoError(t, p.Flush(ctx))
	}
}

// address is where the database listens.
func (f fixture) address(t testing.TB) string {
	t.Helper()
	parsed, err := url.Parse(f.url)
	require.NoError(t, err)
	return parsed.Host
}

// through returns the URL of the database by way of a proxy.
func (f fixture) through(t testing.TB, address string) string {
	t.Helper()
	parsed, err := url.Parse(f.url)
	require.NoError(t, err)
	parsed.Host = address
	return parsed.String()
}
