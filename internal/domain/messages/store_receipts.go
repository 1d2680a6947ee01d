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

const (
	// The inbound messages among the newest @most_rows of a conversation between two ids. Users of sqlWithin say which ids, then
	// add sqlInbound, conditions and the order.
	sqlWithin = `
    SELECT m.id
    FROM (
        SELECT id, direction, type
        FROM messages
        WHERE org_id = @org_id
          AND conversation_id = @conversation_id`
	sqlInbound = `
        ORDER BY id DESC
        LIMIT @most_rows
    ) AS m
    JOIN LATERAL (SELECT status, sent_at FROM message_states WHERE org_id = @org_id AND id = m.id OFFSET 0) AS st ON true
    WHERE m.direction = 'inbound'`
	// Those that are not read. Unless @until is null, those that were sent after it are left out.
	sqlNotRead = sqlInbound + `
      AND (@until::timestamptz IS NULL OR st.sent_at <= @until)
      AND st.status = 'delivered'`
	// Those of them that the conversation counts: reactions are not.
	sqlUnread = sqlWithin + `
          AND id > @after
          AND id <= @up_to` + sqlNotRead + `
      AND m.type <> 'reaction'
    ORDER BY m.id DESC
    LIMIT @most`
)

// The conversation counts its unread messages, so that the search for them ends when all are found. It does not count reactions,
// so that the search for them needs another end: the newest message that was read before the oldest unread one. The change that
// read it read the reactions before it too, unless they came out of order.
const sqlMarkRead = `
WITH unread AS MATERIALIZED (` + sqlUnread + `
), read AS MATERIALIZED (` + sqlWithin + `
          AND id < coalesce((SELECT id FROM unread ORDER BY id LIMIT 1), @up_to)` + sqlInbound + `
      AND st.status = 'read'
    ORDER BY m.id DESC
    LIMIT 1
), reactions AS MATERIALIZED (` + sqlWithin + `
          AND id > coalesce((SELECT id FROM read), @after)
          AND id <= @up_to` + sqlNotRead + `
      AND m.type = 'reaction'
    ORDER BY m.id DESC
    LIMIT @most_rows
), locked AS MATERIALIZED (
    SELECT st.id
    FROM (SELECT id FROM unread UNION ALL SELECT id FROM reactions ORDER BY id LIMIT @bound) AS wanted
    JOIN LATERAL (SELECT id FROM message_states WHERE org_id = @org_id AND id = wanted.id FOR NO KEY UPDATE) AS st ON true
), marked AS (
    UPDATE message_states st
    SET status = 'read', read_at = @now
    FROM (SELECT @org_id::uuid AS org_id, id FROM locked LIMIT @bound) AS given
    WHERE st.org_id = given.org_id
      AND st.id = given.id
)
SELECT count(*)::int FROM unread`

// mostRows is how far back a receipt looks in a conversation. Messages before that stay as they are.
const (
	mostRows    = 20_000
	argMostRows = "most_rows"
)

// markRead marks messages with ids up to upTo as read at a time, and returns how many of them the conversation counted. unread is
// how many it counts. until, unless nil, leaves out those that were sent after it.
func markRead(
	ctx context.Context, tx *postgres.Tx, in conversations.ID, upTo ID, unread int, until *time.Time, at time.Time,
) (int, error) {
	return postgres.One[int](ctx, tx, sqlMarkRead, postgres.Args{
		"conversation_id": in, "after": ID{}, "up_to": upTo, "until": until, "now": at,
		"most": unread, argMostRows: mostRows, "bound": 2 * mostRows,
	})
}

const sqlCountUnread = `
SELECT count(*)::int FROM (` + sqlUnread + `
) AS unread`

// countUnread counts the messages with ids above after that a conversation should count as unread, at most so many.
func countUnread(ctx context.Context, tx *postgres.Tx, in conversations.ID, after ID, most int) (int, error) {
	return postgres.One[int](ctx, tx, sqlCountUnread, postgres.Args{
		"conversation_id": in, "after": after, "up_to": ids.Ceiling[kind](), "until": (*time.Time)(nil), "most": most, argMostRows: mostRows,
	})
}
