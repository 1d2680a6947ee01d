package conversations

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// argAccount is bound in almost every statement.
const argAccount = "account_id"

const (
	own = `id, contact_id, status, assignee_id, unread_count, last_message_at, last_inbound_at, updated_at`

	// shown is a conversation with the names that it shows.
	sqlShown = `
SELECT c.id, c.contact_id, k.phone_number AS contact_number, k.name AS contact_name, c.status,
    c.assignee_id, u.name AS assignee_name, u.email AS assignee_email, c.unread_count, c.last_message_at, c.last_inbound_at, c.updated_at`
	// One look-up for each conversation: a plan made for any number of them would read all contacts.
	sqlNames = `
JOIN LATERAL (SELECT phone_number, name FROM contacts WHERE org_id = @org_id AND id = c.contact_id OFFSET 0) AS k ON true
LEFT JOIN LATERAL (SELECT name, email FROM users WHERE org_id = @org_id AND id = c.assignee_id OFFSET 0) AS u ON true`
)

// An id that was joined into another names that one.
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

// The conditions of a list. Each is in the statement only when it is asked for: a plan
// made for `@status IS NULL OR …` could use no index.
const (
	sqlOwn = `
    SELECT ` + own + `, org_id, recent_at
    FROM conversations
    WHERE org_id = @org_id
      AND account_id = @account_id
      AND departure IS NULL`
	sqlWithStatus  = ` AND status = @status`
	sqlWithContact = `
      AND contact_id = coalesce((SELECT joined_into FROM contacts WHERE org_id = @org_id AND id = @contact_id), @contact_id)`
	sqlAssigned = ` AND assignee_id = @assignee_id`
	sqlUnread   = ` AND unread_count > 0`
	sqlRead     = ` AND unread_count = 0`
	// A value and no EXISTS, of which the planner may make a join of all that carry the label.
	sqlWithLabel = `
      AND (SELECT true FROM conversation_labels l
           WHERE l.org_id = @org_id AND l.conversation_id = conversations.id AND l.label_id = @label_id AND l.account_id = @account_id)`
	// A label that few carry is gathered; walking the inbox for it would take long.
	sqlGathered = `
      AND id = ANY (ARRAY (SELECT conversation_id FROM conversation_labels
                           WHERE org_id = @org_id AND label_id = @label_id AND account_id = @account_id))`
	sqlCarriers = `
SELECT count(*)
FROM (SELECT FROM conversation_labels WHERE org_id = @org_id AND label_id = @label_id AND account_id = @account_id LIMIT @few) AS carriers`
)

// sqlWalked names the column of the inbox's own index, for lists that no other index answers.
const sqlWalked = ` AND recent_at <= @at`

// few is how many conversations are put in order at once.
const few = 1000

// The order of a list, and what comes after a position in it.
const (
	sqlByRecent = ` AND (recent_at, id) < (@at, @after)
    ORDER BY recent_at DESC, id DESC
    LIMIT @limit`
	sqlByUpdated = ` AND updated_at > @since AND (updated_at, id) < (@at, @after)
    ORDER BY updated_at DESC, id DESC
    LIMIT @limit`
	sqlPage = sqlShown + `
FROM (`
	sqlRecentPage = `
) AS c` + sqlNames + `
ORDER BY c.recent_at DESC, c.id DESC`
	sqlUpdatedPage = `
) AS c` + sqlNames + `
ORDER BY c.updated_at DESC, c.id DESC`
)

func listConversations(
	ctx context.Context, scope postgres.Scope, of accounts.ID, filter Filter, slice paging.Slice[Position],
) ([]Conversation, error) {
	args := postgres.Args{argAccount: of, "limit": slice.Limit + 1}
	args["at"], args["after"] = after(slice.After)
	conditions, err := conditionsOf(ctx, scope, filter, args)
	if err != nil {
		return nil, err
	}
	sql := sqlPage + sqlOwn + conditions + sqlByRecent + sqlRecentPage
	if filter.UpdatedSince != nil {
		args["since"] = *filter.UpdatedSince
		sql = sqlPage + sqlOwn + conditions + sqlByUpdated + sqlUpdatedPage
	}
	return postgres.Many[Conversation](ctx, scope, sql, args)
}

func conditionsOf(ctx context.Context, scope postgres.Scope, filter Filter, args postgres.Args) (conditions string, err error) {
	with := func(condition, name string, value any) {
		conditions += condition
		args[name] = value
	}
	if filter.Status != "" {
		with(sqlWithStatus, "status", filter.Status)
	}
	if filter.ContactID != nil {
		with(sqlWithContact, "contact_id", *filter.ContactID)
	}
	if filter.AssignedTo != nil {
		with(sqlAssigned, "assignee_id", *filter.AssignedTo)
	}
	if filter.Unread != nil && *filter.Unread {
		conditions += sqlUnread
	} else if filter.Unread != nil {
		conditions += sqlRead
	}
	walked := filter.Status == "" && filter.ContactID == nil && filter.AssignedTo == nil && filter.UpdatedSince == nil &&
		(filter.Unread == nil || !*filter.Unread)
	if filter.LabelID != nil {
		carriers, err := postgres.One[int](ctx, scope, sqlCarriers, postgres.Args{
			"label_id": *filter.LabelID, argAccount: args[argAccount], "few": few,
		})
		if err != nil {
			return "", err
		}
		if carriers == few {
			with(sqlWithLabel, "label_id", *filter.LabelID)
		} else {
			with(sqlGathered, "label_id", *filter.LabelID)
			walked = false
		}
	}
	if walked {
		conditions += sqlWalked
	}
	return conditions, nil
}

// after is where a list goes on: at the position, or at its very start.
func after(position *Position) (pgtype.Timestamptz, ID) {
	switch {
	case position == nil:
		return pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}, ids.Ceiling[kind]()
	case position.At == nil:
		return pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}, position.ID
	default:
		return pgtype.Timestamptz{Time: *position.At, Valid: true}, position.ID
	}
}

// carried is a label on a conversation.
type carried struct {
	ConversationID ID
	labels.Summary
}

// One look-up for each conversation: a plan made for the average organization would read all
// labels of a large one instead.
const sqlLabelsOf = `
SELECT wanted.conversation_id, l.id, l.name, l.color
FROM unnest(@ids::uuid[]) AS wanted (conversation_id)
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
	listed := make([]ID, len(conversations))
	for i, conversation := range conversations {
		listed[i] = conversation.ID
	}
	carried, err := labelsOf(ctx, scope, listed)
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

// later is the time of a change in SQL: it never stands still.
const sqlLater = `greatest(@now, updated_at + interval '1 millisecond')`

func newest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
