// Package callbacks is the endpoint that the provider pushes to. It verifies the signature of
// the raw bytes, finds the numbers and business accounts that they name, and answers 200 after
// the cells have stored every part. Nothing is applied here. A part that no organization owns
// goes to quarantine.
package callbacks

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/platform/clientip"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/telemetry"
	"github.com/parley-chat/parley/internal/provider"
)

// Path is the callback address that the operator enters at the provider.
const Path = "/provider/callbacks"

const (
	retryAfter = 5 * time.Second
	// defaultTimeout is how long a callback may take.
	defaultTimeout = 10 * time.Second
)

// Deps is what the ingress needs.
type Deps struct {
	// Cells are the cells that this process serves, by name.
	Cells     map[string]*cell.Cell
	Directory *directory.Directory
	Provider  provider.Callbacks
	// TrustedProxies are the networks whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	Logger         *slog.Logger
}

// Ingress receives callbacks.
type Ingress struct {
	Deps

	// The counter counts callbacks by answer and, under `quarantined`, the parts that went to quarantine.
	*prometheus.CounterVec

	bodies  *bodies
	timeout time.Duration
	// forged bounds how often a forged callback is logged. The counter counts all of them.
	forged rate.Sometimes
	// repeating logs callbacks that could not be stored.
	repeating *slog.Logger
}

// New builds the handler.
func New(deps Deps) *Ingress {
	counter := prometheus.CounterOpts{Name: "parley_provider_callbacks_total", Help: "Callbacks of the provider, by how they were answered."}
	return &Ingress{
		Deps: deps, CounterVec: prometheus.NewCounterVec(counter, []string{"answer"}),
		bodies: newBodies(), timeout: defaultTimeout, forged: rate.Sometimes{Interval: time.Second}, repeating: telemetry.Repeating(deps.Logger),
	}
}

// ServeHTTP answers a challenge (GET) or a callback (POST).
func (i *Ingress) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		i.challenge(w, r)
	case http.MethodPost:
		ctx, cancel := context.WithTimeout(r.Context(), i.timeout)
		defer cancel()
		i.answer(ctx, w, i.receive(ctx, w, r))
	default:
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "Send callbacks with POST.", http.StatusMethodNotAllowed)
	}
}

func (i *Ingress) challenge(w http.ResponseWriter, r *http.Request) {
	answer, ours := i.Provider.Challenge(r.URL.Query())
	if !ours {
		http.Error(w, "The verify token is wrong: compare it with PARLEY_PROVIDER_VERIFY_TOKEN.", http.StatusForbidden)
		return
	}
	_, _ = io.WriteString(w, answer) //nolint:gosec // text/plain with nosniff
}

// refusal is an answer other than 200.
type refusal struct {
	status int
	// label is the value of the metric's label `answer`.
	label   string
	message string
}

func (r *refusal) Error() string { return r.message }

var (
	errTooLarge = &refusal{http.StatusRequestEntityTooLarge, "too_large", "A callback body must not exceed 4 MiB."}
	errBroken   = &refusal{http.StatusBadRequest, "broken", "The request body is shorter than its Content-Length."}
	errForged   = &refusal{http.StatusUnauthorized, "forged", "The signature does not match the body."}
	errBusy     = &refusal{http.StatusServiceUnavailable, "busy", "The callback was not stored. Push it again."}
)

// peer is the caller whose share of the memory a body counts against.
func (i *Ingress) peer(r *http.Request) string {
	return clientip.Bucket(clientip.Of(r, i.TrustedProxies))
}

// receive reads, verifies and stores one callback.
func (i *Ingress) receive(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength > maxBody {
		return errTooLarge
	}
	received := i.bodies.open(i.peer(r), func() {
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // in the past: a read that waits fails
	})
	defer received.close()
	if err := received.read(w, r); err != nil {
		return err
	}
	if _, err := i.Provider.Verify(r.Header, received.chunks...); err != nil {
		i.forged.Do(func() { i.Logger.WarnContext(ctx, "callback.forged", "reason", err) })
		return errForged
	}
	whole, err := received.join()
	if err != nil {
		return err
	}
	_, err = i.store(ctx, whole, time.Time{})
	return err
}

// answer writes the status. The provider pushes again what it gets no 200 for.
func (i *Ingress) answer(ctx context.Context, w http.ResponseWriter, err error) {
	if err == nil {
		i.WithLabelValues("stored").Inc()
		w.WriteHeader(http.StatusOK)
		return
	}
	refused, known := errors.AsType[*refusal](err)
	if !known {
		i.repeating.WarnContext(ctx, "callback.not_stored", "error", err)
		refused = errBusy
	}
	i.WithLabelValues(refused.label).Inc()
	if refused.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
	}
	http.Error(w, refused.message, refused.status)
}
