package messages

import (
	"context"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/domain/media"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// filesTx writes what became of the files of messages, and records the events that waited for them. It
// returns the messages that do not exist any more.
func (s *Service) filesTx(
	ctx context.Context, tx *postgres.Tx, of accounts.Account, outcomes []media.Outcome,
) (gone []ids.Any, err error) {
	if len(outcomes) == 0 {
		return nil, nil
	}
	all := postgres.Each(outcomes, func(o media.Outcome) ID { return ids.From[kind](o.MessageID) })
	messages, err := lockMessages(ctx, tx, of.ID, all)
	if err != nil {
		return nil, err
	}
	b := newBook(s, of)
	var waited []media.Outcome
	var changed []*Message
	for i, outcome := range outcomes {
		message := messages[all[i]]
		if message == nil {
			gone = append(gone, outcome.MessageID)
			continue
		}
		message.filed(outcome)
		event := announcedReceived
		if message.Direction == Outbound {
			event = announcedMessageSent
		}
		if message.announce(event) {
			waited = append(waited, outcome)
		}
		changed = append(changed, message)
	}
	if err := writeFiles(ctx, tx, changed); err != nil {
		return nil, err
	}
	if err := b.waitedTx(ctx, tx, messages, waited); err != nil {
		return nil, err
	}
	return gone, b.writeTx(ctx, tx)
}

// filed notes what became of the file. A file that is late is still being fetched.
func (m *Message) filed(outcome media.Outcome) {
	switch outcome.State {
	case media.Ready:
		m.MediaState, m.MediaType, m.MediaSize = new(mediaReady), orNil(outcome.MIMEType), &outcome.Size
	case media.Failed:
		m.MediaState = new(mediaFailed)
	case media.Late:
	}
}

// waitedTx records the events that waited, with the contact and the conversation as they are now: a
// contact may have been merged into another meanwhile. The event of a contact that is being erased is
// not recorded.
func (b *book) waitedTx(ctx context.Context, tx *postgres.Tx, messages map[ID]*Message, waited []media.Outcome) error {
	if len(waited) == 0 {
		return nil
	}
	places, err := placesOf(ctx, tx, postgres.Each(waited, func(o media.Outcome) ID { return ids.From[kind](o.MessageID) }))
	if err != nil {
		return err
	}
	var threads []conversations.ID
	for _, place := range places {
		threads = append(threads, place.ConversationID)
	}
	labelled, err := b.s.conversations.LabelsTx(ctx, tx, threads)
	if err != nil {
		return err
	}
	for _, outcome := range waited {
		message := messages[ids.From[kind](outcome.MessageID)]
		place, there := places[message.ID]
		if !there {
			continue
		}
		if message.Direction == Outbound {
			b.sent = append(b.sent, message)
			continue
		}
		place.put(&message.Said, &message.Person)
		thread := conversations.Thread{ID: place.ConversationID, Status: place.Status, AssigneeID: place.AssigneeID}
		draft, err := receivedEvent(b.account, message, thread, labelled[thread.ID], outcome.Event, b.s.hosted(message))
		if err != nil {
			return err
		}
		b.drafts = append(b.drafts, draft)
	}
	return nil
}

// place is where a message belongs now.
type place struct {
	ID             ID
	ContactID      contacts.ID
	ConversationID conversations.ID
	Status         conversations.Status
	AssigneeID     *orgs.UserID
	Person
}

// put makes a message show its place. What is stored of it moves later.
func (p place) put(said *Said, person *Person) {
	said.ContactID, said.ConversationID, *person = p.ContactID, p.ConversationID, p.Person
}
