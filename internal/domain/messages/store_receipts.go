package messages

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	sqlInsertReceipt = `
INSERT INTO receipts (org_id, id, account_id, provider_id, typing)
VALUES (@org_id, @id, @account_id, @provider_id, @typing)`
	sqlBeginReceipts = `
WITH locked AS MATERIALIZED (
    SELECT id, provider_id, typing, begun FROM receipts WHERE org_id = @org_id AND id = ANY (@ids) ORDER BY id FOR UPDATE
), begun AS (
    UPDATE receipts SET begun = true WHERE org_id = @org_id AND id IN (SELECT id FROM locked)
)
SELECT r.id, r.provider_id, r.typing, r.begun, a.xmin::text AS version
FROM locked r
JOIN accounts a ON a.org_id = @org_id AND a.id = @account_id`
	sqlEndReceipts = `
WITH again AS (
    UPDATE receipts SET begun = false WHERE org_id = @org_id AND id = ANY (@again)
)
DELETE FROM receipts WHERE org_id = @org_id AND id = ANY (@done)`
)

// storedReceipt is a receipt as it was before it was begun.
type storedReceipt struct {
	ID         ids.Any
	ProviderID string
	Typing     bool
	Begun      bool
	// Version changes with the row of the account.
	Version string
}

func insertReceipt(ctx context.Context, tx *postgres.Tx, id ids.Any, by accounts.ID, receipt Receipt) error {
	_, err := tx.Exec(ctx, sqlInsertReceipt, postgres.Args{
		"id": id, argAccount: by, "provider_id": receipt.MessageID, "typing": receipt.Typing,
	})
	return err
}

func beginReceipts(ctx context.Context, tx *postgres.Tx, of accounts.ID, asked []ids.Any) (map[ids.Any]storedReceipt, error) {
	rows, err := postgres.Many[storedReceipt](ctx, tx, sqlBeginReceipts, postgres.Args{"ids": asked, argAccount: of})
	found := make(map[ids.Any]storedReceipt, len(rows))
	for _, row := range rows {
		found[row.ID] = row
	}
	return found, err
}

func endReceipts(ctx context.Context, tx *postgres.Tx, done, again []ids.Any) error {
	_, err := tx.Exec(ctx, sqlEndReceipts, postgres.Args{"done": nonNil(done), "again": nonNil(again)})
	return err
}

func nonNil(all []ids.Any) []ids.Any {
	if all == nil {
		return []ids.Any{}
	}
	return all
}

// The unread messages are the newest inbound ones, at most as many as the conversation counts.
const sqlMarkRead = `
WITH unread AS MATERIALIZED (
    SELECT m.id
    FROM messages m
    JOIN LATERAL (SELECT status, sent_at FROM message_states WHERE org_id = @org_id AND id = m.id OFFSET 0) AS st ON true
    WHERE m.org_id = @org_id
      AND m.conversation_id = @conversation_id
      AND m.id <= @up_to
      AND (@until::timestamptz IS NULL OR st.sent_at <= @until)
      AND m.direction = 'inbound'
      AND st.status = 'delivered'
      AND m.type <> 'reaction'
    ORDER BY m.id DESC
    LIMIT @most
), locked AS MATERIALIZED (
    SELECT id FROM message_states WHERE org_id = @org_id AND id IN (SELECT id FROM unread) ORDER BY id FOR NO KEY UPDATE
)
UPDATE message_states
SET status = 'read', read_at = @now
WHERE org_id = @org_id
  AND id IN (SELECT id FROM locked)`

// mostUnread bounds how many messages one receipt marks.
const mostUnread = 10_000

// markRead marks messages with ids up to upTo as read at a time, and returns how many. unread is how many of them are not:
// the search ends when it has found so many. until, unless nil, leaves out those that were sent after it.
func markRead(
	ctx context.Context, tx *postgres.Tx, in conversations.ID, upTo ID, unread int, until *time.Time, at time.Time,
) (int, error) {
	marked, err := tx.Exec(ctx, sqlMarkRead, postgres.Args{
		"conversation_id": in, "up_to": upTo, "until": until, "most": min(unread, mostUnread), "now": at,
	})
	return int(marked), err
}

const sqlCountUnread = `
SELECT count(*)::int
FROM (
    SELECT
    FROM messages m
    JOIN LATERAL (SELECT status FROM message_states WHERE org_id = @org_id AND id = m.id OFFSET 0) AS st ON true
    WHERE m.org_id = @org_id
      AND m.conversation_id = @conversation_id
      AND m.id > @after
      AND m.direction = 'inbound'
      AND st.status = 'delivered'
      AND m.type <> 'reaction'
    ORDER BY m.id
    LIMIT @most
) AS unread`

// countUnread counts the inbound messages after one that are not read, at most so many.
func countUnread(ctx context.Context, tx *postgres.Tx, in conversations.ID, after ID, most int) (int, error) {
	return postgres.One[int](ctx, tx, sqlCountUnread, postgres.Args{"conversation_id": in, "after": after, "most": most})
}
