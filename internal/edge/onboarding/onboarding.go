// Package onboarding serves the pages behind a setup link, on which an end-customer connects its number. The pages work
// without scripts. A GET changes nothing but the visitor's cookie: the number is connected by the POST of the number page.
//
//	GET  /setup/{token}             puts a session into a cookie, so that the token leaves the address bar
//	GET  /setup/links/{id}          the page of the state that the link is in
//	GET  /setup/links/{id}/dialog   goes to the provider's dialog
//	GET  /setup/callback            comes back from it with a code, which is exchanged for a token
//	GET  /setup/links/{id}/number   asks which number
//	POST /setup/links/{id}/number   connects it
//	POST /setup/links/{id}/pin      registers it with its PIN
//	GET  /setup/links/{id}/later    ends without a PIN
package onboarding

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/platform/clientip"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/ratelimit"
	"github.com/parley-chat/parley/internal/platform/sealed"
)

// Prefix is the start of all paths.
const Prefix = "/setup/"

// pageTimeout is the deadline of a page. Connecting asks the provider three times, and once for each business account that
// was granted. A registration that began goes on after it.
const pageTimeout = 25 * time.Second

// maxForm is the most that a form may have: a number or a PIN.
const maxForm = 4 << 10

// Deps are the dependencies of the pages.
type Deps struct {
	// Cells are the cells that this process serves, by name.
	Cells     map[string]*cell.Cell
	Directory *directory.Directory
	Clock     clock.Clock
	Ring      *sealed.Keyring
	// Guesses limits unknown tokens, per address.
	Guesses *ratelimit.Local
	Logger  *slog.Logger
	// PublicURL is where people reach the pages. Cookies are for https alone if it is https.
	PublicURL      string
	TrustedProxies []netip.Prefix
}

// Pages serves the pages.
type Pages struct {
	Deps

	box *sealed.Box
	// origin is that of PublicURL.
	origin string
	secure bool
	router *chi.Mux
	views  *views
}

// New builds the handler.
func New(deps Deps) (*Pages, error) {
	p := &Pages{Deps: deps, router: chi.NewRouter(), secure: strings.HasPrefix(deps.PublicURL, "https:")}
	public, err := url.Parse(deps.PublicURL)
	if err != nil {
		return nil, err
	}
	p.origin = public.Scheme + "://" + public.Host
	if p.box, err = deps.Ring.Box("setup sessions"); err != nil {
		return nil, err
	}
	if p.views, err = newViews(); err != nil {
		return nil, err
	}
	get := func(path string, handle func(*visit)) {
		p.router.Get(Prefix+path, p.visit(handle))
		p.router.Head(Prefix+path, p.visit(handle))
	}
	get("style.css", func(v *visit) { v.file("style.css", "text/css; charset=utf-8") })
	get("icon.svg", func(v *visit) { v.file("icon.svg", "image/svg+xml") })
	get("{token:[A-Za-z0-9_-]{43}}", (*visit).open)
	get("callback", (*visit).callback)
	get("links/{id}", (*visit).state)
	get("links/{id}/dialog", (*visit).dialog)
	get("links/{id}/number", (*visit).number)
	get("links/{id}/later", (*visit).later)
	p.router.Post(Prefix+"links/{id}/number", p.visit((*visit).connect))
	p.router.Post(Prefix+"links/{id}/pin", p.visit((*visit).register))
	unknown := p.visit(func(v *visit) { v.show(http.StatusNotFound, page{Name: "unknown"}) })
	p.router.NotFound(unknown)
	p.router.MethodNotAllowed(p.visit(func(v *visit) {
		v.w.Header().Set("Allow", p.allowed(v.r.URL.Path))
		v.show(http.StatusMethodNotAllowed, page{Name: "unavailable"})
	}))
	return p, nil
}

// allowed are the methods of a path.
func (p *Pages) allowed(path string) string {
	var methods []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		if p.router.Match(chi.NewRouteContext(), method, path) {
			methods = append(methods, method)
		}
	}
	return strings.Join(methods, ", ")
}

// ServeHTTP answers one request.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.router.ServeHTTP(w, r) }

// visit is one request.
type visit struct {
	*Pages

	w  http.ResponseWriter
	r  *http.Request
	ip netip.Addr
}

func (v *visit) ctx() context.Context { return v.r.Context() }

func (p *Pages) visit(handle func(*visit)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
		defer cancel()
		protect(w.Header())
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		v := &visit{Pages: p, w: w, r: r.WithContext(ctx), ip: clientip.Of(r, p.TrustedProxies)}
		// SameSite=Lax keeps the cookie out of POSTs from other sites. What browsers tell of the origin is checked as well.
		if r.Method == http.MethodPost && p.foreign(r.Header) {
			v.show(http.StatusForbidden, page{Name: "foreign"})
			return
		}
		handle(v)
	}
}

// foreign tells whether a form came from another site. Our pages send no referrer, for which some browsers write `Origin: null`.
func (p *Pages) foreign(header http.Header) bool {
	site, origin := header.Get("Sec-Fetch-Site"), header.Get("Origin")
	if site != "" {
		return site != "same-origin" && site != "none"
	}
	return origin != "" && origin != "null" && origin != p.origin
}

// protect sets the headers of every answer. Forms may end at the platform's own site (form-action): browsers apply it to
// redirects, too.
func protect(header http.Header) {
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; "+
		"form-action 'self' https: http://localhost:* http://127.0.0.1:*; frame-ancestors 'none'")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Robots-Tag", "noindex, nofollow")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=()")
}

// goTo redirects to a page or to another site. The method becomes GET.
func (v *visit) goTo(address string) {
	v.w.Header().Set("Location", address)
	v.w.WriteHeader(http.StatusSeeOther)
}

// pathOf is a page of a link.
func pathOf(link string, rest ...string) string {
	path, _ := url.JoinPath(Prefix+"links/"+link, rest...)
	return path
}
