// Package e2e_test tests the running program from outside: it starts real processes on a real
// database as an operator does, kills and stops them, cuts their connections, and checks answers
// and rows of the database.
package e2e_test

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/domain/apikeys"
	"github.com/parley-chat/parley/internal/domain/apilogs"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

func TestMain(m *testing.M) { os.Exit(proc.Main(m)) }

const (
	// unlimited is a plan whose rate limit is never reached. Its requests still ask Redis.
	unlimited = "unlimited"
	// stopWithin is more than a graceful stop may take.
	stopWithin = time.Minute
)

// within is the promised duration in a proof, which has the machine to itself. In CI it is so long
// that only a hang exceeds it.
func within(promised time.Duration) time.Duration { return sized(proc.Patience, promised) }

// fixture has a database for each of two cells, and the services that an operator's commands use.
type fixture struct {
	databaseURL string
	// secondURL is the database of a second cell.
	secondURL string
	sql       *pgxpool.Pool
	orgs      *orgs.Service
	keys      *apikeys.Service
	logs      *apilogs.Log
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{databaseURL: pgtest.URL(t), secondURL: pgtest.URL(t)}
	db, now := pgtest.Connect(t, f.databaseURL), clock.NewSynced()
	routes := directory.New(db, now)
	require.NoError(t, routes.EnsureCells(t.Context(), []string{"main", "second"}))
	home, err := cell.New(cell.Deps{Name: "main", DB: db, Clock: now, Directory: routes, Logger: canary.Logger(t)})
	require.NoError(t, err)
	f.orgs, f.keys, f.logs = home.Orgs, home.Keys, home.Logs
	second, err := cell.New(cell.Deps{
		Name: "second", DB: pgtest.Connect(t, f.secondURL), Clock: now, Directory: routes, Logger: canary.Logger(t),
	})
	require.NoError(t, err)
	_, _, err = second.Orgs.Create(t.Context(), audit.Operator(), orgs.Draft{Name: "Neighbour", Plan: "platform"})
	require.NoError(t, err)
	settings, err := pgxpool.ParseConfig(f.databaseURL)
	require.NoError(t, err)
	settings.MaxConns = 4
	f.sql, err = pgxpool.NewWithConfig(t.Context(), settings)
	require.NoError(t, err)
	t.Cleanup(f.sql.Close)
	f.plan(t, unlimited, 1_000, 1_000_000)
	return f
}

func (f *fixture) plan(t *testing.T, name string, perSecond, burst int) {
	t.Helper()
	f.exec(t, `INSERT INTO plans VALUES ($1, true, true, 1000000, $2, $3, 365)`, name, perSecond, burst)
}

func (f *fixture) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := f.sql.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func (f *fixture) count(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, f.sql.QueryRow(t.Context(), sql, args...).Scan(&n))
	return n
}

func (f *fixture) org(t *testing.T, plan string) orgs.ID {
	t.Helper()
	org, _, err := f.orgs.Create(t.Context(), audit.Operator(), orgs.Draft{Name: t.Name(), Plan: plan})
	require.NoError(t, err)
	return org.OrgID
}

func (f *fixture) key(t *testing.T, org orgs.ID) (apikeys.ID, string) {
	t.Helper()
	key, secret, err := f.keys.Issue(t.Context(), org, audit.Operator(), apikeys.Draft{Name: "e2e"})
	require.NoError(t, err)
	return key.ID, secret
}

func (f *fixture) settings() proc.Settings {
	return proc.Settings{
		"PARLEY_DATABASE_URL": f.databaseURL, "PARLEY_CELL_SECOND_DATABASE_URL": f.secondURL,
		"PARLEY_DATABASE_CONNS": "6", "PARLEY_MASTER_KEY": canary.Master, "PARLEY_WEBHOOK_HOST_RATE": "1000000",
		"PARLEY_TRUSTED_PROXIES": "127.0.0.1/32",
	}
}

// through returns the settings of a process that reaches the database through a proxy. It serves no
// other cell, so that its readiness is that of this cell.
func (f *fixture) through(t *testing.T, proxy *proc.Proxy) proc.Settings {
	t.Helper()
	address, err := url.Parse(f.databaseURL)
	require.NoError(t, err)
	address.Host = proxy.Address
	return proc.Settings{"PARLEY_DATABASE_URL": address.String(), "PARLEY_CELLS": "main"}
}

func (f *fixture) databaseAddress(t *testing.T) string {
	t.Helper()
	address, err := url.Parse(f.databaseURL)
	require.NoError(t, err)
	return address.Host
}

// server is a process that serves the API.
type server struct {
	*proc.Process

	api, operator string
	settings      proc.Settings
	flags         []string
}

// serve starts a process and waits until it is ready.
func (f *fixture) serve(t *testing.T, more proc.Settings) *server {
	t.Helper()
	s := f.launch(t, more)
	s.waitReady(t)
	return s
}

// launch starts a process and waits until it answers, ready or not.
func (f *fixture) launch(t *testing.T, more proc.Settings) *server {
	t.Helper()
	s := &server{api: proc.FreeAddress(t), operator: proc.FreeAddress(t)}
	s.settings = f.settings().With(proc.Settings{"PARLEY_LISTEN": s.api, "PARLEY_OPERATOR_LISTEN": s.operator}).With(more)
	s.start(t)
	return s
}

func (s *server) start(t *testing.T) {
	t.Helper()
	s.Process = proc.Start(t, s.settings, append([]string{"serve"}, s.flags...)...)
	anyone := s.client("")
	proc.Eventually(t, proc.Patience, "the API listens", func() bool {
		select {
		case <-s.Exited():
			require.FailNow(t, "the process ended")
		default:
		}
		answered, err := anyone.get(t.Context(), "/health")
		return err == nil && answered.status == http.StatusOK
	})
}

// restart starts the process again at the same addresses.
func (s *server) restart(t *testing.T) {
	t.Helper()
	s.start(t)
	s.waitReady(t)
}

func (s *server) waitReady(t *testing.T) {
	t.Helper()
	proc.Eventually(t, proc.Patience, "the process is ready", func() bool {
		answered, err := s.ask(t.Context(), "/readyz")
		return err == nil && answered.status == http.StatusOK
	})
}

// stop ends the process gracefully.
func (s *server) stop(t *testing.T) {
	t.Helper()
	s.Stop()
	require.Equal(t, 0, s.ExitCode(t, stopWithin))
}

// ask sends a GET to the operator's listener.
func (s *server) ask(ctx context.Context, path string) (answer, error) {
	operator := client{base: "http://" + s.operator, http: newHTTP()}
	defer operator.http.CloseIdleConnections()
	return operator.get(ctx, path)
}

// metric reads one number from the operator's listener.
func (s *server) metric(t *testing.T, name string) int {
	t.Helper()
	metrics, err := s.ask(t.Context(), "/metrics")
	require.NoError(t, err)
	for line := range strings.Lines(string(metrics.body)) {
		if labels, value, found := strings.Cut(strings.TrimSpace(line), " "); found && strings.Split(labels, "{")[0] == name {
			number, err := strconv.ParseFloat(value, 64)
			require.NoError(t, err)
			return int(number)
		}
	}
	require.FailNow(t, "no such metric", name)
	return 0
}

// each calls work n times at the same time and returns the first error.
func each(n int, work func(i int) error) error {
	var group errgroup.Group
	for i := range n {
		group.Go(func() error { return work(i) })
	}
	return group.Wait()
}

// quantile of durations, which it sorts.
func quantile(durations []time.Duration, q float64) time.Duration {
	slices.Sort(durations)
	return durations[min(len(durations)-1, int(q*float64(len(durations))))]
}
