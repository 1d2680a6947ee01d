package conversations

import (
	"context"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const argAccount = "account_id"

const (
	own = `id, contact_id, status, assignee_id, unread_count, last_message_at, last_inbound_at, updated_at`

	// A conversation with the name and number of its contact and the name of its assignee.
	sqlShown = `
SELECT c.id, c.contact_id, k.phone_number AS contact_number, k.name AS contact_name, c.status,
    c.assignee_id, u.name AS assignee_name, u.email AS assignee_email, c.unread_count, c.last_message_at, c.last_inbound_at, c.updated_at`
	// OFFSET 0 keeps one look-up for each conversation: a plan made for any number of them would
	// read all contacts.
	sqlNames = `
JOIN LATERAL (SELECT phone_number, name FROM contacts WHERE org_id = @org_id AND id = c.contact_id OFFSET 0) AS k ON true
LEFT JOIN LATERAL (SELECT name, email FROM users WHERE org_id = @org_id AND id = c.assignee_id OFFSET 0) AS u ON true`
)

// The id of a conversation that was merged into another finds that one.
const (
	sqlOne = sqlShown + `
FROM conversations c` + sqlNames + `
WHERE c.org_id = @org_id
  AND c.account_id = @account_id
  AND c.departure IS NULL
  AND c.id = coalesce((SELECT joined_into FROM conversations WHERE org_id = @org_id AND id = @id), @id)`
	sqlLockOne = sqlOne + `
FOR NO KEY UPDATE OF c`
)

func conversationByID(ctx context.Context, scope postgres.Scope, of accounts.ID, id ID) (Conversation, error) {
	return postgres.One[Conversation](ctx, scope, sqlOne, postgres.Args{argAccount: of, "id": id})
}

func lockConversation(ctx context.Context, tx *postgres.Tx, of accounts.ID, id ID) (Conversation, error) {
	return postgres.One[Conversation](ctx, tx, sqlLockOne, postgres.Args{argAccount: of, "id": id})
}

const sqlUpdate = `
UPDATE conversations
SET status = @status,
    assignee_id = @assignee_id,
    updated_at = @updated_at
WHERE org_id = @org_id
  AND id = @id`

func updateConversation(ctx context.Context, tx *postgres.Tx, c Conversation) error {
	_, err := tx.Exec(ctx, sqlUpdate, postgres.Args{
		"id": c.ID, "status": c.Status, "assignee_id": c.AssigneeID, "updated_at": c.UpdatedAt,
	})
	return err
}

const (
	sqlAttach = `
INSERT INTO conversation_labels (org_id, conversation_id, label_id, account_id)
VALUES (@org_id, @id, @label_id, @account_id)
ON CONFLICT DO NOTHING`
	sqlDetach = `
DELETE FROM conversation_labels
WHERE org_id = @org_id
  AND conversation_id = @id
  AND label_id = @label_id`
)

const sqlCarried = `
SELECT count(*)
FROM conversation_labels
WHERE org_id = @org_id
  AND conversation_id = @id`

// labelConversation attaches or detaches a label and returns whether that changed anything.
func labelConversation(ctx context.Context, tx *postgres.Tx, of accounts.ID, id ID, label labels.ID, attach bool) (bool, error) {
	sql := sqlDetach
	if attach {
		sql = sqlAttach
	}
	touched, err := tx.Exec(ctx, sql, postgres.Args{"id": id, "label_id": label, argAccount: of})
	if err != nil || touched == 0 || !attach {
		return touched > 0, err
	}
	carried, err := postgres.One[int](ctx, tx, sqlCarried, postgres.Args{"id": id})
	if err == nil && carried > labels.MaxCarried {
		err = labels.TooMany("conversation", id)
	}
	return true, err
}

// carried is a label on a conversation.
type carried struct {
	ConversationID ID
	labels.Summary
}

// OFFSET 0 keeps one look-up for each conversation: a plan made for the average organization would
// read all labels of a large one.
const sqlLabelsOf = `
SELECT wanted.conversation_id, l.id, l.name, l.color
FROM (SELECT DISTINCT conversation_id FROM unnest(@ids::uuid[]) AS conversation_id) AS wanted
JOIN LATERAL (
    SELECT label_id FROM conversation_labels WHERE org_id = @org_id AND conversation_id = wanted.conversation_id OFFSET 0
) AS carried ON true
JOIN labels l ON l.org_id = @org_id AND l.id = carried.label_id
ORDER BY wanted.conversation_id, l.id`

func labelsOf(ctx context.Context, scope postgres.Scope, conversations []ID) (map[ID][]labels.Summary, error) {
	rows, err := postgres.Many[carried](ctx, scope, sqlLabelsOf, postgres.Args{"ids": conversations})
	byConversation := map[ID][]labels.Summary{}
	for _, row := range rows {
		byConversation[row.ConversationID] = append(byConversation[row.ConversationID], row.Summary)
	}
	return byConversation, err
}

// withLabels gives conversations the labels they carry, oldest first.
func withLabels(ctx context.Context, scope postgres.Scope, conversations []Conversation) ([]Conversation, error) {
	if len(conversations) == 0 {
		return conversations, nil
	}
	carried, err := labelsOf(ctx, scope, postgres.Each(conversations, func(c Conversation) ID { return c.ID }))
	for i := range conversations {
		conversations[i].Labels = carried[conversations[i].ID]
	}
	return conversations, err
}

func withLabelsOne(ctx context.Context, scope postgres.Scope, conversation Conversation, err error) (Conversation, error) {
	if err != nil {
		return Conversation{}, err
	}
	one, err := withLabels(ctx, scope, []Conversation{conversation})
	return one[0], err
}

// The time of a change, a millisecond after the one before at least.
const sqlLater = `greatest(@now, updated_at + interval '1 millisecond')`
