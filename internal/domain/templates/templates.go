// Package templates owns the message templates of business numbers. The provider's list is the
// truth: it is synced every hour, after a notification and on request, and a template that is not
// in it is removed here.
package templates

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/provider"
)

// ID identifies a template.
type ID = ids.Public[kind]

type kind struct{}

func (kind) Prefix() string { return "tmpl_" }

// Status is whether a template may be sent.
type Status = provider.Review

// The states of a template.
const (
	Pending  = provider.ReviewPending
	Approved = provider.ReviewApproved
	Rejected = provider.ReviewRejected
)

// Template is a template as one number has it.
type Template struct {
	ID                 ID
	AccountID          accounts.ID
	ProviderTemplateID *string
	Name               string
	Language           string
	Status             Status
	ProviderStatus     *string
	Category           *string
	ParameterFormat    *string
	// Content is the text of the body, Variables the names in header, body and buttons.
	Content         string
	Variables       []string
	Components      json.RawMessage
	RejectionReason *string
	Quality         *string
	Digest          []byte
	// Said is when the provider last spoke of something by itself; HeardAt when we heard.
	Said      map[string]time.Time
	HeardAt   *time.Time
	UpdatedAt time.Time
}

// Filter narrows a list; empty fields do not.
type Filter struct {
	Status   Status
	Language string
}

// key identifies a template within an account, as the provider does.
type key struct{ Name, Language string }

func (t *Template) key() key { return key{t.Name, t.Language} }

// learn sets the fields from the provider's template.
func (t *Template) learn(given provider.Template, now time.Time) {
	t.ProviderTemplateID, t.Name, t.Language = text(given.ID), given.Name, given.Language
	t.ProviderStatus, t.Status = text(given.Status), given.Review
	t.Category, t.ParameterFormat = category(given.Category), text(given.ParameterFormat)
	t.RejectionReason, t.Quality = text(given.RejectedReason), text(given.Quality)
	t.Components = components(given.Components)
	t.Content, t.Variables = contentOf(t.Components)
	t.Digest, t.UpdatedAt = t.digest(), now
}

// digest is of everything that the provider can change.
func (t *Template) digest() []byte {
	digest := sha256.New()
	for _, part := range [][]byte{
		value(t.ProviderTemplateID), value(t.ProviderStatus), value(t.Category), value(t.ParameterFormat), value(t.RejectionReason),
		value(t.Quality), t.Components,
	} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		digest.Write(length[:])
		digest.Write(part)
	}
	return digest.Sum(nil)
}

// components are the provider's without blanks; what is no list of objects is none.
func components(given json.RawMessage) json.RawMessage {
	var list []map[string]json.RawMessage
	var compact bytes.Buffer
	if json.Unmarshal(given, &list) != nil || json.Compact(&compact, given) != nil || list == nil {
		return json.RawMessage(`[]`)
	}
	return compact.Bytes()
}

// category is one of the specification's three, or nothing.
func category(given string) *string {
	switch given {
	case "MARKETING", "UTILITY", "AUTHENTICATION":
		return &given
	default:
		return nil
	}
}

func text(value string) *string {
	if value == "" {
		return nil
	}
	return &value
}

func value(text *string) []byte {
	if text == nil {
		return nil
	}
	return []byte(*text)
}
