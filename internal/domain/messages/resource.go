package messages

import (
	"encoding/json"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/jsonout"
	"github.com/parley-chat/parley/internal/provider"
)

// Resource is the JSON of a message. The object named by its type holds the content.
type Resource struct {
	fields resource
	// kind and content are the field named by the type.
	kind    string
	content json.RawMessage
}

type resource struct {
	ID              ID               `json:"id"`
	Object          string           `json:"object"`
	To              *string          `json:"to"`
	BSUID           *string          `json:"bsuid"`
	ParentBSUID     *string          `json:"parent_bsuid"`
	Username        *string          `json:"username"`
	Type            string           `json:"type"`
	Status          Status           `json:"status"`
	CreatedAt       clock.Stamp      `json:"created_at"`
	PlayedAt        *clock.Stamp     `json:"played_at,omitempty"`
	ConversationID  conversations.ID `json:"conversation_id"`
	MessageID       *string          `json:"message_id,omitempty"`
	Error           *errorResource   `json:"error,omitempty"`
	Direction       Direction        `json:"direction"`
	From            *string          `json:"from"`
	ContactID       contacts.ID      `json:"contact_id"`
	IsRevoked       bool             `json:"is_revoked,omitempty"`
	Context         *contextResource `json:"context,omitempty"`
	Media           *mediaResource   `json:"media,omitempty"`
	SentAt          *clock.Stamp     `json:"sent_at,omitempty"`
	DeliveredAt     *clock.Stamp     `json:"delivered_at,omitempty"`
	ReadAt          *clock.Stamp     `json:"read_at,omitempty"`
	FailedAt        *clock.Stamp     `json:"failed_at,omitempty"`
	ClientReference *string          `json:"client_reference,omitempty"`
}

type errorResource struct {
	Code         fault.Code `json:"code"`
	Message      string     `json:"message"`
	ProviderCode *int       `json:"provider_code"`
}

type contextResource struct {
	MessageID string `json:"message_id"`
}

type mediaResource struct {
	Status   string  `json:"status"`
	MIMEType *string `json:"mime_type"`
	Size     *int64  `json:"size"`
}

// orderedTimes returns the state with times in the order of the statuses. The provider gives whole seconds of its own clock, and
// ours has milliseconds: a message that was sent and delivered within a second would be delivered before it was sent.
func (m Message) orderedTimes() State {
	var floor time.Time
	if m.Direction == Outbound && m.Source != FromApp {
		floor = m.ID.CreatedAt()
	}
	notBefore := func(at *time.Time) *time.Time {
		if at != nil && at.Before(floor) {
			return new(floor)
		}
		return at
	}
	ordered := m.State
	if ordered.SentAt = notBefore(m.SentAt); ordered.SentAt != nil {
		floor = *ordered.SentAt
	}
	if ordered.DeliveredAt = notBefore(m.DeliveredAt); ordered.DeliveredAt != nil {
		floor = *ordered.DeliveredAt
	}
	ordered.ReadAt, ordered.PlayedAt, ordered.FailedAt = notBefore(m.ReadAt), notBefore(m.PlayedAt), notBefore(m.FailedAt)
	return ordered
}

// Resource prints the message of an account.
func (m Message) Resource(of accounts.Account) Resource {
	times := m.orderedTimes()
	shown := resource{
		ID: m.ID, Object: "message", BSUID: m.ContactBSUID, ParentBSUID: m.ContactParentBSUID, Username: m.ContactUsername,
		Type: m.Type, Status: m.Status, CreatedAt: clock.Stamp(m.ID.CreatedAt()), PlayedAt: clock.StampOrNil(times.PlayedAt),
		ConversationID: m.ConversationID, MessageID: m.ProviderID, Direction: m.Direction, ContactID: m.ContactID,
		IsRevoked: m.IsRevoked, SentAt: clock.StampOrNil(times.SentAt), DeliveredAt: clock.StampOrNil(times.DeliveredAt),
		ReadAt: clock.StampOrNil(times.ReadAt), FailedAt: clock.StampOrNil(times.FailedAt), ClientReference: m.ClientReference,
	}
	if m.Direction == Inbound {
		shown.From, shown.To = m.ContactNumber, of.PhoneNumber
	} else {
		shown.From, shown.To = of.PhoneNumber, m.to()
	}
	if m.ErrorCode != nil {
		shown.Error = &errorResource{Code: *m.ErrorCode, Message: *m.ErrorMessage, ProviderCode: m.ProviderCode}
	}
	if m.ReplyTo != nil {
		shown.Context = &contextResource{MessageID: *m.ReplyTo}
	}
	switch {
	case m.MediaState != nil:
		shown.Media = &mediaResource{Status: *m.MediaState, MIMEType: m.MediaType, Size: m.MediaSize}
	case m.Direction == Outbound && m.file() != nil:
		shown.Media = &mediaResource{Status: "ready"}
		if m.ErrorCode != nil && *m.ErrorCode == provider.MediaUploadFailed {
			shown.Media.Status = "failed" // the network could not fetch the link
		}
	}
	return Resource{fields: shown, kind: m.Type, content: m.Content}
}

// MarshalJSON adds the content under the name of the type.
func (r Resource) MarshalJSON() ([]byte, error) {
	text, err := jsonout.Marshal(r.fields)
	if err != nil || len(r.content) == 0 {
		return text, err
	}
	name, err := jsonout.Marshal(r.kind)
	if err != nil {
		return nil, err
	}
	text = append(text[:len(text)-1], ',')
	text = append(append(append(text, name...), ':'), r.content...)
	return append(text, '}'), nil
}
