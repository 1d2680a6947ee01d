package messages

import (
	"context"
	"encoding/json"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const sqlInsertArrivals = `-- locks: messages, message_states
WITH given AS MATERIALIZED (
    SELECT *
    FROM unnest(@ids::uuid[], @conversations::uuid[], @contacts::uuid[], @directions::text[], @types::text[], @sources::text[],
        @numbers::text[], @bsuids::text[], @replies::text[], @targets::text[], @contents::json[], @statuses::text[],
        @provider_ids::text[], @announced::smallint[], @sent::timestamptz[], @reads::timestamptz[],
        @codes::text[], @words::text[], @provider_codes::integer[], @media_states::text[], @media_types::text[], @media_keys::text[])
        AS given (id, conversation_id, contact_id, direction, type, source, to_number, to_bsuid, reply_to, reaction_target, content,
            status, provider_id, announced, sent_at, read_at, error_code, error_message, provider_code, media_state, media_type, media_key)
), said AS (
    INSERT INTO messages (org_id, id, account_id, conversation_id, contact_id, direction, type, source, to_number, to_bsuid, reply_to,
        reaction_target, content)
    SELECT @org_id, id, @account_id, conversation_id, contact_id, direction, type, source, to_number, to_bsuid, reply_to,
        reaction_target, content
    FROM given
)
INSERT INTO message_states (org_id, id, status, provider_id, announced, sent_at, read_at, error_code, error_message, provider_code,
    media_state, media_type, media_key)
SELECT @org_id, id, status, provider_id, announced, sent_at, read_at, error_code, error_message, provider_code, media_state, media_type,
    media_key
FROM given`

// insertArrivals stores messages that were received, or sent in the phone app.
func insertArrivals(ctx context.Context, tx *postgres.Tx, of accounts.ID, all []Message) error {
	if len(all) == 0 {
		return nil
	}
	args := postgres.Columns(all,
		postgres.Col("ids", func(m Message) ID { return m.ID }),
		postgres.Col("conversations", func(m Message) conversations.ID { return m.ConversationID }),
		postgres.Col("contacts", func(m Message) contacts.ID { return m.ContactID }),
		postgres.Col("directions", func(m Message) Direction { return m.Direction }),
		postgres.Col("types", func(m Message) string { return m.Type }),
		postgres.Col("sources", func(m Message) Source { return m.Source }),
		postgres.Col("numbers", func(m Message) *string { return m.ToNumber }),
		postgres.Col("bsuids", func(m Message) *string { return m.ToBSUID }),
		postgres.Col("replies", func(m Message) *string { return m.ReplyTo }),
		postgres.Col("targets", func(m Message) *string { return m.ReactionTarget }),
		postgres.Col("contents", func(m Message) json.RawMessage { return m.Content }),
		postgres.Col("statuses", func(m Message) Status { return m.Status }),
		postgres.Col("provider_ids", func(m Message) *string { return m.ProviderID }),
		postgres.Col("announced", func(m Message) int16 { return int16(m.Announced) }),
		postgres.Col("sent", func(m Message) *time.Time { return m.SentAt }),
		postgres.Col("reads", func(m Message) *time.Time { return m.ReadAt }),
		postgres.Col("codes", func(m Message) *fault.Code { return m.ErrorCode }),
		postgres.Col("words", func(m Message) *string { return m.ErrorMessage }),
		postgres.Col("provider_codes", func(m Message) *int { return m.ProviderCode }),
		postgres.Col("media_states", func(m Message) *string { return m.MediaState }),
		postgres.Col("media_types", func(m Message) *string { return m.MediaType }),
		postgres.Col("media_keys", func(m Message) *string { return m.MediaKey }))
	args[argAccount] = of
	_, err := tx.Exec(ctx, sqlInsertArrivals, args)
	return err
}

const sqlNameArrivals = `
INSERT INTO provider_messages (org_id, provider_id, message_id)
SELECT @org_id, * FROM unnest(@provider_ids::text[], @ids::uuid[])
ON CONFLICT DO NOTHING`

// nameArrivals stores the provider's ids of messages that were looked for and not found. If another
// transaction has stored one since, this one runs again, and finds the message.
func nameArrivals(ctx context.Context, tx *postgres.Tx, all []providerID) error {
	if len(all) == 0 {
		return nil
	}
	named, err := tx.Exec(ctx, sqlNameArrivals, postgres.Columns(all,
		postgres.Col("provider_ids", func(p providerID) string { return p.ProviderID }),
		postgres.Col("ids", func(p providerID) ID { return p.MessageID })))
	if err == nil && int(named) < len(all) {
		return postgres.ErrAgain
	}
	return err
}

const (
	sqlLockAmended = `-- locks: messages, message_states
SELECT ` + columns + `, st.provider_id, st.is_revoked, st.first_content, st.edit_history, ` + contactColumns + `
FROM messages m
JOIN message_states st ON st.org_id = @org_id AND st.id = m.id` + sqlContact + `
WHERE m.org_id = @org_id
  AND m.id = ANY (@ids)
  AND m.id BETWEEN @least AND @greatest
  AND st.id BETWEEN @least AND @greatest
  AND m.account_id = @account_id
ORDER BY m.id
FOR NO KEY UPDATE OF m, st`
	sqlWriteAmended = `-- locks: messages, message_states
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(@ids::uuid[], @contents::json[], @revoked::boolean[], @firsts::json[], @histories::json[])
        AS given (id, content, is_revoked, first_content, edit_history)
), said AS (
    UPDATE messages m
    SET content = g.content
    FROM given g
    WHERE m.org_id = @org_id AND m.id = g.id AND m.id BETWEEN @least AND @greatest AND g.first_content IS NOT NULL
)
UPDATE message_states st
SET is_revoked = g.is_revoked,
    first_content = g.first_content,
    edit_history = g.edit_history
FROM given g
WHERE st.org_id = @org_id
  AND st.id = g.id
  AND st.id BETWEEN @least AND @greatest`
)

func lockAmended(ctx context.Context, tx *postgres.Tx, of accounts.ID, all []ID) (map[ID]*amended, error) {
	least, greatest := span(all)
	rows, err := postgres.Many[amended](ctx, tx, sqlLockAmended, postgres.Args{
		"ids": all, "least": least, argGreatest: greatest, argAccount: of,
	})
	found := make(map[ID]*amended, len(rows))
	for i := range rows {
		found[rows[i].ID] = &rows[i]
	}
	return found, err
}

func writeAmended(ctx context.Context, tx *postgres.Tx, all []*amended) error {
	if len(all) == 0 {
		return nil
	}
	least, greatest := span(postgres.Each(all, func(a *amended) ID { return a.ID }))
	args := postgres.Columns(all,
		postgres.Col("ids", func(a *amended) ID { return a.ID }),
		postgres.Col("contents", func(a *amended) json.RawMessage { return a.Content }),
		postgres.Col("revoked", func(a *amended) bool { return a.IsRevoked }),
		postgres.Col("firsts", func(a *amended) json.RawMessage { return a.FirstContent }),
		postgres.Col("histories", func(a *amended) json.RawMessage { return a.EditHistory }))
	args["least"], args[argGreatest] = least, greatest
	_, err := tx.Exec(ctx, sqlWriteAmended, args)
	return err
}

const (
	sqlWriteFiles = `
UPDATE message_states st
SET media_state = g.media_state,
    media_type = g.media_type,
    media_size = g.media_size,
    media_key = g.media_key,
    announced = g.announced
FROM unnest(@ids::uuid[], @media_states::text[], @media_types::text[], @media_sizes::bigint[], @media_keys::text[],
    @announced::smallint[]) AS g (id, media_state, media_type, media_size, media_key, announced)
WHERE st.org_id = @org_id
  AND st.id = g.id
  AND st.id BETWEEN @least AND @greatest`
	// Each message is looked up alone (ADR 15).
	sqlPlacesOf = `
SELECT m.id, c.id AS contact_id, v.id AS conversation_id, v.status, v.assignee_id, ` + contactColumns + `
FROM (SELECT DISTINCT id FROM unnest(@ids::uuid[]) AS id) AS wanted
JOIN LATERAL (
    SELECT id, contact_id FROM messages WHERE org_id = @org_id AND id = wanted.id AND id BETWEEN @least AND @greatest OFFSET 0
) AS m ON true` + sqlContact + `
JOIN LATERAL (
    SELECT id, status, assignee_id FROM conversations WHERE org_id = @org_id AND contact_id = c.id AND departure IS NULL OFFSET 0
) AS v ON true
WHERE c.departure IS NULL`
)

func writeFiles(ctx context.Context, tx *postgres.Tx, all []*Message) error {
	if len(all) == 0 {
		return nil
	}
	args := postgres.Columns(all,
		postgres.Col("ids", func(m *Message) ID { return m.ID }),
		postgres.Col("media_states", func(m *Message) *string { return m.MediaState }),
		postgres.Col("media_types", func(m *Message) *string { return m.MediaType }),
		postgres.Col("media_sizes", func(m *Message) *int64 { return m.MediaSize }),
		postgres.Col("media_keys", func(m *Message) *string { return m.MediaKey }),
		postgres.Col("announced", func(m *Message) int16 { return int16(m.Announced) }))
	args["least"], args[argGreatest] = span(postgres.Each(all, func(m *Message) ID { return m.ID }))
	_, err := tx.Exec(ctx, sqlWriteFiles, args)
	return err
}

func placesOf(ctx context.Context, tx *postgres.Tx, all []ID) (map[ID]place, error) {
	least, greatest := span(all)
	rows, err := postgres.Many[place](ctx, tx, sqlPlacesOf, postgres.Args{"ids": all, "least": least, argGreatest: greatest})
	found := make(map[ID]place, len(rows))
	for _, one := range rows {
		found[one.ID] = one
	}
	return found, err
}
