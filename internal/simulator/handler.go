package simulator

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/simulator/page"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// Handler serves the phone page at /, control under /sim, files at the media host's
// path, and the network's own paths everywhere else.
func (s *Simulator) Handler() http.Handler {
	assets := page.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case path == "/" || strings.HasPrefix(path, "/page/") || path == "/favicon.ico":
			assets.ServeHTTP(w, r)
		case strings.HasSuffix(path, "/sdk.js"):
			page.ServeSDK(w, r)
		case path == "/sim/events":
			s.events(w, r)
		case strings.HasPrefix(path, "/sim/"):
			s.control(w, r)
		case strings.HasPrefix(path, attachments):
			s.download(w, r)
		default:
			watched := &statusWriter{ResponseWriter: w, status: http.StatusOK}
			s.graph(watched, r)
			// Only the path: a query may carry tokens, codes and secrets.
			s.logger.DebugContext(r.Context(), "request.handled", "method", r.Method, "path", path, "status", watched.status)
		}
	})
}

type statusWriter struct {
	http.ResponseWriter

	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// base is where clients reach this simulator.
func (s *Simulator) base(r *http.Request) string {
	if s.config.BaseURL != "" {
		return s.config.BaseURL
	}
	if r == nil || r.Host == "" {
		return ""
	}
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// controlled is one request under /sim.
type controlled struct {
	w    http.ResponseWriter
	r    *http.Request
	id   string // of the path, where it has one
	now  time.Time
	form wire.Form
}

// into reads the body over what is already there, so that absent fields stay.
func (c *controlled) into(target any) error { return convert(c.form, target) }

type control func(s *Simulator, c *controlled) (any, error)

// lockedC holds the lock while handle runs.
func lockedC(handle control) control {
	return func(s *Simulator, c *controlled) (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return handle(s, c)
	}
}

// formC reads the form of a request before handle runs.
func formC(handle control) control {
	return func(s *Simulator, c *controlled) (answer any, err error) {
		if c.form, err = wire.ReadForm(c.w, c.r); err != nil {
			return nil, err
		}
		return handle(s, c)
	}
}

// decoded reads the form into the argument of handle, and holds the lock while it runs.
func decoded[In any](handle func(s *Simulator, c *controlled, in In) (any, error)) control {
	return formC(lockedC(func(s *Simulator, c *controlled) (any, error) {
		var in In
		if err := c.into(&in); err != nil {
			return nil, err
		}
		return handle(s, c, in)
	}))
}

// controls are the paths under /sim; `*` stands for an id.
var controls = map[string]control{
	"POST inbound":              decoded((*Simulator).simInbound),
	"GET sent":                  lockedC((*Simulator).simSent),
	"POST script":               formC(lockedC((*Simulator).simScript)),
	"GET script":                lockedC((*Simulator).simScripts),
	"DELETE script":             lockedC((*Simulator).simClearScripts),
	"GET settings":              lockedC((*Simulator).simReadSettings),
	"POST settings":             formC(lockedC((*Simulator).simSettings)),
	"POST templates/*/review":   decoded((*Simulator).simReview),
	"POST templates/*/quality":  formC(lockedC((*Simulator).simTemplateQuality)),
	"POST templates/*/category": formC(lockedC((*Simulator).simTemplateCategory)),
	"POST preferences":          decoded((*Simulator).simPreferences),
	"POST system":               decoded((*Simulator).simSystem),
	"POST echo":                 decoded((*Simulator).simEcho),
	"POST account-update":       formC(lockedC((*Simulator).simAccountUpdate)),
	"POST notify":               decoded((*Simulator).simNotify),
	"POST reset":                (*Simulator).simReset,
	"POST clock":                formC((*Simulator).simClock),
	"GET state":                 lockedC((*Simulator).simState),
	"GET thread":                lockedC((*Simulator).simThread),
	"GET stats":                 (*Simulator).simStats,
	"GET callbacks":             lockedC((*Simulator).simCallbacks),
	"POST apps":                 formC((*Simulator).simApp),
	"POST accounts":             formC(lockedC((*Simulator).simAccount)),
	"POST numbers":              decoded((*Simulator).simNumber),
	"POST users":                formC(lockedC((*Simulator).simUser)),
	"POST tokens":               formC(lockedC((*Simulator).simToken)),
	"POST signup":               decoded((*Simulator).simSignup),
	"POST media":                (*Simulator).simMedia,
}

func (s *Simulator) control(w http.ResponseWriter, r *http.Request) {
	c := &controlled{w: w, r: r, now: s.Now()}
	path := strings.Trim(strings.TrimPrefix(r.URL.Path, "/sim/"), "/")
	if segments := strings.Split(path, "/"); len(segments) == 3 {
		c.id, segments[1] = segments[1], "*"
		path = strings.Join(segments, "/")
	}
	if id, isFile := strings.CutPrefix(path, "media/"); isFile && r.Method == http.MethodGet {
		s.peek(w, r, id)
		return
	}
	handle, found := controls[r.Method+" "+path]
	if !found {
		wire.Answer(w, http.StatusNotFound, object{"error": object{"message": "no such control: " + r.Method + " /sim/" + path}})
		return
	}
	body, err := handle(s, c)
	if refusal := new(wire.Error); errors.As(err, &refusal) {
		wire.Answer(w, http.StatusBadRequest, object{"error": object{"message": refusal.Details, "code": refusal.Code}})
		return
	}
	if err != nil {
		wire.Answer(w, http.StatusBadRequest, object{"error": object{"message": err.Error()}})
		return
	}
	wire.Answer(w, http.StatusOK, body)
}
