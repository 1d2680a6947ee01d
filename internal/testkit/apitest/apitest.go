// Package apitest serves the API over HTTP with databases of the test's own, and checks every
// response against the contract.
package apitest

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/edge/api"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/ratelimit"
	"github.com/parley-chat/parley/internal/platform/sealed"
	"github.com/parley-chat/parley/internal/platform/telemetry"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/openapi"
)

// Server is the API with two cells. The name of the test decides in which of them its
// organizations are created. The responses must not depend on it.
type Server struct {
	*factory.World

	// Other is the cell without organizations of the test.
	Other *factory.World

	URL      string
	API      *api.API
	Contract *openapi.Contract

	urls  map[string]string
	trips atomic.Int64
}

// Options change the server. Zero fields mean the defaults.
type Options struct {
	// Beside is a server whose cells this one uses. Nil means cells of its own.
	Beside      *Server
	Masters     []string
	Guesses     ratelimit.Limit
	MaxInFlight int
	Proxies     []netip.Prefix
}

// New serves the API with the defaults.
func New(t testing.TB) *Server {
	t.Helper()
	return With(t, Options{})
}

// With serves the API with options.
func With(t testing.TB, options Options) *Server {
	t.Helper()
	options = options.orDefaults()
	s := &Server{}
	s.makeWorlds(t, options)
	var err error
	s.Contract, err = openapi.Load()
	require.NoError(t, err)
	ring, err := sealed.NewKeyring(options.Masters)
	require.NoError(t, err)
	cursors, err := paging.NewCursors(ring)
	require.NoError(t, err)
	limiter := ratelimit.New(ratelimit.Options{Clock: s.Clock})
	t.Cleanup(limiter.Close)
	s.API, err = api.New(api.Deps{
		Cells:     map[string]*cell.Cell{s.Name: s.Cell, s.Other.Name: s.Other.Cell},
		Directory: s.Directory, Contract: s.Contract, Clock: s.Clock, Cursors: cursors, Limiter: limiter,
		Guesses: ratelimit.NewLocal(options.Guesses, s.Clock), Metrics: telemetry.NewMetrics("test"),
		Logger: s.Logger, TrustedProxies: options.Proxies, PublicURL: "https://api.parley.test/", Version: "test", MaxInFlight: options.MaxInFlight,
		Patience: 30,
	})
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(tallied(t, s.API, &s.trips))
	server.Config.ErrorLog = slog.NewLogLogger(s.Logger.Handler(), slog.LevelError)
	server.Start()
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// makeWorlds makes two cells and their directory. A tracer counts the statements of each.
func (s *Server) makeWorlds(t testing.TB, options Options) {
	t.Helper()
	now, home, other := clock.NewManual(pgtest.Start()), "main", "second"
	if len(t.Name())%2 == 1 {
		home, other = other, home
	}
	if beside := options.Beside; beside != nil {
		now, s.urls, home, other = beside.Clock, beside.urls, beside.Name, beside.Other.Name
	} else {
		s.urls = map[string]string{home: pgtest.URL(t), other: pgtest.URL(t)}
	}
	routes := directory.New(pgtest.Connect(t, s.urls["main"], touch("directory")), now)
	made := factory.In(t, routes, now, map[string]*postgres.DB{
		home: pgtest.Connect(t, s.urls[home], touch(home)), other: pgtest.Connect(t, s.urls[other], touch(other)),
	}, options.Masters...)
	s.World, s.Other = made[home], made[other]
}

func (o Options) orDefaults() Options {
	if o.Masters == nil {
		o.Masters = []string{canary.Master}
	}
	if o.Guesses == (ratelimit.Limit{}) {
		o.Guesses = ratelimit.Limit{PerSecond: 1, Burst: 1_000_000}
	}
	if o.MaxInFlight == 0 {
		o.MaxInFlight = 1_000
	}
	return o
}

// DatabaseURL returns the URL of a cell's database. That of main has the directory too.
func (s *Server) DatabaseURL(cell string) string { return s.urls[cell] }

// RoundTrips returns how many round trips to the databases the requests of do made. Other requests
// must not run meanwhile. Send the same kind of request before, because the first use of a statement
// on a connection takes a round trip more.
func (s *Server) RoundTrips(do func()) int {
	before := s.trips.Load()
	do()
	return int(s.trips.Load() - before)
}

// Client creates an organization and an API key, and returns a client with the key.
func (s *Server) Client(t testing.TB) *Client {
	t.Helper()
	return s.clientIn(t, s.World)
}

// Neighbour is Client with an organization in the other cell.
func (s *Server) Neighbour(t testing.TB) *Client {
	t.Helper()
	return s.clientIn(t, s.Other)
}

func (s *Server) clientIn(t testing.TB, world *factory.World) *Client {
	t.Helper()
	org, team := world.Org(t)
	id, key := world.Key(t, org)
	return &Client{World: world, Org: org, Team: team, KeyID: id, server: s, key: key, http: newHTTP()}
}

// Anonymous returns a client without a key.
func (s *Server) Anonymous() *Client {
	return &Client{server: s, http: newHTTP()}
}

// newHTTP makes a client that shows a redirect instead of following it.
func newHTTP() *http.Client {
	return &http.Client{
		Timeout:       5 * time.Minute, // a test may upload 100 MB while the machine does much else
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
