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

// estate is two cells and their directory, each on a database of its own behind a proxy.
type estate struct {
	*world // of the cell main

	operator         *operator
	second, registry *proc.Proxy
	reached          proc.Settings
}

func newEstate(t *testing.T) *estate {
	t.Helper()
	e := &estate{world: newWorld(t), reached: proc.Settings{}}
	e.through(t, "PARLEY_DATABASE_URL", e.databaseURL)
	e.second = e.through(t, "PARLEY_CELL_SECOND_DATABASE_URL", newWorld(t).databaseURL)
	e.registry = e.through(t, "PARLEY_DIRECTORY_DATABASE_URL", pgtest.URL(t))
	e.operator = &operator{t: t, settings: e.settings().With(e.reached)}
	migrated := proc.Run(t, e.operator.settings, "migrate")
	require.Equal(t, 0, migrated.Code, migrated.Stderr)
	return e
}

// through puts a proxy before a database and makes it the value of a setting.
func (e *estate) through(t *testing.T, setting, databaseURL string) *proc.Proxy {
	t.Helper()
	address, err := url.Parse(databaseURL)
	require.NoError(t, err)
	proxy := proc.NewProxy(t, address.Host)
	address.Host = proxy.Address
	e.reached[setting] = address.String()
	return proxy
}

// serve starts a process on all that the estate has.
func (e *estate) serve(t *testing.T, more proc.Settings) *server {
	t.Helper()
	return e.world.serve(t, e.reached.With(more))
}

// settle creates n organizations and returns their ids by cell, in the order of their creation.
func (e *estate) settle(t *testing.T, n int) (inMain, inSecond []string) {
	t.Helper()
	made := make([]string, n)
	for i := range made {
		made[i] = e.operator.object("org", "create", "--name", fmt.Sprint("Org ", i), "--plan", unlimited)["id"].(string)
	}
	cells := e.cells()
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

// cells tells what `admin org list` says about where each organization lives.
func (e *estate) cells() map[string]string {
	cells := map[string]string{}
	for _, org := range e.operator.list("org", "list") {
		cells[org["id"].(string)], _ = org["cell"].(string)
	}
	return cells
}

// keyFor issues a key by a process that is not the one under test, which has not seen it.
func (e *estate) keyFor(org string) string {
	return e.operator.object("key", "create", "--name", "cells", "--org", org)["api_key"].(string)
}

func (e *estate) keysFor(organizations []string) []string {
	keys := make([]string, len(organizations))
	for i, org := range organizations {
		keys[i] = e.keyFor(org)
	}
	return keys
}

// readiness is what /readyz says of each cell, and its status.
func (s *server) readiness(t *testing.T) (cells map[string]string, status int) {
	t.Helper()
	got, err := s.ask(t.Context(), "/readyz")
	require.NoError(t, err)
	var body struct{ Cells map[string]string }
	require.NoError(t, json.Unmarshal(got.body, &body), "%s", got.body)
	return body.Cells, got.status
}

const stride = 10 * time.Millisecond

// drive lets two clients of each key send one request after another until it is called off.
func drive(t *testing.T, s *server, keys []string) (calledOff func() *crush) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	seen := &crush{}
	var all sync.WaitGroup
	for i, key := range slices.Concat(keys, keys) {
		all.Go(func() {
			caller, pace := s.client(key), time.NewTicker(stride)
			defer pace.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				name := fmt.Sprintf("drive %d %d", i, n)
				sent := []call{
					{method: http.MethodGet, path: "/labels?limit=1"}, creating(name, ""), creating(name+" once", strings.ReplaceAll(name, " ", "-")),
				}[n%3]
				seen.note(caller.once(t.Context(), sent))
				<-pace.C
			}
		})
	}
	return func() *crush {
		cancel()
		all.Wait()
		return seen
	}
}

// outage is when something was switched off and on again.
type outage struct{ from, to time.Time }

// during switches a proxy off for so long; meanwhile looks at the process once it is off.
func during(t *testing.T, s *server, away *proc.Proxy, span time.Duration, meanwhile func()) outage {
	t.Helper()
	away.Off()
	seen := outage{from: time.Now()}
	meanwhile()
	require.Empty(t, s.health(t, span-time.Since(seen.from)), "/v1/health is about the process alone")
	away.On(t)
	seen.to = time.Now()
	return seen
}

// inside are the answers that began and ended while it lasted.
func (o outage) inside(all []answer) (inside []answer) {
	for _, got := range all {
		if !got.started.Before(o.from) && !got.started.Add(got.took).After(o.to) {
			inside = append(inside, got)
		}
	}
	return inside
}

// refusedAfter is when after the return the last request began that was refused.
func (o outage) refusedAfter(all []answer) (last time.Duration) {
	for _, got := range all {
		if got.status == http.StatusServiceUnavailable {
			last = max(last, got.started.Sub(o.to))
		}
	}
	return last
}
