package conversations

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Message is what a conversation stores of a message.
type Message struct {
	ID        ids.Any
	ContactID contacts.ID
	// At is when it was sent.
	At time.Time
	// Inbound is true for a message that the contact sent: it is unread, and opens the conversation.
	Inbound bool
	// Read is true for a message that was sent where the conversation is shown, such as the phone app: what the
	// contact sent before it is read.
	Read bool
	// Reaction is true for a reaction: it needs a conversation and changes nothing of it.
	Reaction bool
}

// Thread is the conversation that a message belongs to.
type Thread struct {
	ID         ID
	ContactID  contacts.ID
	Status     Status
	AssigneeID *orgs.UserID
	// LastInboundAt is when the contact last wrote; nil if never.
	LastInboundAt *time.Time
	// UnreadBefore is the unread count before this call, Unread the count after it.
	UnreadBefore, Unread int
	// ReadLate is true if the contact wrote, before this call, something newer than the last message with Read of this call. Unread
	// then still includes all of UnreadBefore: the caller must subtract the messages that are read.
	ReadLate bool
}

// SaidTx updates the conversations of messages: it makes those that are missing, and opens those again
// in which a contact wrote. It returns the thread of each message. For any number of messages it
// takes one statement if all conversations exist, else two. It locks the conversations in the order
// of their ids.
func (s *Service) SaidTx(ctx context.Context, tx *postgres.Tx, of accounts.Account, messages []Message) ([]Thread, error) {
	if len(messages) == 0 {
		return nil, nil
	}
	byContact := map[contacts.ID]*exchange{}
	for _, message := range messages {
		one := byContact[message.ContactID]
		if one == nil {
			one = &exchange{contact: message.ContactID, id: ids.New[kind](s.clock.Now())}
			byContact[message.ContactID] = one
		}
		one.add(message)
	}
	all := slices.SortedFunc(maps.Values(byContact), func(a, b *exchange) int { return a.contact.Any().Compare(b.contact.Any()) })
	threads, err := putConversations(ctx, tx, of.ID, all, s.clock.Now())
	if err != nil {
		return nil, err
	}
	return inOrder(messages, threads)
}

// inOrder finds the thread of each message. A contact without one was deleted or merged after the
// caller resolved it, or is being so: ErrAgain runs the transaction again.
func inOrder(messages []Message, threads []Thread) ([]Thread, error) {
	byContact := make(map[contacts.ID]Thread, len(threads))
	for _, thread := range threads {
		byContact[thread.ContactID] = thread
	}
	ordered := make([]Thread, len(messages))
	for i, m := range messages {
		thread, found := byContact[m.ContactID]
		if !found {
			return nil, postgres.ErrAgain
		}
		ordered[i] = thread
	}
	return ordered, nil
}

// UnreadTx sets how many inbound messages of a conversation are unread.
func (s *Service) UnreadTx(ctx context.Context, tx *postgres.Tx, id ID, unread int) error {
	return setUnread(ctx, tx, id, unread, s.clock.Now())
}

// LastInbound returns when each of the contacts last wrote to the number. A contact that never did is missing.
func (s *Service) LastInbound(ctx context.Context, scope postgres.Scope, of []contacts.ID) (map[contacts.ID]time.Time, error) {
	return lastInbound(ctx, scope, of)
}

// LockUnreadTx locks a conversation and returns how many of its inbound messages are unread.
func (s *Service) LockUnreadTx(ctx context.Context, tx *postgres.Tx, id ID) (int, error) {
	return lockUnread(ctx, tx, id)
}

// Label is a label of a conversation, in short.
type Label = labels.Summary

// LabelsTx returns the labels of conversations.
func (s *Service) LabelsTx(ctx context.Context, tx *postgres.Tx, conversations []ID) (map[ID][]Label, error) {
	return labelsOf(ctx, tx, conversations)
}

// ExpiredTx is called before messages of conversations are deleted because they are older than the organization's history.
// A conversation whose last message is older has none left: it points to none, and none is unread. When it was last written to
// stays, because the list is sorted by it.
func (s *Service) ExpiredTx(ctx context.Context, tx *postgres.Tx, of []ID, before ids.Any) error {
	return expireLast(ctx, tx, of, before, s.clock.Now())
}
