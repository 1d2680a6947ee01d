package messages

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const argAccount, argGreatest = "account_id", "greatest"

const (
	columns = `m.id, m.account_id, m.conversation_id, m.contact_id, m.direction, m.type, m.source, m.source_id, m.request_id,
    m.client_reference, m.to_number, m.to_bsuid, m.reply_to, m.reaction_target, m.category, m.content, m.body`
	stateColumns = `st.status, st.error_code, st.error_message, st.provider_code, st.synthesized, st.provider_id, st.second_provider_id,
    st.announced, st.attempt, st.begun_at, st.failures, st.resent, st.sent_at, st.delivered_at, st.read_at, st.played_at, st.failed_at,
    st.is_revoked, st.media_state, st.media_type, st.media_size, st.media_key`
	contactColumns = `c.phone_number AS contact_number, c.bsuid AS contact_bsuid, c.parent_bsuid AS contact_parent_bsuid,
    c.username AS contact_username, c.name AS contact_name`
	// A contact that was merged into another has nothing left, and its messages move later: until then the other one is read.
	// OFFSET 0 makes the planner look up each contact by its key. Without it the generic plan reads all
	// contacts of the organization.
	sqlContact = `
LEFT JOIN LATERAL (
    SELECT id, phone_number, bsuid, parent_bsuid, username, name, marketing, departure
    FROM contacts
    WHERE org_id = @org_id
      AND id = coalesce((SELECT joined_into FROM contacts WHERE org_id = @org_id AND id = m.contact_id), m.contact_id) OFFSET 0
) AS c ON true`
)

const sqlOne = `
SELECT ` + columns + `, ` + stateColumns + `, ` + contactColumns + sqlFromOne

const sqlFromOne = `
FROM messages m
JOIN message_states st ON st.org_id = @org_id AND st.id = m.id` + sqlContact + `
WHERE m.org_id = @org_id
  AND m.id = @id
  AND st.id = @id
  AND m.account_id = @account_id
  AND coalesce(c.departure, '') <> 'erasing'`

func messageByID(ctx context.Context, scope postgres.Scope, of accounts.ID, id ID) (Message, error) {
	return postgres.One[Message](ctx, scope, sqlOne, postgres.Args{argAccount: of, "id": id})
}

const (
	// Most transactions accept one message. Arrays would triple the time of this statement, so that
	// a single message is given by values.
	sqlInsertOne = `
WITH said AS (
    INSERT INTO messages (org_id, id, account_id, conversation_id, contact_id, direction, type, source, source_id, request_id,
        client_reference, to_number, to_bsuid, reply_to, reaction_target, category, content, body)
    VALUES (@org_id, @id, @account_id, @conversation_id, @contact_id, @direction, @type, @source, @source_id, @request_id,
        @client_reference, @to_number, @to_bsuid, @reply_to, @reaction_target, @category, @content, @body)
)
INSERT INTO message_states (org_id, id, status) VALUES (@org_id, @id, @status)`
	sqlInsert = `
WITH given AS MATERIALIZED (
    SELECT *
    FROM unnest(@ids::uuid[], @accounts::uuid[], @conversations::uuid[], @contacts::uuid[], @directions::text[], @types::text[],
        @sources::text[], @source_ids::uuid[], @requests::uuid[], @references::text[], @numbers::text[], @bsuids::text[],
        @replies::text[], @targets::text[], @categories::text[], @contents::json[], @bodies::text[], @statuses::text[])
        AS given (id, account_id, conversation_id, contact_id, direction, type, source, source_id, request_id, client_reference,
            to_number, to_bsuid, reply_to, reaction_target, category, content, body, status)
), said AS (
    INSERT INTO messages (org_id, id, account_id, conversation_id, contact_id, direction, type, source, source_id, request_id,
        client_reference, to_number, to_bsuid, reply_to, reaction_target, category, content, body)
    SELECT @org_id, id, account_id, conversation_id, contact_id, direction, type, source, source_id, request_id,
        client_reference, to_number, to_bsuid, reply_to, reaction_target, category, content, body
    FROM given
)
INSERT INTO message_states (org_id, id, status) SELECT @org_id, id, status FROM given`
)

func insertMessages(ctx context.Context, tx *postgres.Tx, all []Message) error {
	if len(all) == 1 {
		m := all[0]
		_, err := tx.Exec(ctx, sqlInsertOne, postgres.Args{
			"id": m.ID, argAccount: m.AccountID, "conversation_id": m.ConversationID, "contact_id": m.ContactID, "direction": m.Direction,
			"type": m.Type, "source": m.Source, "source_id": m.SourceID, "request_id": m.RequestID, "client_reference": m.ClientReference,
			"to_number": m.ToNumber, "to_bsuid": m.ToBSUID, "reply_to": m.ReplyTo, "reaction_target": m.ReactionTarget,
			"category": m.Category, "content": m.Content, "body": m.Body, "status": m.Status,
		})
		return err
	}
	_, err := tx.Exec(ctx, sqlInsert, postgres.Columns(all,
		postgres.Col("ids", func(m Message) ID { return m.ID }),
		postgres.Col("accounts", func(m Message) accounts.ID { return m.AccountID }),
		postgres.Col("conversations", func(m Message) conversations.ID { return m.ConversationID }),
		postgres.Col("contacts", func(m Message) contacts.ID { return m.ContactID }),
		postgres.Col("directions", func(m Message) Direction { return m.Direction }),
		postgres.Col("types", func(m Message) string { return m.Type }),
		postgres.Col("sources", func(m Message) Source { return m.Source }),
		postgres.Col("source_ids", func(m Message) ids.Any { return m.SourceID }),
		postgres.Col("requests", func(m Message) ids.Any { return m.RequestID }),
		postgres.Col("references", func(m Message) *string { return m.ClientReference }),
		postgres.Col("numbers", func(m Message) *string { return m.ToNumber }),
		postgres.Col("bsuids", func(m Message) *string { return m.ToBSUID }),
		postgres.Col("replies", func(m Message) *string { return m.ReplyTo }),
		postgres.Col("targets", func(m Message) *string { return m.ReactionTarget }),
		postgres.Col("categories", func(m Message) *string { return m.Category }),
		postgres.Col("contents", func(m Message) json.RawMessage { return m.Content }),
		postgres.Col("bodies", func(m Message) *string { return m.Body }),
		postgres.Col("statuses", func(m Message) Status { return m.Status })))
	return err
}

// span is the least and the greatest id, so that a statement reads only the partitions of the ids.
func span(all []ID) (least, greatest ID) {
	byID := func(a, b ID) int { return a.Any().Compare(b.Any()) }
	return slices.MinFunc(all, byID), slices.MaxFunc(all, byID)
}

// Each state is looked up alone. With = ANY (@ids) the planner reads all states between the least and the greatest id, of which
// it expects few: the statuses of a batch may be of messages that are weeks apart.
const sqlLockStates = `
SELECT st.id, ` + stateColumns + `
FROM (SELECT DISTINCT id FROM unnest(@ids::uuid[]) AS id ORDER BY id) AS wanted
JOIN LATERAL (
    SELECT st.id, ` + stateColumns + ` FROM message_states st
    WHERE st.org_id = @org_id AND st.id = wanted.id AND st.id BETWEEN @least AND @greatest
    FOR NO KEY UPDATE
) AS st ON true`

// lockStates locks the states of messages in the order of their ids. Messages that are gone have none.
func lockStates(ctx context.Context, tx *postgres.Tx, all []ID) (map[ID]State, error) {
	type row struct {
		ID ID
		State
	}
	if len(all) == 0 {
		return map[ID]State{}, nil
	}
	least, greatest := span(all)
	rows, err := postgres.Many[row](ctx, tx, sqlLockStates, postgres.Args{"ids": all, "least": least, argGreatest: greatest})
	states := make(map[ID]State, len(rows))
	for _, one := range rows {
		states[one.ID] = one.State
	}
	return states, err
}

const sqlMessagesOf = `
SELECT ` + columns + `, ` + contactColumns + `
FROM (SELECT DISTINCT id FROM unnest(@ids::uuid[]) AS id) AS wanted
JOIN LATERAL (
    SELECT ` + columns + ` FROM messages m
    WHERE m.org_id = @org_id AND m.id = wanted.id AND m.id BETWEEN @least AND @greatest AND m.account_id = @account_id
    OFFSET 0
) AS m ON true` + sqlContact

// lockMessages locks the states of messages of a number, and reads the rest of them.
func lockMessages(ctx context.Context, tx *postgres.Tx, of accounts.ID, all []ID) (map[ID]*Message, error) {
	states, err := lockStates(ctx, tx, all)
	if err != nil || len(states) == 0 {
		return nil, err
	}
	least, greatest := span(all)
	type row struct {
		Said
		Person
	}
	rows, err := postgres.Many[row](ctx, tx, sqlMessagesOf, postgres.Args{"ids": all, "least": least, argGreatest: greatest, argAccount: of})
	messages := make(map[ID]*Message, len(rows))
	for _, one := range rows {
		messages[one.ID] = &Message{Said: one.Said, State: states[one.ID], Person: one.Person}
	}
	return messages, err
}

// Each id is looked up in its own partition. With = ANY (@ids) the generic plan looks for each id in all
// sixteen, which took four times as long. OFFSET 0 keeps the planner from merging the subquery into a join
// that reads all partitions.
const sqlProviderIDs = `
SELECT asked.provider_id, p.message_id
FROM unnest(@ids::text[]) AS asked (provider_id)
JOIN LATERAL (
    SELECT message_id FROM provider_messages WHERE org_id = @org_id AND provider_id = asked.provider_id OFFSET 0
) AS p ON true`

// messagesOf finds messages by the provider's ids.
func messagesOf(ctx context.Context, tx *postgres.Tx, asked []string) (map[string]ID, error) {
	found := map[string]ID{}
	if len(asked) == 0 {
		return found, nil
	}
	rows, err := postgres.Many[providerID](ctx, tx, sqlProviderIDs, postgres.Args{"ids": asked})
	for _, row := range rows {
		found[row.ProviderID] = row.MessageID
	}
	return found, err
}

const sqlContactsOf = `
SELECT m.id, ` + contactColumns + `
FROM messages m` + sqlContact + `
WHERE m.org_id = @org_id
  AND m.id = ANY (@ids)
  AND m.id BETWEEN @least AND @greatest
  AND m.account_id = @account_id`

// contactsOf finds the contacts of messages of a number.
func contactsOf(ctx context.Context, tx *postgres.Tx, of accounts.ID, all []ID) (map[ID]Person, error) {
	type row struct {
		ID ID
		Person
	}
	least, greatest := span(all)
	rows, err := postgres.Many[row](ctx, tx, sqlContactsOf, postgres.Args{"ids": all, "least": least, argGreatest: greatest, argAccount: of})
	found := make(map[ID]Person, len(rows))
	for _, one := range rows {
		found[one.ID] = one.Person
	}
	return found, err
}

// sqlWriteBook writes everything that a settlement or a batch of callbacks changes. The organization comes from what is given,
// and LIMIT makes the planner expect one row of it: so it looks up each state by its primary key. With the organization itself
// it reads all states between the least and the greatest id.
const sqlWriteBook = `-- locks: message_states, parked_statuses, send_attempts, provider_messages, send_pairs
WITH given AS MATERIALIZED (
    SELECT @org_id::uuid AS org_id, *
    FROM unnest(@ids::uuid[], @statuses::text[], @codes::text[], @words::text[], @numbers::integer[], @synthesized::boolean[],
        @provider_ids::text[], @second_ids::text[], @announced::smallint[], @begun::timestamptz[], @failures::smallint[],
        @sent::timestamptz[], @delivered::timestamptz[], @reads::timestamptz[], @played::timestamptz[], @failed::timestamptz[],
        @answered::timestamptz[])
        AS given (id, status, error_code, error_message, provider_code, synthesized, provider_id, second_provider_id, announced,
            begun_at, failures, sent_at, delivered_at, read_at, played_at, failed_at, answered_at)
    LIMIT @changed
), changed AS (
    UPDATE message_states st
    SET status = g.status, error_code = g.error_code, error_message = g.error_message, provider_code = g.provider_code,
        synthesized = g.synthesized, provider_id = g.provider_id, second_provider_id = g.second_provider_id,
        announced = g.announced, begun_at = g.begun_at, failures = g.failures, sent_at = g.sent_at,
        delivered_at = g.delivered_at, read_at = g.read_at, played_at = g.played_at, failed_at = g.failed_at,
        answered_at = coalesce(g.answered_at, st.answered_at)
    FROM given g
    WHERE st.org_id = g.org_id AND st.id = g.id AND st.id BETWEEN @least AND @greatest
), tried AS (
    INSERT INTO send_attempts (org_id, message_id, attempt, begun_at, ended_at, outcome, error_code, provider_code)
    SELECT @org_id, * FROM unnest(@tried_ids::uuid[], @tried::smallint[], @tried_begun::timestamptz[], @tried_ended::timestamptz[],
        @outcomes::text[], @tried_codes::text[], @tried_numbers::integer[])
    ON CONFLICT DO NOTHING
), known AS (
    INSERT INTO provider_messages (org_id, provider_id, message_id)
    SELECT @org_id, * FROM unnest(@known::text[], @known_ids::uuid[])
    ON CONFLICT DO NOTHING
), parked AS (
    INSERT INTO parked_statuses (org_id, provider_id, status, id, account_id, body, due_at)
    SELECT @org_id, provider_id, status, id, @account_id, body, @due_at
    FROM unnest(@parked::text[], @parked_statuses::text[], @parked_ids::uuid[], @parked_bodies::bytea[])
        AS given (provider_id, status, id, body)
    ON CONFLICT DO NOTHING
), forgotten AS (
    DELETE FROM send_pairs WHERE org_id = @org_id AND account_id = @account_id AND contact_id = ANY (@forgotten)
)
INSERT INTO send_pairs (org_id, account_id, contact_id, waits)
SELECT @org_id, @account_id, * FROM unnest(@paired::uuid[], @waits::smallint[])
ON CONFLICT (org_id, account_id, contact_id) DO UPDATE SET waits = EXCLUDED.waits`

func writeBook(ctx context.Context, tx *postgres.Tx, b *book) error {
	if len(b.changed)+len(b.attempts)+len(b.ids)+len(b.pairs)+len(b.parked) == 0 {
		return nil
	}
	slices.SortFunc(b.changed, func(x, y *Message) int { return x.ID.Any().Compare(y.ID.Any()) })
	args := b.columns()
	args[argAccount], args["due_at"] = b.account.ID, b.now.Add(firstLook)
	args["least"], args[argGreatest] = ID{}, ids.Ceiling[kind]()
	if len(b.changed) > 0 {
		args["least"], args[argGreatest] = b.changed[0].ID, b.changed[len(b.changed)-1].ID
	}
	_, err := tx.Exec(ctx, sqlWriteBook, args)
	return err
}

func (b *book) columns() postgres.Args {
	args := postgres.Columns(b.changed,
		postgres.Col("ids", func(m *Message) ID { return m.ID }),
		postgres.Col("statuses", func(m *Message) Status { return m.Status }),
		postgres.Col("codes", func(m *Message) *fault.Code { return m.ErrorCode }),
		postgres.Col("words", func(m *Message) *string { return m.ErrorMessage }),
		postgres.Col("numbers", func(m *Message) *int { return m.ProviderCode }),
		postgres.Col("synthesized", func(m *Message) bool { return m.Synthesized }),
		postgres.Col("provider_ids", func(m *Message) *string { return m.ProviderID }),
		postgres.Col("second_ids", func(m *Message) *string { return m.SecondProviderID }),
		postgres.Col("announced", func(m *Message) int16 { return int16(m.Announced) }),
		postgres.Col("begun", func(m *Message) *time.Time { return m.BegunAt }),
		postgres.Col("failures", func(m *Message) int { return m.Failures }),
		postgres.Col("sent", func(m *Message) *time.Time { return m.SentAt }),
		postgres.Col("delivered", func(m *Message) *time.Time { return m.DeliveredAt }),
		postgres.Col("reads", func(m *Message) *time.Time { return m.ReadAt }),
		postgres.Col("played", func(m *Message) *time.Time { return m.PlayedAt }),
		postgres.Col("failed", func(m *Message) *time.Time { return m.FailedAt }),
		postgres.Col("answered", func(m *Message) *time.Time { return b.answered[m.ID] }))
	for _, column := range []postgres.Column[attempt]{
		postgres.Col("tried_ids", func(a attempt) ID { return a.MessageID }),
		postgres.Col("tried", func(a attempt) int { return a.Attempt }),
		postgres.Col("tried_begun", func(a attempt) time.Time { return a.BegunAt }),
		postgres.Col("tried_ended", func(a attempt) time.Time { return a.EndedAt }),
		postgres.Col("outcomes", func(a attempt) AttemptOutcome { return a.Outcome }),
		postgres.Col("tried_codes", func(a attempt) *fault.Code { return a.ErrorCode }),
		postgres.Col("tried_numbers", func(a attempt) *int { return a.ProviderCode }),
	} {
		column(b.attempts, args)
	}
	args["known"] = postgres.Each(b.ids, func(id providerID) string { return id.ProviderID })
	args["known_ids"] = postgres.Each(b.ids, func(id providerID) ID { return id.MessageID })
	args["changed"] = len(b.changed)
	args["parked"] = postgres.Each(b.parked, func(p parked) string { return p.ProviderID })
	args["parked_statuses"] = postgres.Each(b.parked, func(p parked) string { return p.status })
	args["parked_ids"] = postgres.Each(b.parked, func(p parked) ids.Public[parkedKind] { return p.ID })
	args["parked_bodies"] = postgres.Each(b.parked, func(p parked) []byte { return p.Body })
	forgotten, paired, waits := []contacts.ID{}, []contacts.ID{}, []int{}
	for _, one := range b.pairs {
		if one.Waits == 0 {
			forgotten = append(forgotten, one.ContactID)
		} else {
			paired, waits = append(paired, one.ContactID), append(waits, one.Waits)
		}
	}
	args["forgotten"], args["paired"], args["waits"] = forgotten, paired, waits
	return args
}
