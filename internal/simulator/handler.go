package simulator

import (
	"errors"
	"net/http"
	"strings"

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
	r    *http.Request
	id   string // of the path, where it has one
	call *call
}

// into reads the body over what is already there, so that absent fields stay.
func (c *controlled) into(target any) error {
	if err := c.call.read(); err != nil {
		return err
	}
	return convert(c.call.form, target)
}

type control func(s *Simulator, c *controlled) (any, error)

// controls are the paths under /sim; `*` stands for an id.
var controls = map[string]control{
	"POST inbound":              (*Simulator).simInbound,
	"GET sent":                  (*Simulator).simSent,
	"POST script":               (*Simulator).simScript,
	"GET script":                (*Simulator).simScripts,
	"DELETE script":             (*Simulator).simClearScripts,
	"GET settings":              (*Simulator).simReadSettings,
	"POST settings":             (*Simulator).simSettings,
	"POST templates/*/review":   (*Simulator).simReview,
	"POST templates/*/quality":  (*Simulator).simTemplateQuality,
	"POST templates/*/category": (*Simulator).simTemplateCategory,
	"POST preferences":          (*Simulator).simPreferences,
	"POST system":               (*Simulator).simSystem,
	"POST echo":                 (*Simulator).simEcho,
	"POST account-update":       (*Simulator).simAccountUpdate,
	"POST notify":               (*Simulator).simNotify,
	"POST reset":                (*Simulator).simReset,
	"POST clock":                (*Simulator).simClock,
	"GET state":                 (*Simulator).simState,
	"GET thread":                (*Simulator).simThread,
	"GET stats":                 (*Simulator).simStats,
	"GET callbacks":             (*Simulator).simCallbacks,
	"POST apps":                 (*Simulator).simApp,
	"POST accounts":             (*Simulator).simAccount,
	"POST numbers":              (*Simulator).simNumber,
	"POST users":                (*Simulator).simUser,
	"POST tokens":               (*Simulator).simToken,
	"POST signup":               (*Simulator).simSignup,
	"POST media":                (*Simulator).simMedia,
}

func (s *Simulator) control(w http.ResponseWriter, r *http.Request) {
	c := &controlled{r: r, call: &call{w: w, r: r, now: s.Now()}}
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
		s.answer(w, http.StatusNotFound, object{"error": object{"message": "no such control: " + r.Method + " /sim/" + path}})
		return
	}
	body, err := handle(s, c)
	if refusal := new(wire.Error); errors.As(err, &refusal) {
		s.answer(w, http.StatusBadRequest, object{"error": object{"message": refusal.Details, "code": refusal.Code}})
		return
	}
	if err != nil {
		s.answer(w, http.StatusBadRequest, object{"error": object{"message": err.Error()}})
		return
	}
	s.answer(w, http.StatusOK, body)
}
