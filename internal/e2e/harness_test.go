// Package e2e_test holds the promises of the running program: real processes on a real
// database, killed, stopped, starved and cut off, and asked from outside. It starts what
// an operator starts and knows of the inside only what it reads from the database.
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
	// unlimited is a plan whose bucket never empties, and which asks Redis often.
	unlimited = "unlimited"
	// stopWithin is how long a graceful stop may take, and a little more.
	stopWithin = time.Minute
)

// within holds a promise about seconds when it is asked for, on a machine that is there for
// it alone; every day it only tells what hangs.
func within(promised time.Duration) time.Duration { return sized(proc.Patience, promised) }

// world is a database of the test's own, with the verbs of an operator.
type world struct {
	databaseURL string
	// secondURL is that of a second cell, in which another organization lives.
	secondURL string
	sql       *pgxpool.Pool
	orgs      *orgs.Service
	keys      *apikeys.Service
	logs      *apilogs.Log
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{databaseURL: pgtest.URL(t), secondURL: pgtest.URL(t)}
	db, now := pgtest.Connect(t, w.databaseURL), clock.NewSynced()
	routes := directory.New(db, now)
	require.NoError(t, routes.EnsureCells(t.Context(), []string{"main", "second"}))
	home, err := cell.New(cell.Deps{Name: "main", DB: db, Clock: now, Directory: routes, Logger: canary.Logger(t)})
	require.NoError(t, err)
	w.orgs, w.keys, w.logs = home.Orgs, home.Keys, home.Logs
	second, err := cell.New(cell.Deps{
		Name: "second", DB: pgtest.Connect(t, w.secondURL), Clock: now, Directory: routes, Logger: canary.Logger(t),
	})
	require.NoError(t, err)
	_, _, err = second.Orgs.Create(t.Context(), audit.Operator(), orgs.Draft{Name: "Neighbour", Plan: "platform"})
	require.NoError(t, err)
	settings, err := pgxpool.ParseConfig(w.databaseURL)
	require.NoError(t, err)
	settings.MaxConns = 4
	w.sql, err = pgxpool.NewWithConfig(t.Context(), settings)
	require.NoError(t, err)
	t.Cleanup(w.sql.Close)
	w.plan(t, unlimited, 1_000, 1_000_000)
	return w
}

func (w *world) plan(t *testing.T, name string, perSecond, burst int) {
	t.Helper()
	w.exec(t, `INSERT INTO plans VALUES ($1, true, true, 1000000, $2, $3, 365)`, name, perSecond, burst)
}

func (w *world) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := w.sql.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func (w *world) count(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, w.sql.QueryRow(t.Context(), sql, args...).Scan(&n))
	return n
}

func (w *world) org(t *testing.T, plan string) orgs.ID {
	t.Helper()
	org, _, err := w.orgs.Create(t.Context(), audit.Operator(), orgs.Draft{Name: t.Name(), Plan: plan})
	require.NoError(t, err)
	return org.OrgID
}

func (w *world) key(t *testing.T, org orgs.ID) (apikeys.ID, string) {
	t.Helper()
	key, secret, err := w.keys.Issue(t.Context(), org, audit.Operator(), apikeys.Draft{Name: "e2e"})
	require.NoError(t, err)
	return key.ID, secret
}

func (w *world) settings() proc.Settings {
	return proc.Settings{
		"PARLEY_DATABASE_URL": w.databaseURL, "PARLEY_CELL_SECOND_DATABASE_URL": w.secondURL,
		"PARLEY_DATABASE_CONNS": "6", "PARLEY_MASTER_KEY": canary.Master,
		"PARLEY_TRUSTED_PROXIES": "127.0.0.1/32",
	}
}

// through is the address of the database behind a proxy, for a process that serves no
// other cell: what it says of itself is said of this one.
func (w *world) through(t *testing.T, proxy *proc.Proxy) proc.Settings {
	t.Helper()
	address, err := url.Parse(w.databaseURL)
	require.NoError(t, err)
	address.Host = proxy.Address
	return proc.Settings{"PARLEY_DATABASE_URL": address.String(), "PARLEY_CELLS": "main"}
}

func (w *world) databaseAddress(t *testing.T) string {
	t.Helper()
	address, err := url.Parse(w.databaseURL)
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
func (w *world) serve(t *testing.T, more proc.Settings) *server {
	t.Helper()
	s := w.launch(t, more)
	s.waitReady(t)
	return s
}

// launch starts a process and waits only until it answers at all.
func (w *world) launch(t *testing.T, more proc.Settings) *server {
	t.Helper()
	s := &server{api: proc.FreeAddress(t), operator: proc.FreeAddress(t)}
	s.settings = w.settings().With(proc.Settings{"PARLEY_LISTEN": s.api, "PARLEY_OPERATOR_LISTEN": s.operator}).With(more)
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

// ask reads from the operator's listener.
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

// each runs n pieces of work at once and returns the first error.
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
