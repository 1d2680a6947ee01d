package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

// cellsFixture has two cells and their directory, each on its own database behind a proxy.
type cellsFixture struct {
	*fixture // of the cell main

	operator                *operator
	main, second, directory *proc.Proxy
	// addresses are the settings with the addresses of the proxies, behind those of the databases themselves.
	addresses, behind proc.Settings
}

func newCellsFixture(t *testing.T) *cellsFixture {
	t.Helper()
	f := &cellsFixture{fixture: newFixture(t), addresses: proc.Settings{}, behind: proc.Settings{}}
	f.main = f.through(t, "PARLEY_DATABASE_URL", f.databaseURL)
	f.second = f.through(t, "PARLEY_CELL_SECOND_DATABASE_URL", newFixture(t).databaseURL)
	f.directory = f.through(t, "PARLEY_DIRECTORY_DATABASE_URL", pgtest.URL(t))
	f.operator = &operator{t: t, settings: f.settings().With(f.addresses)}
	migrated := proc.Run(t, f.operator.settings, "migrate")
	require.Equal(t, 0, migrated.Code, migrated.Stderr)
	return f
}

// through puts a proxy in front of a database, and the proxy's address into a setting.
func (f *cellsFixture) through(t *testing.T, setting, databaseURL string) *proc.Proxy {
	t.Helper()
	address, err := url.Parse(databaseURL)
	require.NoError(t, err)
	f.behind[setting] = databaseURL
	proxy := proc.NewProxy(t, address.Host)
	address.Host = proxy.Address
	f.addresses[setting] = address.String()
	return proxy
}

// serve starts a process on both cells.
func (f *cellsFixture) serve(t *testing.T, more proc.Settings) *server {
	t.Helper()
	return f.fixture.serve(t, f.addresses.With(more))
}

// createOrgs creates n organizations and returns their ids by cell, in the order of their creation.
func (f *cellsFixture) createOrgs(t *testing.T, n int) (inMain, inSecond []string) {
	t.Helper()
	made := make([]string, n)
	for i := range made {
		made[i] = f.operator.object("org", "create", "--name", fmt.Sprint("Org ", i), "--plan", unlimited)["id"].(string)
	}
	cells := f.cells()
	for _, org := range made {
		switch cells[org] {
		case "main":
			inMain = append(inMain, org)
		case "second":
			inSecond = append(inSecond, org)
		default:
			require.Fail(t, "an organization without a cell", "%s: %q", org, cells[org])
		}
	}
	return inMain, inSecond
}

// cells is the cell of each organization, as `admin org list` prints it.
func (f *cellsFixture) cells() map[string]string {
	cells := map[string]string{}
	for _, org := range f.operator.list("org", "list") {
		cells[org["id"].(string)], _ = org["cell"].(string)
	}
	return cells
}

// keyFor issues a key by command, so that the process under test has not cached it.
func (f *cellsFixture) keyFor(org string) string {
	return f.operator.object("key", "create", "--name", "cells", "--org", org)["api_key"].(string)
}

func (f *cellsFixture) keysFor(organizations []string) []string {
	keys := make([]string, len(organizations))
	for i, org := range organizations {
		keys[i] = f.keyFor(org)
	}
	return keys
}

// readiness is the state of each cell in /readyz, and the status of the answer.
func (s *server) readiness(t *testing.T) (cells map[string]string, status int) {
	t.Helper()
	got, err := s.ask(t.Context(), "/readyz")
	require.NoError(t, err)
	var body struct{ Cells map[string]string }
	require.NoError(t, json.Unmarshal(got.body, &body), "%s", got.body)
	return body.Cells, got.status
}

// requestEvery is the pause between two requests of a client.
const requestEvery = 10 * time.Millisecond

// startClients starts two clients for each key, which send one request after another until stop is
// called. stop returns all answers.
func startClients(t *testing.T, s *server, keys []string) (stop func() *answerLog) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	seen := &answerLog{}
	var all sync.WaitGroup
	for i, key := range slices.Concat(keys, keys) {
		all.Go(func() {
			caller, pace := s.client(key), time.NewTicker(requestEvery)
			defer pace.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				name := fmt.Sprintf("client %d %d", i, n)
				sent := []call{
					{method: http.MethodGet, path: "/labels?limit=1"}, creating(name, ""), creating(name+" once", strings.ReplaceAll(name, " ", "-")),
				}[n%3]
				seen.note(caller.once(t.Context(), sent))
				<-pace.C
			}
		})
	}
	return func() *answerLog {
		cancel()
		all.Wait()
		return seen
	}
}

// outage is the time from switching a proxy off to switching it on again.
type outage struct{ from, to time.Time }

// during switches a proxy off for span. It calls meanwhile while the proxy is off.
func during(t *testing.T, s *server, away *proc.Proxy, span time.Duration, meanwhile func()) outage {
	t.Helper()
	away.Off()
	seen := outage{from: time.Now()}
	meanwhile()
	require.Empty(t, s.health(t, span-time.Since(seen.from)), "/v1/health is about the process alone")
	seen.to = time.Now() // before it is back, because the machine may stand still in between
	away.On(t)
	return seen
}

// inside are the answers to requests that began and ended during the outage.
func (o outage) inside(all []answer) (inside []answer) {
	for _, got := range all {
		if !got.started.Before(o.from) && !got.started.Add(got.took).After(o.to) {
			inside = append(inside, got)
		}
	}
	return inside
}

// refusedAfter is the time from the end of the outage to the start of the last refused request.
func (o outage) refusedAfter(all []answer) (last time.Duration) {
	for _, got := range all {
		if got.status == http.StatusServiceUnavailable {
			last = max(last, got.started.Sub(o.to))
		}
	}
	return last
}
