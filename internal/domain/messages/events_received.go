package messages

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/media"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/jsonout"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// enrichment is the object `svc` of message.received: what is known here about the message.
type enrichment struct {
	ConversationID conversations.ID      `json:"conversation_id"`
	ContactID      contacts.ID           `json:"contact_id"`
	MessageID      ID                    `json:"message_id"`
	PhoneNumberID  string                `json:"phone_number_id"`
	Labels         []conversations.Label `json:"labels"`
	Conversation   enrichedConversation  `json:"conversation"`
	Contact        enrichedContact       `json:"contact"`
	MediaURL       *string               `json:"media_url"`
	MediaStatus    *string               `json:"media_status"`
}

type enrichedConversation struct {
	Status     conversations.Status `json:"status"`
	AssignedTo *orgs.UserID         `json:"assigned_to"`
}

type enrichedContact struct {
	Name        *string `json:"name"`
	PhoneNumber *string `json:"phone_number"`
}

// announceTx has the events of new messages recorded, and their ids and those of edits stored.
func (b *batch) announceTx(ctx context.Context, tx *postgres.Tx, book *book) error {
	for _, one := range b.amended {
		if one.edit != nil {
			book.arrivedIDs = append(book.arrivedIDs, providerID{ProviderID: one.edit.ID, MessageID: one.message})
		}
	}
	if len(b.said) == 0 {
		return nil
	}
	labelled, err := b.s.conversations.LabelsTx(ctx, tx, postgres.Each(b.said, func(one *arrival) conversations.ID { return one.thread.ID }))
	if err != nil {
		return err
	}
	var files []media.File
	for _, one := range b.said {
		m := &one.message
		book.arrive(m)
		if m.Direction == Outbound {
			if one.file == nil {
				book.sent = append(book.sent, m)
			} else {
				files = append(files, media.File{MessageID: m.ID.Any(), Ref: *one.file, Key: *m.MediaKey})
			}
			continue
		}
		envelope, err := one.envelope()
		if err != nil {
			return err
		}
		if one.file != nil {
			files = append(files, media.File{MessageID: m.ID.Any(), Ref: *one.file, Key: *m.MediaKey, Event: envelope})
			continue
		}
		draft, err := receivedEvent(b.account, m, one.thread, labelled[one.thread.ID], envelope, nil)
		if err != nil {
			return err
		}
		book.drafts = append(book.drafts, draft)
	}
	book.files = files
	return nil
}

// envelope is the body of message.received without `svc`. A message whose type is not one of the
// specification's is shown as it is stored.
func (one *arrival) envelope() ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(one.Raw, &fields); err != nil {
		return nil, err
	}
	var given string
	_ = json.Unmarshal(fields["type"], &given) // a type that is no text is replaced, too
	item := one.Notification
	if given != one.message.Type || given == provider.TypeReaction || given == provider.TypeUnsupported {
		fields["type"], _ = jsonout.Marshal(one.message.Type) // text always encodes
		fields[one.message.Type] = one.message.Content
		raw, err := jsonout.Marshal(fields)
		if err != nil {
			return nil, err
		}
		item.Raw = raw
	}
	return item.Envelope()
}

// receivedEvent is message.received: the provider's envelope and what is known here.
func receivedEvent(
	of accounts.Account, m *Message, thread conversations.Thread, labelled []conversations.Label, envelope []byte, mediaURL *string,
) (events.Draft, error) {
	known := enrichment{
		ConversationID: m.ConversationID, ContactID: m.ContactID, MessageID: m.ID, PhoneNumberID: numberOfAccount(of), Labels: labelled,
		Conversation: enrichedConversation{Status: thread.Status, AssignedTo: thread.AssigneeID},
		Contact:      enrichedContact{Name: m.ContactName, PhoneNumber: m.ContactNumber},
		MediaURL:     mediaURL,
	}
	if known.Labels == nil {
		known.Labels = []conversations.Label{}
	}
	if mediaURL != nil {
		known.MediaStatus = new(mediaReady)
	}
	svc, err := jsonout.Marshal(known)
	if err != nil {
		return events.Draft{}, err
	}
	body := slices.Concat(envelope[:len(envelope)-1], []byte(`,"svc":`), svc, []byte{'}'})
	return events.Draft{
		Type: events.MessageReceived, Key: *m.ProviderID, PhoneNumberID: numberOfAccount(of),
		Contact: m.ContactID.Any(), Message: m.ID.Any(), Body: body,
	}, nil
}
