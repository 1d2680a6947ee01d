// Package api is the public REST API under /v1. Each route runs the same pipeline, read
// top to bottom in pipeline.go; a handler takes a call and returns a reply or an error,
// and never touches the socket. Rules live in the domain; this package knows HTTP.
package api

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"

	"github.com/go-chi/chi/v5"
	"go.opentelemetry.io/otel/trace"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/ratelimit"
	"github.com/parley-chat/parley/internal/platform/telemetry"
	"github.com/parley-chat/parley/openapi"
)

// Deps is everything the API stands on; none may be missing.
type Deps struct {
	// Cells are those that this process serves, by name.
	Cells          map[string]*cell.Cell
	Directory      *directory.Directory
	Contract       *openapi.Contract
	Clock          clock.Clock
	Cursors        *paging.Cursors
	Limiter        *ratelimit.Limiter
	Guesses        *ratelimit.Local
	Metrics        *telemetry.Metrics
	Logger         *slog.Logger
	TrustedProxies []netip.Prefix
	Version        string
	// Tracer is nil when nothing is traced.
	Tracer trace.Tracer
	// MaxInFlight is how many requests are worked on at once in each cell; past it the least
	// urgent are shed.
	MaxInFlight int
}

func (d Deps) check() error {
	if len(d.Cells) == 0 || d.Directory == nil || d.Contract == nil || d.Clock == nil || d.Cursors == nil || d.Limiter == nil ||
		d.Guesses == nil || d.Metrics == nil || d.Logger == nil || d.MaxInFlight == 0 {
		return errors.New("api: a dependency is missing")
	}
	return nil
}

// API serves the contract.
type API struct {
	Deps

	// identify finds out who calls. Handlers do not care how.
	identify func(*call) error
	// gates are one for each cell: a cell that is slow fills only its own.
	gates  map[string]*gate
	router *chi.Mux
	// plain are the paths that do not end in a parameter, and their verbs.
	plain  map[string][]string
	served []*openapi.Operation
}

// New checks that every route stands in the contract and builds the handler.
func New(deps Deps) (*API, error) {
	if err := deps.check(); err != nil {
		return nil, err
	}
	a := &API{Deps: deps, gates: map[string]*gate{}, router: chi.NewRouter(), plain: map[string][]string{}}
	for name := range deps.Cells {
		a.gates[name] = newGate(deps.MaxInFlight)
	}
	a.identify = a.byKey
	named := map[string][]string{}
	for _, route := range a.routes() {
		operation, found := deps.Contract.Operation(route.method, route.path)
		if !found {
			return nil, fmt.Errorf("api: %s %s is not in the contract", route.method, route.path)
		}
		route.operation = operation
		a.served = append(a.served, operation)
		pattern := prefix + chiPath(route.path)
		a.router.Method(route.method, pattern, a.serve(route))
		if folder, isName := strings.CutSuffix(pattern, "/{name}"); isName {
			named[folder] = append(named[folder], route.method)
		} else if !strings.HasSuffix(pattern, "}") {
			a.plain[pattern] = append(a.plain[pattern], route.method)
		}
	}
	a.refusePlain(named)
	a.router.NotFound(a.serve(&route{class: single, handler: a.noSuchNumber}))
	a.router.MethodNotAllowed(a.serve(&route{class: single, handler: a.methodNotAllowed}))
	return a, nil
}

// Served lists the operations of the contract that have a handler.
func (a *API) Served() []*openapi.Operation { return a.served }

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.router.ServeHTTP(w, r) }
