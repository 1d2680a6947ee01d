// Package identity decides which contact a person is, without a database: the caller loads
// what is stored of some contacts, applies sightings and writes the differences (ADR 14).
package identity

import (
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/phone"
)

// ID identifies a contact. The id of a contact that was merged into another identifies that one.
type ID = ids.Public[kind]

type kind struct{}

func (kind) Prefix() string { return "ctc_" }

// Identity is what a contact shows of its identifiers.
type Identity struct {
	PhoneNumber *string
	BSUID       *string
	ParentBSUID *string
	// Username proves nothing: its owner may give it up, and another may take it.
	Username *string
}

// Sighting is what the provider said of a person at a moment, or what a caller says now.
// At least one of PhoneNumber, BSUID and ParentBSUID is known.
type Sighting struct {
	// At is when it was so, by the provider's clock: sightings arrive in any order.
	At          time.Time
	PhoneNumber string
	BSUID       string
	ParentBSUID string
	Username    string
	// Name is the name of the person's profile. It fills only an empty name.
	Name string
	// Marketing is what the person wants from then on; empty if the sighting does not say. Source is where
	// that came from.
	Marketing string
	Source    string
	// Former is set by a notice that the person's identifiers were changed.
	Former *Former
	// Addressed is set when a message is to be sent: the sighting finds the contact, or makes
	// it, and proves nothing.
	Addressed bool
	// Known is set for a sighting that creates no contact: none is found if none has its identifiers.
	Known bool
}

// Former is what identified a person before a change, as far as the notice says.
type Former struct {
	PhoneNumber string
	BSUID       string
	ParentBSUID string
	// Reason is the provider's word for the change.
	Reason string
}

// Our own reasons for a changed identity; others are the provider's.
const (
	reasonLinked     = "linked"            // two contacts turned out to be one person
	reasonMoved      = "number_changed"    // seen with another number, without a notice
	reasonReassigned = "number_reassigned" // another person has the number now
)

// A key is an identifier with its kind as first character. BSUIDs and their parents never change
// their person; the latest sighting of a number gives the number to its person.

// NumberKey is the key of a number, in any of its national forms.
func NumberKey(number string) string { return "n" + phone.Key(number) }

// BSUIDKey is the key of a BSUID.
func BSUIDKey(bsuid string) string { return "b" + bsuid }

func parentKey(parent string) string { return "p" + parent }

func isNumber(key string) bool { return key[0] == 'n' }

// Bare is a username without the sign that is written before it and is no part of it.
func Bare(username string) string { return strings.TrimPrefix(username, "@") }

// Keys are all keys of the sighting, former ones included.
func (s *Sighting) Keys() []string {
	keys := append(s.strong(), s.Former.strong()...)
	if s.PhoneNumber != "" {
		keys = append(keys, NumberKey(s.PhoneNumber))
	}
	if s.Former != nil && s.Former.PhoneNumber != "" {
		keys = append(keys, NumberKey(s.Former.PhoneNumber))
	}
	return keys
}

// strong are the keys that prove which person it is.
func (s *Sighting) strong() (keys []string) {
	if s.BSUID != "" {
		keys = append(keys, BSUIDKey(s.BSUID))
	}
	if s.ParentBSUID != "" {
		keys = append(keys, parentKey(s.ParentBSUID))
	}
	return keys
}

func (f *Former) strong() []string {
	if f == nil {
		return nil
	}
	return (&Sighting{BSUID: f.BSUID, ParentBSUID: f.ParentBSUID}).strong()
}

// equal compares what two identities show.
func (i Identity) equal(other Identity) bool {
	return same(i.PhoneNumber, other.PhoneNumber) && same(i.BSUID, other.BSUID) && same(i.ParentBSUID, other.ParentBSUID) &&
		same(i.Username, other.Username)
}

func same(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }
