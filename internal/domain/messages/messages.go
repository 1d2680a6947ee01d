// Package messages owns what is said between business numbers and people: accepting a message,
// sending it to the provider once, or twice if the result of the first attempt stays unknown (ADR 18),
// and following its status. docs/flows.md shows the way of a message.
package messages

import (
	"encoding/json"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/domain/messages/content"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
)

// ID identifies a message.
type ID = ids.Public[kind]

type kind struct{}

func (kind) Prefix() string { return "msg_" }

// Direction is who wrote a message.
type Direction string

// The directions.
const (
	Inbound  Direction = "inbound"
	Outbound Direction = "outbound"
)

// Source is what a message came from.
type Source string

// The sources.
const (
	FromAPI       Source = "api"
	FromApp       Source = "app" // the phone app
	FromBroadcast Source = "broadcast"
	FromContact   Source = "contact"
)

// Message is one message, in or out.
type Message struct {
	Said
	State
	Person
}

// Said is what does not change of a message.
type Said struct {
	ID             ID
	AccountID      accounts.ID
	ConversationID conversations.ID
	ContactID      contacts.ID
	Direction      Direction
	Type           string
	Source         Source
	SourceID       ids.Any
	RequestID      ids.Any
	// ClientReference is what the caller sent in biz_opaque_callback_data.
	ClientReference *string
	// ToNumber or ToBSUID is the address that the caller gave.
	ToNumber *string
	ToBSUID  *string
	// ReplyTo and ReactionTarget are the provider's ids of other messages.
	ReplyTo        *string
	ReactionTarget *string
	// Category is that of a template; nil if it was not known.
	Category *string
	Content  json.RawMessage
	// Body is the rendered template.
	Body *string
}

// Person is the contact of a message as it is now.
type Person struct {
	ContactNumber      *string
	ContactBSUID       *string
	ContactParentBSUID *string
	ContactUsername    *string
	ContactName        *string
}

// Draft is a message to send.
type Draft struct {
	// To is the recipient's number in E.164, with or without its plus. It wins over Recipient, a
	// BSUID or parent BSUID.
	To        string
	Recipient string
	// ReplyTo is the provider's id of the message that this one answers; empty if none.
	ReplyTo         string
	ClientReference string
	Content         content.Content
	Source          Source
	// SourceID is the broadcast that the message belongs to.
	SourceID ids.Any
}

// Terms is what the organization's plan and settings say about sending.
type Terms struct {
	// MonthlyLimit is how many messages the plan includes in a calendar month.
	MonthlyLimit int64
	// RequireOptIn refuses marketing to contacts that neither wrote before nor opted in.
	RequireOptIn bool
}

// Answer is what became of one draft: a message, or why it was refused.
type Answer struct {
	Message Message
	Refusal *fault.Error
}

// Filter narrows a list; nil and empty fields do not.
type Filter struct {
	ConversationID *conversations.ID
	ContactID      *contacts.ID
	Direction      Direction
	Status         Status
	Type           string
	CreatedAfter   *time.Time
	CreatedBefore  *time.Time
}
