// Package callbacks is where the provider pushes: it verifies the raw bytes, has them
// stored in the cells of whom they concern, and answers 200 only then. Nothing is applied
// here. What belongs to nobody is kept in quarantine.
package callbacks

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/provider"
)

// Path is where the provider finds us.
const Path = "/provider/callbacks"

const (
	maxBody = 4 << 20
	// maxHeld is how many bytes of bodies a process holds at once.
	maxHeld = 256 << 20
	// unknownLength is what a body without a length is expected to have at most.
	unknownLength = maxBody
	timeout       = 10 * time.Second
	retryAfter    = 5 * time.Second
)

// Deps is what the ingress stands on.
type Deps struct {
	// Cells are those that this process serves, by name.
	Cells     map[string]*cell.Cell
	Directory *directory.Directory
	Provider  provider.Callbacks
	Logger    *slog.Logger
}

// Ingress takes callbacks.
type Ingress struct {
	Deps

	// The counter is by how callbacks were answered.
	*prometheus.CounterVec

	held *semaphore.Weighted
}

// New builds the handler.
func New(deps Deps) *Ingress {
	counter := prometheus.CounterOpts{Name: "parley_provider_callbacks_total", Help: "Callbacks of the provider, by how they were answered."}
	return &Ingress{Deps: deps, CounterVec: prometheus.NewCounterVec(counter, []string{"answer"}), held: semaphore.NewWeighted(maxHeld)}
}

// ServeHTTP answers the provider: a challenge by GET, a callback by POST.
func (i *Ingress) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		i.challenge(w, r)
	case http.MethodPost:
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		i.answer(ctx, w, i.take(ctx, w, r))
	default:
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "Callbacks are posted.", http.StatusMethodNotAllowed)
	}
}

func (i *Ingress) challenge(w http.ResponseWriter, r *http.Request) {
	answer, ours := i.Provider.Challenge(r.URL.Query())
	if !ours {
		http.Error(w, "The verify token is not the one of this address: compare it with PARLEY_PROVIDER_VERIFY_TOKEN.", http.StatusForbidden)
		return
	}
	_, _ = io.WriteString(w, answer) //nolint:gosec // plain text, and never sniffed
}

// refusal is an answer other than 200.
type refusal struct {
	status int
	name   string
	words  string
}

func (r *refusal) Error() string { return r.words }

var (
	errTooLarge = &refusal{http.StatusRequestEntityTooLarge, "too_large", "A callback has at most 4 MiB."}
	errBroken   = &refusal{http.StatusBadRequest, "broken", "The body ended before its time."}
	errForged   = &refusal{http.StatusUnauthorized, "forged", "The signature does not fit the body."}
	errBusy     = &refusal{http.StatusServiceUnavailable, "busy", "Try again in a moment."}
)

// take reads, verifies and stores one callback.
func (i *Ingress) take(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	expected := r.ContentLength
	switch {
	case expected > maxBody:
		return errTooLarge
	case expected < 0:
		expected = unknownLength
	}
	if !i.held.TryAcquire(expected) {
		return errBusy
	}
	defer i.held.Release(expected)
	body, err := read(w, r, expected)
	if err != nil {
		return err
	}
	if _, err := i.Provider.Verify(r.Header, body); err != nil {
		i.Logger.WarnContext(ctx, "callback.forged", "reason", err)
		return errForged
	}
	_, err = i.store(ctx, body)
	return err
}

func read(w http.ResponseWriter, r *http.Request, expected int64) ([]byte, error) {
	body := make([]byte, 0, min(expected, 64<<10)+512)
	limited := http.MaxBytesReader(w, r.Body, maxBody)
	for {
		n, err := limited.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if errors.Is(err, io.EOF) {
			return body, nil
		}
		if err != nil {
			if _, large := errors.AsType[*http.MaxBytesError](err); large {
				return nil, errTooLarge
			}
			return nil, errBroken
		}
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
	}
}

// answer tells the provider. Whatever is not stored must come again.
func (i *Ingress) answer(ctx context.Context, w http.ResponseWriter, err error) {
	if err == nil {
		i.WithLabelValues("stored").Inc()
		w.WriteHeader(http.StatusOK)
		return
	}
	refused, known := errors.AsType[*refusal](err)
	if !known {
		i.Logger.WarnContext(ctx, "callback.not_stored", "error", err)
		refused = errBusy
	}
	i.WithLabelValues(refused.name).Inc()
	if refused.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
	}
	http.Error(w, refused.words, refused.status)
}
