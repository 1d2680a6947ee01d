// Package simulator is a stand-in for the messaging network: the other side of the
// provider's API, written from the description of the wire alone. It imports neither the
// adapter nor the domain, so that a mistake in them is not repeated here. All state is in
// memory and bounded.
//
// The packages below it: state (what the network knows, and what happens with time), graph
// (the provider's API), control (the API under /sim), dispatcher (posts callbacks), scheduler
// (runs functions when they are due), content (rules for messages and templates), wire (ids and
// error codes), page (the phone in the browser).
//
// Tests and developers control it through /sim (docs/guides/simulator.md) and through the
// recipient's number:
//
//	+1 555 4 CCCCCC   the send is refused with error code CCCCCC (000190, 131056 …)
//	+1 555 2 CCCCCC   the send is accepted, and fails later with error code CCCCCC
//	+1 555 9 000HHH   the send is answered with HTTP status HHH
//	+1 555 9 00000N   1 held, then delivered; 2 held, then dropped; 3 accepted, the connection
//	                  is cut; 4 accepted, the answer is not JSON; 5 answered after 5 seconds;
//	                  6 no status; 7 each status twice; 8 stays at sent; 9 never read
//
// A two-step PIN that is the code of a registration error (133005 …) forces that error.
package simulator

import (
	"context"
	"net/http"
	"strings"

	"github.com/parley-chat/parley/internal/platform/statuswriter"
	"github.com/parley-chat/parley/internal/simulator/control"
	"github.com/parley-chat/parley/internal/simulator/dispatcher"
	"github.com/parley-chat/parley/internal/simulator/graph"
	"github.com/parley-chat/parley/internal/simulator/page"
	"github.com/parley-chat/parley/internal/simulator/state"
)

// Config says how a simulator starts. The zero value works.
type Config = state.Config

// The app, token, business and number that exist after the start and after a reset.
const (
	DefaultAppID         = state.DefaultAppID
	DefaultAppSecret     = state.DefaultAppSecret
	DefaultVerifyToken   = state.DefaultVerifyToken
	DefaultToken         = state.DefaultToken
	DefaultBusinessID    = state.DefaultBusinessID
	DefaultAccountID     = state.DefaultAccountID
	DefaultPhoneNumberID = state.DefaultPhoneNumberID
)

// Simulator is the simulated network with its HTTP interface.
type Simulator struct{ simulation *state.Simulation }

// New builds a simulator with its fixture. Callbacks are queued until Run.
func New(config Config) *Simulator { return &Simulator{state.New(config)} }

// Run posts callbacks and runs what is due until ctx ends.
func (s *Simulator) Run(ctx context.Context) error {
	s.simulation.Run(ctx)
	return nil
}

// SetCallbackURL changes where the first app's callbacks go. A reset keeps it.
func (s *Simulator) SetCallbackURL(address string) { s.simulation.SetCallbackURL(address) }

// CheckCallbackURL refuses a URL to which callbacks cannot be posted.
func CheckCallbackURL(address string) error { return dispatcher.CheckURL(address) }

// Handler serves the phone page at /, control under /sim, files at the media host's
// path, and the provider's API everywhere else.
func (s *Simulator) Handler() http.Handler {
	assets := page.Handler()
	api, sim := &graph.Server{Simulation: s.simulation}, &control.Server{Simulation: s.simulation}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case path == "/" || strings.HasPrefix(path, "/page/") || path == "/favicon.ico":
			assets.ServeHTTP(w, r)
		case strings.HasSuffix(path, "/sdk.js"):
			page.ServeSDK(w, r)
		case path == "/sim/events":
			s.simulation.Feed.ServeHTTP(w, r)
		case strings.HasPrefix(path, "/sim/"):
			sim.ServeHTTP(w, r)
		case strings.HasPrefix(path, state.MediaPath):
			api.ServeMedia(w, r)
		default:
			recorder := statuswriter.New(w)
			api.ServeHTTP(recorder, r)
			// Only the path is logged: a query may carry tokens, codes and secrets.
			s.simulation.Config.Logger.DebugContext(r.Context(), "request.handled", "method", r.Method, "path", path, "status", recorder.Status)
		}
	})
}
