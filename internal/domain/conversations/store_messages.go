package conversations

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	// The inner query finds the ids by the index on contact_id; the planner would otherwise read all
	// conversations of an organization in the order of their ids.
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

// exchange is the messages of one contact.
type exchange struct {
	contact contacts.ID
	// id is for the conversation, should it be missing.
	id    ID
	count int
	at    time.Time
	read  bool
}

// putConversations locks the conversations of contacts, then writes them by sqlReceived or sqlSent.
func putConversations(
	ctx context.Context, tx *postgres.Tx, of accounts.ID, all []*exchange, now time.Time, sql string,
) ([]Thread, error) {
	args := postgres.Columns(all,
		postgres.Col("contact_ids", func(e *exchange) contacts.ID { return e.contact }),
		postgres.Col("ids", func(e *exchange) ID { return e.id }),
		postgres.Col("counts", func(e *exchange) int { return e.count }),
		postgres.Col("ats", func(e *exchange) time.Time { return e.at }))
	readIn := []contacts.ID{}
	for _, one := range all {
		if one.read {
			readIn = append(readIn, one.contact)
		}
	}
	args[argAccount], args["now"], args["read_in"] = of, now, readIn
	if _, err := postgres.Many[ID](ctx, tx, sqlLockOf, postgres.Args{"contact_ids": args["contact_ids"]}); err != nil {
		return nil, err
	}
	return postgres.Many[Thread](ctx, tx, sql, args)
}

const sqlSetUnread = `
UPDATE conversations
SET unread_count = @unread,
    updated_at = ` + sqlLater + `
WHERE org_id = @org_id
  AND id = @id
  AND unread_count <> @unread`

func setUnread(ctx context.Context, tx *postgres.Tx, id ID, unread int, now time.Time) error {
	_, err := tx.Exec(ctx, sqlSetUnread, postgres.Args{"id": id, "unread": unread, "now": now})
	return err
}
