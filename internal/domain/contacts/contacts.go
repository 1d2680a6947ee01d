// Package contacts owns the contacts of business numbers: their identifiers, names, labels and
// whether they want marketing. Packages whose rows point to contacts follow this one (Follower).
// One person is one contact, however many identifiers the person has had; package identity
// decides that.
package contacts

import (
	"encoding/json"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts/identity"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/jsonin"
	"github.com/parley-chat/parley/internal/platform/patch"
	"github.com/parley-chat/parley/internal/platform/phone"
)

// What package identity decides on.
type (
	ID       = identity.ID
	Identity = identity.Identity
	Sighting = identity.Sighting
	Former   = identity.Former
)

// Contact is a person of one business number.
type Contact struct {
	ID        ID
	AccountID accounts.ID
	Identity

	Name  *string
	Email *string
	// Metadata is the caller's JSON without blanks; its numbers and order are the caller's.
	Metadata        json.RawMessage
	Marketing       Marketing
	MarketingAt     *time.Time
	MarketingSource *string
	UpdatedAt       time.Time

	Labels []labels.Summary `db:"-"`
}

// Marketing is whether a contact wants marketing messages.
type Marketing string

// The states.
const (
	OptedIn  Marketing = "opted_in"
	OptedOut Marketing = "opted_out"
	Unknown  Marketing = "unknown"
)

// Where a choice about marketing came from.
const (
	FromAPI      = "api"
	FromProvider = "provider"
	FromKeyword  = "keyword"
)

// Draft creates a contact. It needs a number or a BSUID.
type Draft struct {
	PhoneNumber *string         `json:"phone_number"`
	BSUID       *string         `json:"bsuid"`
	Username    *string         `json:"username"`
	Name        *string         `json:"name"`
	Email       *string         `json:"email"`
	Metadata    json.RawMessage `json:"metadata"`
	Marketing   *Marketing      `json:"marketing"`
}

func (d *Draft) check() (err error) {
	if d.PhoneNumber == nil && d.BSUID == nil {
		return fault.New(fault.MissingRequiredField, "The field `phone_number` or `bsuid` is required.").At("phone_number")
	}
	if d.PhoneNumber != nil {
		number, ok := phone.Parse(*d.PhoneNumber)
		if !ok {
			return fault.Invalid("phone_number", "must be a number in E.164, like +351910000001")
		}
		d.PhoneNumber = &number
	}
	if d.Username != nil {
		if d.Username, err = checkUsername(*d.Username); err != nil {
			return err
		}
	}
	if d.Name != nil {
		if err := jsonin.Name("name", *d.Name); err != nil {
			return err
		}
	}
	d.Metadata, err = jsonin.Metadata(d.Metadata)
	return err
}

// Patch changes a contact. An empty Email clears it.
type Patch struct {
	Name      patch.Field[string]          `json:"name"`
	Username  patch.Field[string]          `json:"username"`
	Email     patch.Field[string]          `json:"email"`
	Metadata  patch.Field[json.RawMessage] `json:"metadata"`
	Marketing patch.Field[Marketing]       `json:"marketing"`
}

func (p *Patch) check() (err error) {
	if p.Name.Set && !p.Name.Null {
		if err := jsonin.Name("name", p.Name.Value); err != nil {
			return err
		}
	}
	if p.Username.Set && !p.Username.Null {
		username, err := checkUsername(p.Username.Value)
		if err != nil {
			return err
		}
		p.Username.Value = *username
	}
	p.Email.Null = p.Email.Set && p.Email.Value == ""
	p.Metadata.Value, err = jsonin.Metadata(p.Metadata.Value)
	return err
}

// checkUsername returns the username without the sign before it.
func checkUsername(given string) (*string, error) {
	username := identity.Bare(given)
	return &username, jsonin.Name("username", username)
}

// Filter narrows a list; empty fields do not.
type Filter struct {
	// PhoneNumber finds the contact by any national form of its number.
	PhoneNumber string
	BSUID       string
	// Username and Email are whole, in any case.
	Username string
	Email    string
	LabelID  *labels.ID
	// Q is the beginning of a name, a number, a username or an address, in any case.
	Q            string
	UpdatedSince *time.Time
}

// changed are the changed fields, by their names in contact.updated.
type changed []string

// Fields of contact.updated.
const (
	fieldName     = "name"
	fieldEmail    = "email"
	fieldMetadata = "metadata"
	fieldLabels   = "labels"
)

// apply returns the fields that contact.updated tells, and whether anything changed at all.
func (c *Contact) apply(p Patch, now time.Time) (announced changed, touched bool) {
	if set(p.Name, &c.Name) {
		announced = append(announced, fieldName)
	}
	if set(p.Email, &c.Email) {
		announced = append(announced, fieldEmail)
	}
	if p.Metadata.Set && !jsonin.SameMetadata(p.Metadata.Value, c.Metadata) {
		c.Metadata = p.Metadata.Value
		announced = append(announced, fieldMetadata)
	}
	touched = set(p.Username, &c.Username) || len(announced) > 0
	if p.Marketing.Set && p.Marketing.Value != c.Marketing {
		c.wants(p.Marketing.Value, FromAPI, now)
		touched = true
	}
	if touched {
		c.advance(now)
	}
	return announced, touched
}

// set writes an optional field and returns whether it changed.
func set(given patch.Field[string], target **string) bool {
	if !given.Set || given.Null && *target == nil || !given.Null && *target != nil && **target == given.Value {
		return false
	}
	if *target = nil; !given.Null {
		*target = &given.Value
	}
	return true
}

// wants sets what the contact wants, and where that came from.
func (c *Contact) wants(state Marketing, source string, at time.Time) {
	c.Marketing, c.MarketingAt, c.MarketingSource = state, &at, &source
	if state == Unknown {
		c.MarketingSource = nil
	}
}

// choose sets what the contact wants, unless a later choice is known. A choice that is repeated moves its
// time, so that one made in between does not count when it comes late. Of two at the same time, which the
// provider tells in seconds, an opt-out counts.
func (c *Contact) choose(state Marketing, source string, at time.Time) (changed bool) {
	if c.MarketingAt != nil && (at.Before(*c.MarketingAt) || at.Equal(*c.MarketingAt) && (state == c.Marketing || c.Marketing == OptedOut)) {
		return false
	}
	c.wants(state, source, at)
	return true
}

// advance moves UpdatedAt forward by a millisecond at least, also when the clock stands still or
// steps back.
func (c *Contact) advance(now time.Time) {
	c.UpdatedAt = c.UpdatedAt.Add(time.Millisecond)
	if now.After(c.UpdatedAt) {
		c.UpdatedAt = now
	}
}
