// Package events keeps what happened: each change that somebody may want to hear of is
// recorded in its own transaction, with the bytes that will be posted. Who is to hear of
// it is known to webhooks.
package events

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
)

// ID names an event, once and for all.
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

// Catalogue lists every type that a subscription may name.
func Catalogue() []Type {
	return []Type{
		MessageReceived, MessageStatus, MessageSent, MessageRevoked, MessageEdited, ConversationAssigned, ConversationClosed,
		ContactCreated, ContactUpdated, ContactIdentityUpdated, CustomerCreated, CustomerUpdated, CustomerArchived,
		CustomerOnboarded, SetupLinkCreated, SetupLinkConsumed,
	}
}

// Source is who speaks in the body: the provider, passed on, or the service itself.
func (t Type) Source() string {
	if t == MessageReceived || t == MessageStatus {
		return "provider"
	}
	return "svc"
}

// Audience is who may hear of an event.
type Audience string

const (
	// Public events are delivered to subscriptions.
	Public Audience = "public"
	// Internal events are for the product's own eyes, and for whom they were made.
	Internal Audience = "internal"
)

// Event is something that happened.
type Event struct {
	ID ID
	// Key is what the specification prints as the event's id.
	Key           string
	Type          Type
	Audience      Audience
	PhoneNumberID *string
	// SubjectID, unless zero, is whose events stay in order.
	SubjectID ids.Any
	Body      []byte
}

// Draft records an event. One with Data speaks for the service, in its own envelope; one
// with Body passes on what the provider would have said.
type Draft struct {
	Type Type
	// Key is printed as the event's id; left out, the event's own id is.
	Key string
	// At is when it happened; zero is now. It orders the events of one subject.
	At            time.Time
	PhoneNumberID string
	Subject       ids.Any
	Data          any
	Body          []byte
}

// envelope is exactly what the specification says.
type envelope struct {
	ID        string      `json:"id"`
	Type      Type        `json:"type"`
	CreatedAt clock.Stamp `json:"created_at"`
	Data      any         `json:"data"`
}

func (d Draft) event(now time.Time) (Event, error) {
	if d.At.IsZero() {
		d.At = now
	}
	e := Event{ID: ids.New[kind](d.At), Key: d.Key, Type: d.Type, Audience: Public, SubjectID: d.Subject, Body: d.Body}
	if d.PhoneNumberID != "" {
		e.PhoneNumberID = &d.PhoneNumberID
	}
	if e.Key == "" {
		e.Key = e.ID.String()
	}
	if d.Body != nil {
		return e, nil
	}
	var err error
	e.Body, err = encode(envelope{ID: e.Key, Type: d.Type, CreatedAt: clock.Stamp(d.At), Data: d.Data})
	return e, err
}

// Internal is the event of a draft that is made for somebody in particular.
func (d Draft) Internal(now time.Time) (Event, error) {
	e, err := d.event(now)
	e.Audience = Internal
	return e, err
}

// encode writes JSON once: what it returns is what every receiver gets.
func encode(value any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), nil
}
