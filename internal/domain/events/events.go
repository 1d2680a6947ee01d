// Package events records what happened: a change that an integrator may want to hear of is
// written in the transaction of that change, with the bytes that will be posted and one
// delivery for each matching webhook subscription. Package webhooks sends the deliveries.
package events

import (
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jsonout"
)

// ID names an event. It is the same in every delivery, retry and replay.
type ID = ids.Public[kind]

type kind struct{}

func (kind) Prefix() string { return "evt_" }

// Type is what happened.
type Type string

// The catalogue.
const (
	MessageReceived        Type = "message.received"
	MessageStatus          Type = "message.status"
	MessageSent            Type = "message.sent"
	MessageRevoked         Type = "message.revoked"
	MessageEdited          Type = "message.edited"
	ConversationAssigned   Type = "conversation.assigned"
	ConversationClosed     Type = "conversation.closed"
	ContactCreated         Type = "contact.created"
	ContactUpdated         Type = "contact.updated"
	ContactIdentityUpdated Type = "contact.identity_updated"
	CustomerCreated        Type = "customer.created"
	CustomerUpdated        Type = "customer.updated"
	CustomerArchived       Type = "customer.archived"
	CustomerOnboarded      Type = "customer.onboarded"
	SetupLinkCreated       Type = "customer.setup_link.created"
	SetupLinkConsumed      Type = "customer.setup_link.consumed"
)

// Kept is how long events and their deliveries are shown. Then their partitions are dropped.
const Kept = 30 * 24 * time.Hour

// Catalogue lists every type that a subscription may name.
func Catalogue() []Type {
	return []Type{
		MessageReceived, MessageStatus, MessageSent, MessageRevoked, MessageEdited, ConversationAssigned, ConversationClosed,
		ContactCreated, ContactUpdated, ContactIdentityUpdated, CustomerCreated, CustomerUpdated, CustomerArchived,
		CustomerOnboarded, SetupLinkCreated, SetupLinkConsumed,
	}
}

// Source names whose format the body has: the provider's, which is passed on, or the service's own.
func (t Type) Source() string {
	if t == MessageReceived || t == MessageStatus {
		return "provider"
	}
	return "svc"
}

// Audience says which readers an event is for.
type Audience string

const (
	// Public events are delivered to every subscription that matches.
	Public Audience = "public"
	// Internal events match no subscription by type. RecordForTx records one for the subscription that
	// it names.
	Internal Audience = "internal"
)

// Draft records an event. Set either Data, which is put into the service's own envelope, or
// Body, which is posted as it is.
type Draft struct {
	Type Type
	// Key is the id that receivers see: `id` in the envelope, and X-Svc-Event-Id. If empty, it is the
	// event's own id.
	Key string
	// At is when the change happened; zero is now. It orders the events of one subject.
	At time.Time
	// PhoneNumberID is the number that the event belongs to. A subscription may name numbers. An event
	// without a number matches every subscription of its type.
	PhoneNumberID string
	// Subject, unless zero, has its events delivered one at a time and in their order.
	Subject ids.Any
	// Contact and Message are those that the event is about; zero if it is about none. Resource
	// is what else the event is about: a customer, a conversation.
	Contact, Message, Resource ids.Any
	Data                       any
	Body                       []byte

	id ID
}

// envelope has exactly the fields of the specification.
type envelope struct {
	ID        string      `json:"id"`
	Type      Type        `json:"type"`
	CreatedAt clock.Stamp `json:"created_at"`
	Data      any         `json:"data"`
}

// complete sets the event's id, its key and the bytes to post.
func (d Draft) complete(now time.Time) (Draft, error) {
	if d.At.IsZero() {
		d.At = now
	}
	if d.id = ids.New[kind](d.At); d.Key == "" {
		d.Key = d.id.String()
	}
	if d.Body != nil {
		return d, nil
	}
	var err error
	d.Body, err = jsonout.Marshal(envelope{ID: d.Key, Type: d.Type, CreatedAt: clock.Stamp(d.At), Data: d.Data})
	return d, err
}
