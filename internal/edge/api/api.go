// Package api is the public REST API under /v1. Each route runs the same pipeline, which is in
// pipeline.go. A handler takes a call and returns a reply or an error; it cannot write to the
// connection. Rules of the product are in the domain; this package only knows HTTP.
package api

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"github.com/go-chi/chi/v5"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.opentelemetry.io/otel/trace"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/ratelimit"
	"github.com/parley-chat/parley/internal/platform/telemetry"
	"github.com/parley-chat/parley/openapi"
)

// Deps are the dependencies of the API. All but Tracer, PublicURL, TrustedProxies and Version are
// required.
type Deps struct {
	// Cells are the cells that this process serves, by name.
	Cells     map[string]*cell.Cell
	Directory *directory.Directory
	Contract  *openapi.Contract
	Clock     clock.Clock
	Cursors   *paging.Cursors
	Limiter   *ratelimit.Limiter
	// Guesses limits requests with a bad key, per address.
	Guesses *ratelimit.Local
	Metrics *telemetry.Metrics
	Logger  *slog.Logger
	// PublicURL is where clients reach this server, without /v1.
	PublicURL string
	// TrustedProxies are the networks whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	Version        string
	// Tracer is nil when tracing is off.
	Tracer trace.Tracer
	// ListsPerOrg is how many lists of one organization run at once; further ones wait. Default: 1.
	ListsPerOrg int
	// MaxInFlight is how many requests may be authenticated at once in each cell, and how many may be in their handlers;
	// a quarter of them of one organization. Further ones answer 503; less urgent classes are refused earlier.
	MaxInFlight int
	// Patience multiplies the deadlines of requests, for machines that also build and test programs. Default: 1.
	Patience int
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

	// identify finds the organization and the key of a request.
	identify func(*call) error
	// lookups limits how many unknown keys are looked up for an address that has no guesses left.
	lookups *ratelimit.Local
	// arriving has the gate of the requests that are being authenticated, and handling that of those in their handler, for
	// each cell: a slow cell fills only its own, and requests that arrive do not keep out those that have begun.
	arriving, handling map[string]*gate
	comebacks          map[string]*comeback
	uploads            *places
	lists              *places
	router             *chi.Mux
	// plain has the paths that do not end in a parameter, with their methods.
	plain  map[string][]string
	served []*openapi.Operation
	// document is built by the first request for it, because that takes longer than the rest of New.
	document func() (document, error)
	// sends has the schemas of the bodies of POST messages (sendSchemas).
	sends map[string]*jsonschema.Schema
}

// New checks that every route is in the contract, and builds the handler.
func New(deps Deps) (*API, error) {
	if err := deps.check(); err != nil {
		return nil, err
	}
	a := &API{
		Deps: deps, arriving: map[string]*gate{}, handling: map[string]*gate{}, comebacks: map[string]*comeback{},
		router: chi.NewRouter(), plain: map[string][]string{},
	}
	a.uploads = newPlaces(uploadsAtOnce, uploadsPerOrg, uploadWait)
	a.lists = newPlaces(int64(deps.MaxInFlight), int64(max(1, deps.ListsPerOrg)), a.within(listTimeout))
	for name := range deps.Cells {
		a.arriving[name], a.handling[name] = newGate(deps.MaxInFlight), newGate(deps.MaxInFlight)
		a.comebacks[name] = &comeback{clock: deps.Clock}
	}
	a.identify, a.lookups = a.byKey, ratelimit.NewLocal(lookupLimit, deps.Clock)
	var err error
	if a.sends, err = sendSchemas(deps.Contract); err != nil {
		return nil, err
	}
	named := map[string][]string{}
	for _, route := range a.routes() {
		operation, found := deps.Contract.Operation(route.method, route.path)
		if !found {
			return nil, fmt.Errorf("api: %s %s is not in the contract", route.method, route.path)
		}
		route.operation = operation
		a.served = append(a.served, operation)
		a.add(route, named)
	}
	for _, route := range a.unserved() {
		a.add(route, named)
	}
	a.refusePlain(named)
	a.document = sync.OnceValues(func() (document, error) { return newDocument(deps.Contract, a.served, deps.PublicURL) })
	a.router.NotFound(a.serve(&route{class: single, handler: a.noSuchNumber}))
	a.router.MethodNotAllowed(a.serve(&route{class: single, handler: a.methodNotAllowed}))
	return a, nil
}

// add routes a method and path to its handler. named collects the methods of paths that end in a name.
func (a *API) add(route *route, named map[string][]string) {
	pattern := prefix + chiPath(route.path)
	methods := []string{route.method}
	if route.method == http.MethodGet {
		methods = append(methods, http.MethodHead) // net/http sends the header of the answer alone
	}
	for _, method := range methods {
		a.router.Method(method, pattern, a.serve(route))
	}
	if folder, isName := strings.CutSuffix(pattern, "/{name}"); isName {
		named[folder] = append(named[folder], methods...)
	} else if !strings.HasSuffix(pattern, "}") {
		a.plain[pattern] = append(a.plain[pattern], methods...)
	}
}

// Served lists the operations of the contract that have a handler.
func (a *API) Served() []*openapi.Operation { return a.served }

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.router.ServeHTTP(w, r) }
