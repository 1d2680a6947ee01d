package conversations

import (
	"context"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	// Conversations are locked in the order of their ids. Each is looked up alone, because with = ANY the planner
	// reads all conversations of the organization as long as it expects only few.
	sqlLockOf = `
SELECT c.id, c.contact_id, c.unread_count, c.last_inbound_at
FROM (
    SELECT c.id
    FROM unnest(@contact_ids::uuid[]) AS wanted (contact_id)
    JOIN LATERAL (SELECT id FROM conversations WHERE org_id = @org_id AND contact_id = wanted.contact_id OFFSET 0) AS c ON true
    ORDER BY c.id
) AS found
JOIN LATERAL (
    SELECT id, contact_id, unread_count, last_inbound_at FROM conversations WHERE org_id = @org_id AND id = found.id FOR NO KEY UPDATE
) AS c ON true`
	// The conversations that exist are locked, then updated. A row that another transaction has changed is updated
	// in its newest version, which the lock waited for. LIMIT makes the planner look up each
	// conversation by its key (ADR 15).
	sqlUpdateSaid = `
WITH held AS MATERIALIZED (` + sqlLockOf + `
)
UPDATE conversations c
SET last_message_at = greatest(c.last_message_at, given.at),
    last_message_id = CASE WHEN given.at >= coalesce(c.last_message_at, given.at) THEN given.last ELSE c.last_message_id END,
    last_inbound_at = greatest(c.last_inbound_at, given.inbound_at),
    unread_count = CASE WHEN given.read_at >= coalesce(c.last_inbound_at, given.read_at) THEN 0 ELSE c.unread_count END + given.unread,
    status = CASE WHEN given.inbound_at IS NOT NULL THEN 'open' ELSE c.status END,
    updated_at = CASE WHEN given.at IS NULL THEN c.updated_at ELSE greatest(@now, c.updated_at + interval '1 millisecond') END
FROM (
    SELECT @org_id::uuid AS org_id, held.id, held.unread_count, held.last_inbound_at, asked.*
    FROM held
    JOIN unnest(@contact_ids::uuid[], @ats::timestamptz[], @lasts::uuid[], @inbound_ats::timestamptz[], @unread::integer[],
        @read_ats::timestamptz[]) AS asked (contact_id, at, last, inbound_at, unread, read_at) ON asked.contact_id = held.contact_id
    LIMIT @count
) AS given
WHERE c.org_id = given.org_id
  AND c.id = given.id
  AND c.contact_id = given.contact_id
  AND c.departure IS NULL
RETURNING c.id, c.contact_id, c.status, c.assignee_id, c.last_inbound_at, given.unread_count AS unread_before, c.unread_count AS unread,
    coalesce(given.read_at < given.last_inbound_at, false) AS read_late`

	// For conversations that were missing a moment ago; another transaction may have made them since. A contact that was
	// merged or deleted since gets none: its conversation is that of the other contact now. One that is being merged or deleted
	// is locked FOR UPDATE, and SKIP LOCKED leaves it out: waiting could be a deadlock, because contacts are locked before
	// conversations. A merge that comes later waits for this transaction, and finds the conversation.
	sqlInsertSaid = `
INSERT INTO conversations
    (org_id, id, account_id, contact_id, status, unread_count, last_message_at, last_message_id, last_inbound_at, updated_at)
SELECT @org_id, id, @account_id, contact_id, 'open', unread, at, last, inbound_at, @now
FROM unnest(@contact_ids::uuid[], @ids::uuid[], @ats::timestamptz[], @lasts::uuid[], @inbound_ats::timestamptz[], @unread::integer[])
    AS given (contact_id, id, at, last, inbound_at, unread)
JOIN LATERAL (
    SELECT FROM contacts WHERE org_id = @org_id AND id = given.contact_id AND departure IS NULL OFFSET 0 FOR KEY SHARE SKIP LOCKED
) AS kept ON true
ON CONFLICT (org_id, contact_id) WHERE contact_id IS NOT NULL DO UPDATE
SET last_message_at = greatest(conversations.last_message_at, EXCLUDED.last_message_at),
    last_message_id = CASE WHEN EXCLUDED.last_message_at >= coalesce(conversations.last_message_at, EXCLUDED.last_message_at)
        THEN EXCLUDED.last_message_id ELSE conversations.last_message_id END,
    last_inbound_at = greatest(conversations.last_inbound_at, EXCLUDED.last_inbound_at),
    unread_count = CASE
        WHEN EXISTS (
            SELECT FROM unnest(@contact_ids::uuid[], @read_ats::timestamptz[]) AS r (contact_id, read_at)
            WHERE r.contact_id = conversations.contact_id AND r.read_at >= coalesce(conversations.last_inbound_at, r.read_at)) THEN 0
        ELSE conversations.unread_count END + EXCLUDED.unread_count,
    status = CASE WHEN EXCLUDED.last_inbound_at IS NOT NULL THEN 'open' ELSE conversations.status END,
    updated_at = greatest(@now, conversations.updated_at + interval '1 millisecond')
WHERE conversations.departure IS NULL
RETURNING id, contact_id, status, assignee_id, last_inbound_at, 0 AS unread_before, unread_count AS unread, false AS read_late`
)

// exchange is the messages of one contact.
type exchange struct {
	contact contacts.ID
	// id is for the conversation, should it be missing.
	id ID
	// at is when the last of them was sent, last its id; nil if there are only reactions. inboundAt is
	// when the contact wrote last.
	at, inboundAt *time.Time
	last          ids.Any
	// unread has the send times of the inbound messages that no message with Read follows. readAt is the send time of the last
	// message with Read; nil if there is none.
	unread []time.Time
	readAt *time.Time
}

func (e *exchange) add(message Message) {
	if message.Reaction {
		return
	}
	if e.at == nil || !message.At.Before(*e.at) {
		e.at, e.last = &message.At, message.ID
	}
	if message.Inbound {
		if e.readAt == nil || !message.At.Before(*e.readAt) {
			e.unread = append(e.unread, message.At)
		}
		if e.inboundAt == nil || message.At.After(*e.inboundAt) {
			e.inboundAt = &message.At
		}
	}
	if message.Read {
		e.unread = slices.DeleteFunc(e.unread, func(at time.Time) bool { return !at.After(message.At) })
		if e.readAt == nil || message.At.After(*e.readAt) {
			e.readAt = &message.At
		}
	}
}

// putConversations updates the conversations of contacts and inserts those that are missing.
func putConversations(ctx context.Context, tx *postgres.Tx, of accounts.ID, all []*exchange, now time.Time) ([]Thread, error) {
	threads, err := postgres.Many[Thread](ctx, tx, sqlUpdateSaid, saidArgs(of, all, now))
	if err != nil || len(threads) == len(all) {
		return threads, err
	}
	updated := make(map[contacts.ID]bool, len(threads))
	for _, thread := range threads {
		updated[thread.ContactID] = true
	}
	missing := slices.DeleteFunc(slices.Clone(all), func(e *exchange) bool { return updated[e.contact] })
	inserted, err := postgres.Many[Thread](ctx, tx, sqlInsertSaid, saidArgs(of, missing, now))
	return append(threads, inserted...), err
}

func saidArgs(of accounts.ID, all []*exchange, now time.Time) postgres.Args {
	args := postgres.Columns(all,
		postgres.Col("contact_ids", func(e *exchange) contacts.ID { return e.contact }),
		postgres.Col("ids", func(e *exchange) ID { return e.id }),
		postgres.Col("ats", func(e *exchange) *time.Time { return e.at }),
		postgres.Col("lasts", func(e *exchange) ids.Any { return e.last }),
		postgres.Col("inbound_ats", func(e *exchange) *time.Time { return e.inboundAt }),
		postgres.Col("unread", func(e *exchange) int { return len(e.unread) }),
		postgres.Col("read_ats", func(e *exchange) *time.Time { return e.readAt }))
	args[argAccount], args["now"], args["count"] = of, now, len(all)
	return args
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

const sqlLockUnread = `
SELECT unread_count
FROM conversations
WHERE org_id = @org_id
  AND id = @id
FOR NO KEY UPDATE`

func lockUnread(ctx context.Context, tx *postgres.Tx, id ID) (int, error) {
	return postgres.One[int](ctx, tx, sqlLockUnread, postgres.Args{"id": id})
}

const sqlLastInbound = `
SELECT c.contact_id, c.last_inbound_at
FROM unnest(@contact_ids::uuid[]) AS wanted (contact_id)
JOIN LATERAL (
    SELECT contact_id, last_inbound_at FROM conversations WHERE org_id = @org_id AND contact_id = wanted.contact_id OFFSET 0
) AS c ON true
WHERE c.last_inbound_at IS NOT NULL`

func lastInbound(ctx context.Context, scope postgres.Scope, of []contacts.ID) (map[contacts.ID]time.Time, error) {
	type row struct {
		ContactID     contacts.ID
		LastInboundAt time.Time
	}
	rows, err := postgres.Many[row](ctx, scope, sqlLastInbound, postgres.Args{"contact_ids": of})
	found := make(map[contacts.ID]time.Time, len(rows))
	for _, one := range rows {
		found[one.ContactID] = one.LastInboundAt
	}
	return found, err
}

const sqlExpireLast = `
WITH held AS MATERIALIZED (
    SELECT id
    FROM conversations
    WHERE org_id = @org_id
      AND id = ANY (@ids)
      AND last_message_id < @before
    ORDER BY id
    FOR NO KEY UPDATE
)
UPDATE conversations
SET last_message_id = NULL,
    unread_count = 0,
    updated_at = CASE WHEN unread_count = 0 THEN updated_at ELSE ` + sqlLater + ` END
WHERE org_id = @org_id
  AND id = ANY (ARRAY (SELECT id FROM held))
  AND last_message_id < @before`

func expireLast(ctx context.Context, tx *postgres.Tx, of []ID, before ids.Any, now time.Time) error {
	_, err := tx.Exec(ctx, sqlExpireLast, postgres.Args{"ids": of, "before": before, "now": now})
	return err
}
