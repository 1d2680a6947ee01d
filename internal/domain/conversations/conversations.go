// Package conversations owns the shared inbox: status, assignee, labels and unread count of the
// conversation with each contact. A contact has one conversation, for ever. The package that
// stores messages calls this one, never the other way.
package conversations

import (
	"time"

	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/patch"
)

// ID identifies a conversation. The id of one that was merged into another finds that one.
type ID = ids.Public[kind]

type kind struct{}

func (kind) Prefix() string { return "cnv_" }

// Status is whether the team has something to do.
type Status string

// The states. An inbound message opens a conversation again.
const (
	Open     Status = "open"
	Resolved Status = "resolved"
	Pending  Status = "pending"
)

// Conversation is all messages with a contact.
type Conversation struct {
	ID            ID
	ContactID     contacts.ID
	ContactNumber *string
	ContactName   *string
	Status        Status
	AssigneeID    *orgs.UserID
	AssigneeName  *string
	AssigneeEmail *string
	UnreadCount   int
	LastMessageAt *time.Time
	LastInboundAt *time.Time
	UpdatedAt     time.Time

	Labels []labels.Summary `db:"-"`
}

// Patch changes a conversation; a null AssignedTo takes the assignment back.
type Patch struct {
	Status     patch.Field[Status]      `json:"status"`
	AssignedTo patch.Field[orgs.UserID] `json:"assigned_to"`
}

// apply returns whether anything changed, and which events are due.
func (c *Conversation) apply(p Patch, now time.Time) (changed, closed, assigned bool) {
	closed = p.Status.Set && p.Status.Value == Resolved && c.Status != Resolved
	changed = patch.Apply(p.Status, &c.Status)
	had := c.AssigneeID != nil
	switch {
	case !p.AssignedTo.Set:
	case p.AssignedTo.Null:
		assigned = had
		c.AssigneeID = nil
	case !had || *c.AssigneeID != p.AssignedTo.Value:
		assigned = true
		c.AssigneeID = &p.AssignedTo.Value
	}
	if changed = changed || assigned; changed {
		c.advance(now)
	}
	return changed, closed, assigned
}

// advance moves UpdatedAt forward by a millisecond at least, also when the clock stands still or
// steps back.
func (c *Conversation) advance(now time.Time) {
	c.UpdatedAt = c.UpdatedAt.Add(time.Millisecond)
	if now.After(c.UpdatedAt) {
		c.UpdatedAt = now
	}
}

// Filter narrows a list; empty fields do not. With UpdatedSince the list is in the order of
// the changes, else in that of the last messages; newest first both.
type Filter struct {
	Status       Status
	ContactID    *contacts.ID
	AssignedTo   *orgs.UserID
	LabelID      *labels.ID
	Unread       *bool
	UpdatedSince *time.Time
}

// Position is where a page ends. At is nil among those without a message.
type Position struct {
	At *time.Time `json:"at"`
	ID ID         `json:"id"`
}

func (f Filter) position(c Conversation) Position {
	if f.UpdatedSince != nil {
		return Position{At: &c.UpdatedAt, ID: c.ID}
	}
	return Position{At: c.LastMessageAt, ID: c.ID}
}
