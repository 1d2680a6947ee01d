// Package customers owns the end-customers of a platform and their status. Their numbers
// and setup links point here and are known to their own packages. Each event of a customer, those of its
// setup links too, moves LastEventAt forward: the events are in its order.
package customers

import (
	"encoding/json"
	"time"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jsonin"
	"github.com/parley-chat/parley/internal/platform/patch"
)

// ID identifies a customer.
type ID = ids.Public[kind]

type kind struct{}

func (kind) Prefix() string { return "cus_" }

// Status is whether a customer may send.
type Status string

// The states of a customer.
const (
	Pending   Status = "pending"
	Active    Status = "active"
	Suspended Status = "suspended"
	Archived  Status = "archived"
)

// Customer is an end-customer of the platform.
type Customer struct {
	ID     ID
	TeamID orgs.TeamID
	Name   string
	Email  *string
	Status Status
	// PreviousStatus is what an archived customer was, and is again once restored.
	PreviousStatus *Status
	// Metadata is the caller's JSON without blanks; its numbers and order are the caller's.
	Metadata   json.RawMessage
	ArchivedAt *time.Time
	UpdatedAt  time.Time
	// LastEventAt is the time of the customer's newest event.
	LastEventAt time.Time
}

// Draft creates a customer. TeamID may be nil when the organization has one team.
type Draft struct {
	Name     string          `json:"name"`
	Email    *string         `json:"email"`
	Metadata json.RawMessage `json:"metadata"`
	TeamID   *orgs.TeamID    `json:"team_id"`
}

func (d *Draft) check() (err error) {
	if err := jsonin.Name("name", d.Name); err != nil {
		return err
	}
	d.Metadata, err = jsonin.Metadata(d.Metadata)
	return err
}

// Patch changes a customer. The status `archived` archives it.
type Patch struct {
	Name     patch.Field[string]          `json:"name"`
	Email    patch.Field[string]          `json:"email"`
	Metadata patch.Field[json.RawMessage] `json:"metadata"`
	Status   patch.Field[Status]          `json:"status"`
}

func (p *Patch) check() (err error) {
	if p.Name.Set {
		if err := jsonin.Name("name", p.Name.Value); err != nil {
			return err
		}
	}
	if p.Status.Value == Pending {
		return fault.Invalid("status", "must be active, suspended or archived")
	}
	p.Metadata.Value, err = jsonin.Metadata(p.Metadata.Value)
	return err
}

func (p *Patch) archives() bool { return p.Status.Value == Archived }

// Filter narrows a list; empty fields do not.
type Filter struct {
	Status Status
	// Email is a whole address, in any case.
	Email string
	// Q is the beginning of a name or of an address, in any case.
	Q string
}

// refuses returns why an archived customer cannot be changed so, or nil.
func (c *Customer) refuses(p Patch) error {
	if c.Status != Archived {
		return nil
	}
	var param string
	switch {
	case p.Name.Set:
		param = "name"
	case p.Email.Set:
		param = "email"
	case p.Status.Set && !p.archives():
		param = "status"
	default:
		return nil
	}
	return fault.New(fault.CustomerArchived, "The customer is archived: only its metadata can be changed until it is restored.").At(param)
}

// apply changes everything but what archive does.
func (c *Customer) apply(p Patch, now time.Time) (changed bool) {
	changed = patch.Apply(p.Name, &c.Name)
	changed = c.applyEmail(p.Email) || changed
	if p.Metadata.Set && !jsonin.SameMetadata(p.Metadata.Value, c.Metadata) {
		c.Metadata, changed = p.Metadata.Value, true
	}
	if !p.archives() {
		changed = patch.Apply(p.Status, &c.Status) || changed
	}
	if changed {
		c.UpdatedAt = c.advance(now)
	}
	return changed
}

func (c *Customer) applyEmail(given patch.Field[string]) (changed bool) {
	same := given.Null && c.Email == nil || !given.Null && c.Email != nil && *c.Email == given.Value
	if !given.Set || same {
		return false
	}
	if c.Email = nil; !given.Null {
		c.Email = &given.Value
	}
	return true
}

func (c *Customer) archive(now time.Time) (changed bool) {
	if c.Status == Archived {
		return false
	}
	at, previous := c.advance(now), c.Status
	c.Status, c.PreviousStatus, c.ArchivedAt, c.UpdatedAt = Archived, &previous, &at, at
	return true
}

func (c *Customer) restore(now time.Time) (changed bool) {
	if c.Status != Archived {
		return false
	}
	c.Status, c.PreviousStatus, c.ArchivedAt, c.UpdatedAt = *c.PreviousStatus, nil, nil, c.advance(now)
	return true
}

// Activate makes a pending customer active: it has connected its first number. Without an event after it (AnnounceTx)
// ChangeTx does not store the change.
func (c *Customer) Activate(now time.Time) {
	if c.Status == Pending {
		c.Status = Active
		if now.After(c.UpdatedAt) { // a change in the same millisecond may have moved it ahead of the clock
			c.UpdatedAt = now
		}
	}
}

// Inactive tells whether the platform has suspended or archived the customer.
func (c *Customer) Inactive() bool { return c.Status == Suspended || c.Status == Archived }

// advance returns the time of the next event: later than the one before by a millisecond at least, also when the clock
// stands still or steps back.
func (c *Customer) advance(now time.Time) time.Time {
	c.LastEventAt = c.LastEventAt.Add(time.Millisecond)
	if now.After(c.LastEventAt) {
		c.LastEventAt = now
	}
	return c.LastEventAt
}
