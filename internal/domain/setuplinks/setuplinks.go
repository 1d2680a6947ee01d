// Package setuplinks owns the links through which an end-customer connects its own number. The pages behind a link
// (edge/onboarding) call InvitationByHash, Grant, Choices and Complete; of these only Complete changes the link. Update, Revoke and
// archiving the customer are changes of the platform.
package setuplinks

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"regexp"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/patch"
)

// ID identifies a setup link.
type ID = ids.Public[kind]

type kind struct{}

func (kind) Prefix() string { return "csl_" }

// Status is whether a link can be used.
type Status string

// The states of a link. Expired is computed when the link is read; its row does not change.
const (
	Active   Status = "active"
	Consumed Status = "consumed"
	Expired  Status = "expired"
	Revoked  Status = "revoked"
)

// Link is a setup link.
type Link struct {
	ID         ID
	CustomerID customers.ID
	// Status is that of the time at which the link was read.
	Status     Status
	TokenLast4 string
	ExpiresAt  time.Time
	ConsumedAt *time.Time
	RevokedAt  *time.Time
	// CompletingUntil is the end of the lease of a request that is connecting a number; nil if there is none.
	CompletingUntil *time.Time
	// AccountID is the account that a consumed link connected, and SessionHash the hash of the session that did.
	AccountID   *accounts.ID
	SessionHash []byte
	// The person is sent to one of these at the end; nil stays on our pages.
	SuccessRedirectURL *string
	FailureRedirectURL *string
}

// Created is a new link with its URL, which is shown once.
type Created struct {
	Link

	SetupURL string
}

const (
	// defaultLife is how long a link can be used unless its draft says otherwise, and longestLife the most that it may say.
	defaultLife = 7 * 24 * time.Hour
	longestLife = 30 * 24 * time.Hour
)

// Draft creates a link.
type Draft struct {
	SuccessRedirectURL *string `json:"success_redirect_url"`
	FailureRedirectURL *string `json:"failure_redirect_url"`
	// ExpiresAt is in 7 days when it is nil.
	ExpiresAt *time.Time `json:"expires_at"`
}

func (d *Draft) normalize(now time.Time) error {
	if err := checkRedirect("success_redirect_url", d.SuccessRedirectURL); err != nil {
		return err
	}
	if err := checkRedirect("failure_redirect_url", d.FailureRedirectURL); err != nil {
		return err
	}
	if d.ExpiresAt == nil {
		d.ExpiresAt = new(now.Add(defaultLife))
	}
	// The rows and the answers have milliseconds.
	*d.ExpiresAt = d.ExpiresAt.UTC().Truncate(time.Millisecond)
	if !d.ExpiresAt.After(now) || d.ExpiresAt.After(now.Add(longestLife)) {
		return fault.Invalid("expires_at", "must be in the future, and at most 30 days ahead")
	}
	return nil
}

// Patch changes the redirects of a link.
type Patch struct {
	SuccessRedirectURL patch.Field[string] `json:"success_redirect_url"`
	FailureRedirectURL patch.Field[string] `json:"failure_redirect_url"`
}

func (p *Patch) check() error {
	if err := checkRedirect("success_redirect_url", given(p.SuccessRedirectURL)); err != nil {
		return err
	}
	return checkRedirect("failure_redirect_url", given(p.FailureRedirectURL))
}

func given(field patch.Field[string]) *string {
	if !field.Set || field.Null {
		return nil
	}
	return &field.Value
}

func (l *Link) apply(p Patch) {
	if p.SuccessRedirectURL.Set {
		l.SuccessRedirectURL = given(p.SuccessRedirectURL)
	}
	if p.FailureRedirectURL.Set {
		l.FailureRedirectURL = given(p.FailureRedirectURL)
	}
}

// requireActive refuses to change a link that is not active.
func (l *Link) requireActive() error {
	if l.Status == Active {
		return nil
	}
	return fault.New(fault.SetupLinkInactive, "The setup link is %s; only an active one can be changed. Create another.", l.Status)
}

var wellFormed = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// newToken makes the plaintext of a link's token: 256 random bits.
func newToken() string {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // never fails
	return base64.RawURLEncoding.EncodeToString(secret)
}

// Hash is the form in which a token is looked up. It is false for what cannot be a token.
func Hash(token string) ([]byte, bool) {
	digest := sha256.Sum256([]byte(token))
	return digest[:], wellFormed.MatchString(token)
}
