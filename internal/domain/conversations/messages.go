package conversations

import (
	"context"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Message is what a conversation must know of something that was said with a contact.
type Message struct {
	ContactID contacts.ID
	// At is when it was said.
	At time.Time
	// Read tells of a message sent where the conversation was in sight: on the phone or in the
	// dashboard. Nothing before it is unread.
	Read bool
}

// Thread is the conversation that a message belongs to.
type Thread struct {
	ID         ID
	ContactID  contacts.ID
	Status     Status
	AssigneeID *orgs.UserID
}

// ReceivedTx has conversations know of messages that contacts sent, makes those that are
// missing and opens them again. It returns the thread of each message. However many
// messages there are, it is two statements, and locks the conversations in order.
func (s *Service) ReceivedTx(ctx context.Context, tx *postgres.Tx, of accounts.Account, messages []Message) ([]Thread, error) {
	return s.saidTx(ctx, tx, of, messages, sqlReceived)
}

// SentTx is ReceivedTx for messages that were sent to contacts: it opens nothing again.
func (s *Service) SentTx(ctx context.Context, tx *postgres.Tx, of accounts.Account, messages []Message) ([]Thread, error) {
	return s.saidTx(ctx, tx, of, messages, sqlSent)
}

const (
	// By their own ids: in the order of these, the planner may walk all of an organization.
	sqlLockOf = `
SELECT id
FROM conversations
WHERE org_id = @org_id
  AND contact_id = ANY (@contact_ids)
  AND id = ANY (ARRAY (
      SELECT c.id
      FROM unnest(@contact_ids::uuid[]) AS wanted (contact_id)
      JOIN LATERAL (SELECT id FROM conversations WHERE org_id = @org_id AND contact_id = wanted.contact_id OFFSET 0) AS c ON true))
ORDER BY id
FOR NO KEY UPDATE`
	sqlSaid = `
FROM unnest(@contact_ids::uuid[], @ids::uuid[], @counts::integer[], @ats::timestamptz[]) AS given (contact_id, id, count, at)
ON CONFLICT (org_id, contact_id) DO UPDATE
SET last_message_at = greatest(conversations.last_message_at, EXCLUDED.last_message_at),`
	sqlSaidWhere = `
    updated_at = greatest(@now, conversations.updated_at + interval '1 millisecond')
WHERE conversations.departure IS NULL
RETURNING id, contact_id, status, assignee_id`
	sqlReceived = `
INSERT INTO conversations (org_id, id, account_id, contact_id, status, unread_count, last_message_at, last_inbound_at, updated_at)
SELECT @org_id, id, @account_id, contact_id, 'open', count, at, at, @now` + sqlSaid + `
    last_inbound_at = greatest(conversations.last_inbound_at, EXCLUDED.last_inbound_at),
    unread_count = conversations.unread_count + EXCLUDED.unread_count,
    status = 'open',` + sqlSaidWhere
	sqlSent = `
INSERT INTO conversations (org_id, id, account_id, contact_id, status, unread_count, last_message_at, updated_at)
SELECT @org_id, id, @account_id, contact_id, 'open', 0, at, @now` + sqlSaid + `
    unread_count = CASE WHEN conversations.contact_id = ANY (@read_in) THEN 0 ELSE conversations.unread_count END,` + sqlSaidWhere
)

func (s *Service) saidTx(ctx context.Context, tx *postgres.Tx, of accounts.Account, messages []Message, sql string) ([]Thread, error) {
	if len(messages) == 0 {
		return nil, nil
	}
	now := s.clock.Now()
	said := map[contacts.ID]Message{}
	counts := map[contacts.ID]int{}
	readIn := []contacts.ID{}
	for _, m := range messages {
		counts[m.ContactID]++
		if m.Read {
			readIn = append(readIn, m.ContactID)
		}
		said[m.ContactID] = Message{At: newest(m.At, said[m.ContactID].At)}
	}
	args := postgres.Args{argAccount: of.ID, "now": now, "read_in": readIn}
	var with []contacts.ID
	var made []ID
	var many []int
	var ats []time.Time
	for contact := range counts {
		with = append(with, contact)
	}
	slices.SortFunc(with, func(a, b contacts.ID) int { return a.Any().Compare(b.Any()) })
	for _, contact := range with {
		made, many, ats = append(made, ids.New[kind](now)), append(many, counts[contact]), append(ats, said[contact].At)
	}
	if _, err := postgres.Many[ID](ctx, tx, sqlLockOf, postgres.Args{"contact_ids": with}); err != nil {
		return nil, err
	}
	args["contact_ids"], args["ids"], args["counts"], args["ats"] = with, made, many, ats
	threads, err := postgres.Many[Thread](ctx, tx, sql, args)
	if err != nil {
		return nil, err
	}
	return inOrder(messages, threads)
}

// inOrder finds the thread of each message. A contact without one has just been deleted or
// joined: whoever resolved it must do so again.
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

const sqlSetUnread = `
UPDATE conversations
SET unread_count = @unread,
    updated_at = ` + sqlLater + `
WHERE org_id = @org_id
  AND id = @id
  AND unread_count <> @unread`

// UnreadTx sets how many inbound messages of a conversation nobody has read.
func (s *Service) UnreadTx(ctx context.Context, tx *postgres.Tx, id ID, unread int) error {
	_, err := tx.Exec(ctx, sqlSetUnread, postgres.Args{"id": id, "unread": unread, "now": s.clock.Now()})
	return err
}

// LabelsTx returns the labels of conversations.
func (s *Service) LabelsTx(ctx context.Context, tx *postgres.Tx, conversations []ID) (map[ID][]labels.Summary, error) {
	return labelsOf(ctx, tx, conversations)
}
