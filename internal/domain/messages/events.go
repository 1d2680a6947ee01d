package messages

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/jsonout"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// sentEvent is the data of message.sent.
type sentEvent struct {
	Session      string           `json:"session"`
	Direction    Direction        `json:"direction"`
	FromMe       bool             `json:"from_me"`
	Timestamp    clock.Stamp      `json:"timestamp"`
	Message      map[string]any   `json:"message"`
	Conversation sentConversation `json:"conversation"`
	Contact      sentContact      `json:"contact"`
	ProviderMeta sentMeta         `json:"provider_meta"`
}

type sentConversation struct {
	ID     conversations.ID     `json:"id"`
	Status conversations.Status `json:"status"`
}

type sentContact struct {
	ID          contacts.ID `json:"id"`
	PhoneNumber *string     `json:"phone_number"`
	Name        *string     `json:"name"`
}

type sentMeta struct {
	PhoneNumberID      string  `json:"phone_number_id"`
	DisplayPhoneNumber *string `json:"display_phone_number"`
	Provider           string  `json:"provider"`
}

// providerName is what message.sent calls the network.
const providerName = "cloud"

// The key of message.sent is the id of its message, or the internal id of a message of a broadcast.
const (
	keySent      = ":sent"
	keyBroadcast = "broadcast_msg:"
)

// sentKey is the key of message.sent, which is also the id in the event.
func (m *Message) sentKey() string {
	if m.Source == FromBroadcast {
		return keyBroadcast + m.ID.Any().String() + keySent
	}
	return m.ID.String() + keySent
}

// sentEventsTx are the events of the messages that the provider was just proved to have taken, with the contact and the
// conversation as they are now: a contact may have been merged into another since the message was accepted.
func (b *book) sentEventsTx(ctx context.Context, tx *postgres.Tx) ([]events.Draft, error) {
	if len(b.sent) == 0 {
		return nil, nil
	}
	places, err := placesOf(ctx, tx, postgres.Each(b.sent, func(m *Message) ID { return m.ID }))
	if err != nil {
		return nil, err
	}
	drafts := make([]events.Draft, len(b.sent))
	for i, message := range b.sent {
		place, there := places[message.ID]
		if there { // false if the contact is being erased
			place.put(&message.Said, &message.Person)
		}
		drafts[i] = events.Draft{
			Type: events.MessageSent, Key: message.sentKey(), PhoneNumberID: numberOfAccount(b.account),
			Contact: message.ContactID.Any(), Message: message.ID.Any(),
			Data: message.sentData(b.account, place.Status, b.s.hosted(message)),
		}
	}
	return drafts, nil
}

// hosted is the public URL of a message's file; nil if it is not stored.
func (s *Service) hosted(m *Message) *string {
	if m.MediaState == nil || *m.MediaState != mediaReady || m.MediaKey == nil {
		return nil
	}
	return new(s.media.URL(*m.MediaKey))
}

// FileURL is where the file of a message is: the hosted copy, or the link that it was sent with; nil if
// there is none.
func (s *Service) FileURL(m Message) *string {
	if url := s.hosted(&m); url != nil {
		return url
	}
	if file := m.file(); file != nil && m.Source != FromApp && m.Direction == Outbound {
		return file.Link
	}
	return nil
}

// sentData is the data of message.sent. hosted is the URL of a stored file, from the phone app or the library; nil if
// there is none.
func (m *Message) sentData(of accounts.Account, status conversations.Status, hosted *string) sentEvent {
	at := m.ID.CreatedAt()
	if m.SentAt != nil {
		at = *m.SentAt
	}
	shown := map[string]any{
		"id": m.ID, "provider_id": m.ProviderID, "type": m.Type, "body": m.text(), "from": of.PhoneNumber, "to": m.to(),
		"status": m.Status, "source": m.Source, "reply_to_provider_id": m.ReplyTo,
	}
	if file := m.file(); file != nil {
		if hosted != nil {
			file.Link = hosted
		}
		shown["media_url"], shown["media_status"] = file.Link, nil
		if file.Link != nil {
			shown["media_status"] = "ready"
		}
		shown[m.Type] = map[string]any{"link": file.Link, "caption": file.Caption}
	}
	if status == "" {
		status = conversations.Open
	}
	return sentEvent{
		Session: numberOfAccount(of), Direction: Outbound, FromMe: true, Timestamp: clock.Stamp(at), Message: shown,
		Conversation: sentConversation{ID: m.ConversationID, Status: status},
		Contact:      sentContact{ID: m.ContactID, PhoneNumber: m.ContactNumber, Name: m.ContactName},
		ProviderMeta: sentMeta{PhoneNumberID: numberOfAccount(of), DisplayPhoneNumber: digitsOf(of.PhoneNumber), Provider: providerName},
	}
}

// file is the part of a media message's content that is shown.
type file struct {
	Link    *string `json:"link"`
	Caption *string `json:"caption"`
}

func (m *Message) file() *file {
	switch m.Type {
	case provider.TypeImage, provider.TypeDocument, provider.TypeVideo, provider.TypeAudio, provider.TypeSticker:
	default:
		return nil
	}
	shown := &file{}
	_ = json.Unmarshal(m.Content, shown) // it was checked when it was accepted
	return shown
}

// text is the text of a message: its body, its caption or the rendered template; nil if it has none.
func (m *Message) text() *string {
	if m.Body != nil {
		return m.Body
	}
	return textOf(m.Type, m.Content)
}

// chosenReply is what a person chose of buttons or of a list.
type chosenReply struct {
	Title *string `json:"title"`
}

// textOf is the text in the content of a message.
func textOf(kind string, content json.RawMessage) *string {
	var shown struct {
		Body    json.RawMessage `json:"body"`
		Caption *string         `json:"caption"`
		Text    *string         `json:"text"`
		// Of an answer to buttons or to a list.
		Button *chosenReply `json:"button_reply"`
		List   *chosenReply `json:"list_reply"`
	}
	if json.Unmarshal(content, &shown) != nil {
		return nil
	}
	var plain string
	var nested struct {
		Text string `json:"text"`
	}
	switch {
	case kind == provider.TypeText && json.Unmarshal(shown.Body, &plain) == nil:
		return &plain
	case kind == provider.TypeInteractive && shown.Button != nil:
		return shown.Button.Title
	case kind == provider.TypeInteractive && shown.List != nil:
		return shown.List.Title
	case kind == provider.TypeInteractive && json.Unmarshal(shown.Body, &nested) == nil:
		return &nested.Text
	case kind == provider.TypeButton:
		return shown.Text
	default:
		return shown.Caption
	}
}

// statusEvent is message.status of a callback: the provider's envelope, in which the caller's own
// reference stands in place of ours.
func statusEvent(of accounts.Account, message *Message, one *notified) (events.Draft, error) {
	raw, err := withReference(one.Raw, message.ClientReference)
	if err != nil {
		return events.Draft{}, err
	}
	one.Raw = raw
	body, err := one.Envelope()
	return events.Draft{
		Type: events.MessageStatus, Key: one.status.MessageID, PhoneNumberID: numberOfAccount(of),
		Contact: message.ContactID.Any(), Message: message.ID.Any(), Body: body,
	}, err
}

const opaqueField = "biz_opaque_callback_data"

// withReference replaces our reference in a status by the caller's, or removes it.
func withReference(raw json.RawMessage, reference *string) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	delete(fields, opaqueField)
	if reference != nil {
		encoded, err := jsonout.Marshal(*reference)
		if err != nil {
			return nil, err
		}
		fields[opaqueField] = encoded
	}
	return jsonout.Marshal(fields)
}

// synthesizedEvent is message.status of a message that failed before the provider took it, in the
// provider's shape.
func synthesizedEvent(of accounts.Account, message *Message) events.Draft {
	code := -1
	if message.ProviderCode != nil {
		code = *message.ProviderCode
	}
	status := map[string]any{
		"id": message.ID, "status": "failed", "timestamp": strconv.FormatInt(message.FailedAt.Unix(), 10),
		"errors": []any{map[string]any{
			"code": code, "title": *message.ErrorMessage, "message": *message.ErrorMessage,
			"error_data": map[string]any{"details": *message.ErrorMessage},
		}},
	}
	if to := digitsOf(message.to()); to != nil {
		status["recipient_id"] = *to
	}
	if message.ToBSUID != nil {
		status["recipient_user_id"] = *message.ToBSUID
	}
	if message.ClientReference != nil {
		status[opaqueField] = *message.ClientReference
	}
	raw, _ := jsonout.Marshal(status) // plain values always encode
	notification := provider.Notification{
		BusinessAccountID: of.BusinessAccountID, NumberID: numberOfAccount(of), Field: "messages", Raw: raw,
	}.In("statuses")
	if of.PhoneNumber != nil {
		notification.DisplayNumber = *of.PhoneNumber
	}
	body, _ := notification.Envelope()
	return events.Draft{
		Type: events.MessageStatus, Key: message.ID.String(), PhoneNumberID: numberOfAccount(of),
		Contact: message.ContactID.Any(), Message: message.ID.Any(), Body: body,
	}
}

// to is the recipient's number, if it is known.
func (m *Message) to() *string {
	if m.ToNumber != nil {
		return m.ToNumber
	}
	return m.ContactNumber
}

func numberOfAccount(of accounts.Account) string {
	if of.PhoneNumberID == nil {
		return ""
	}
	return *of.PhoneNumberID
}

// digitsOf is a number without its plus.
func digitsOf(number *string) *string {
	if number == nil {
		return nil
	}
	digits := strings.TrimPrefix(*number, "+")
	return &digits
}
