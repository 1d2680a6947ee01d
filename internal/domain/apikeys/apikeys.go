// Package apikeys issues keys and authenticates requests. A key is stored only as its hash; whether
// it may be used is read from the database with each request, so that a revocation is effective
// at once.
package apikeys

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"regexp"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jsonin"
)

// ID identifies a key.
type ID = ids.Plain[keyKind]

type keyKind struct{}

// Key is what is known of an issued key.
type Key struct {
	ID        ID
	Name      string
	Last4     string
	ExpiresAt *time.Time
	RevokedAt *time.Time
}

// Caller is a known key with the standing of its organization.
type Caller struct {
	OrgID     orgs.ID
	KeyID     ID
	ExpiresAt *time.Time
	RevokedAt *time.Time
	Epoch     int64
	FrozenAt  *time.Time
	orgs.Standing
}

// Draft issues a key.
type Draft struct {
	Name      string
	ExpiresAt *time.Time
}

func (d Draft) check(now time.Time) error {
	if strings.TrimSpace(d.Name) == "" {
		return fault.Missing("name")
	}
	if err := jsonin.Name("name", d.Name); err != nil {
		return err
	}
	if d.ExpiresAt != nil && !d.ExpiresAt.After(now) {
		return fault.Invalid("expires_at", "must be in the future")
	}
	return nil
}

const (
	prefix      = "svc_live_"
	secretBytes = 18
)

var wellFormed = regexp.MustCompile(`^svc_live_[A-Za-z0-9_-]{24}$`)

// generate makes the clear text of a key: 144 random bits.
func generate() string {
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // never fails
	return prefix + base64.RawURLEncoding.EncodeToString(secret)
}

// Hash is the form in which a key is looked up, or a refusal of what cannot be a key.
func Hash(presented string) ([]byte, error) {
	if !wellFormed.MatchString(presented) {
		return nil, errInvalid
	}
	return hash(presented), nil
}

// Unknown is the refusal of a key that does not exist.
func Unknown() error { return errInvalid }

func hash(plaintext string) []byte {
	digest := sha256.Sum256([]byte(plaintext))
	return digest[:]
}

// refuses says why the key may not be used at that moment, or nil.
func (c Caller) refuses(now time.Time) error {
	if c.RevokedAt != nil {
		return fault.New(fault.RevokedAPIKey, "This API key was revoked. Use another key of the organization.")
	}
	if c.ExpiresAt != nil && !now.Before(*c.ExpiresAt) {
		return fault.New(fault.ExpiredAPIKey, "This API key has expired. Use another key of the organization.")
	}
	return nil
}

var errInvalid = fault.New(fault.InvalidAPIKey,
	"The API key is not valid. Send it as `Authorization: Bearer svc_live_…`, exactly as it was shown when it was created.")
