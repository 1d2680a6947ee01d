package onboarding

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/setuplinks"
	"github.com/parley-chat/parley/internal/provider"
)

const (
	// sessionLife is how long a visitor may take: creating a business in the provider's dialog takes a while. The link
	// itself opens a new session.
	sessionLife = time.Hour
	// tokenLife is how long a granted token waits for the visitor's choice.
	tokenLife = 15 * time.Minute
)

// session is what the visitor's cookie holds, sealed: nothing of it is stored here. A browser has one for each link.
type session struct {
	Org  orgs.ID       `json:"org"`
	Link setuplinks.ID `json:"link"`
	// Secret proves that the dialog came back to the browser that opened it.
	Secret string    `json:"secret"`
	Until  time.Time `json:"until"`
	// Token is what the provider granted; empty before the dialog and after the number is connected.
	Token      string    `json:"token,omitempty"`
	TokenUntil time.Time `json:"token_until,omitzero"`
	// Code is the hash of the code that was exchanged for the token.
	Code []byte `json:"code,omitempty"`
	// Number is the number that was connected, as the provider writes it for people; empty before.
	Number string `json:"number,omitempty"`

	cell *cell.Cell
}

func newSession(org orgs.ID, link setuplinks.ID) *session {
	return &session{Org: org, Link: link, Secret: rand.Text()}
}

// state is what the dialog carries back.
func (s *session) state() string { return s.Link.String() + "." + s.Secret }

// granted is the token that waits, or an empty one.
func (s *session) granted(now time.Time) provider.Token {
	if !now.Before(s.TokenUntil) {
		return provider.Token{}
	}
	return provider.NewToken(s.Token)
}

// grant keeps the token that a code was exchanged for.
func (s *session) grant(token provider.Token, code string, now time.Time) {
	s.Token, s.TokenUntil, s.Code = token.Reveal(), now.Add(tokenLife), hashOf(code)
}

// exchanged tells whether the code was exchanged for the token that waits: the page was loaded again.
func (s *session) exchanged(code string, now time.Time) bool {
	return !s.granted(now).Empty() && subtle.ConstantTimeCompare(s.Code, hashOf(code)) == 1
}

func hashOf(code string) []byte {
	digest := sha256.Sum256([]byte(code))
	return digest[:]
}

func cookieName(link string) string { return "parley_" + link }

// placeOf binds a sealed session to the cookie of its link.
func placeOf(link string) []byte { return []byte("setup session " + link) }

// keep sets the cookie, for another hour.
func (v *visit) keep(s *session) error {
	s.Until = v.Clock.Now().Add(sessionLife)
	plain, err := json.Marshal(s)
	if err != nil {
		return err
	}
	value, err := v.box.Seal(plain, placeOf(s.Link.String()))
	if err != nil {
		return err
	}
	http.SetCookie(v.w, &http.Cookie{ //nolint:gosec // Secure unless the public URL is http, as in development
		Name: cookieName(s.Link.String()), Value: base64.RawURLEncoding.EncodeToString(value), Path: Prefix,
		MaxAge: int(sessionLife / time.Second), HttpOnly: true, Secure: v.secure, SameSite: http.SameSiteLaxMode,
	})
	return nil
}

// sessionOf opens the cookie of a link; nil if there is none that is valid.
func (v *visit) sessionOf(link string) *session {
	cookie, err := v.r.Cookie(cookieName(link))
	if err != nil {
		return nil
	}
	value, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil {
		return nil
	}
	plain, err := v.box.Open(value, placeOf(link))
	if err != nil {
		return nil
	}
	s := &session{}
	if json.Unmarshal(plain, s) != nil || !v.Clock.Now().Before(s.Until) {
		return nil
	}
	return s
}

// resume finds the session of the link in the path and the cell of its organization. Without a session it shows that the
// visit ended, and returns nil.
func (v *visit) resume() *session { return v.resumeLink(chi.URLParam(v.r, "id")) }

func (v *visit) resumeLink(link string) *session {
	s := v.sessionOf(link)
	if s == nil {
		v.show(http.StatusForbidden, page{Name: "session"})
		return nil
	}
	home, err := v.Directory.HomeOf(v.ctx(), s.Org)
	if err != nil {
		v.fail(err)
		return nil
	}
	if s.cell = v.Cells[home.Cell]; s.cell == nil {
		v.fail(errNotServed(home.Cell))
		return nil
	}
	return s
}

// returned finds the session that opened the dialog, by the state that it carried.
func (v *visit) returned() *session {
	link, secret, _ := strings.Cut(v.r.URL.Query().Get("state"), ".")
	s := v.resumeLink(link)
	if s != nil && subtle.ConstantTimeCompare([]byte(s.Secret), []byte(secret)) != 1 {
		v.show(http.StatusForbidden, page{Name: "session"})
		return nil
	}
	return s
}

func (v *visit) visitor(s *session) setuplinks.Visitor {
	return setuplinks.Visitor{Address: v.ip.String(), Session: s.Secret}
}
