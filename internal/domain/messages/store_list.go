package messages

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// A list is a bounded walk along the index of the account or of the conversation, in the order of the
// ids. No index serves direction, status and type: they are checked on each row.
const (
	sqlRows = `
    SELECT ` + columns + `, ` + stateColumns + `
    FROM messages m
    JOIN LATERAL (SELECT ` + stateColumns + ` FROM message_states st WHERE st.org_id = @org_id AND st.id = m.id OFFSET 0) AS st ON true
    WHERE m.org_id = @org_id
      AND m.id < @after
      AND m.id >= @from
      AND m.id < @until`
	sqlOfAccount = ` AND m.account_id = @account_id`
	// A contact has one conversation. The alias of a merged contact finds the conversation of the other.
	sqlOfContact = ` AND m.account_id = @account_id AND m.conversation_id = (
        SELECT id FROM conversations
        WHERE org_id = @org_id AND departure IS NULL
          AND contact_id = coalesce((SELECT joined_into FROM contacts WHERE org_id = @org_id AND id = @contact_id), @contact_id))`
	sqlJoinedConversation = ` AND m.account_id = @account_id AND m.conversation_id = coalesce(
        (SELECT joined_into FROM conversations WHERE org_id = @org_id AND id = @conversation_id), @conversation_id)`
)

// walked is a message that a Walk read.
type walked struct {
	Said
	State
	paging.Mark
}

func listMessages(
	ctx context.Context, scope postgres.Scope, of accounts.ID, filter Filter, slice paging.Slice[ID],
) (paging.Page[Message, ID], error) {
	args := postgres.Args{argAccount: of, "from": ID{}, "until": ids.Ceiling[kind]()}
	walk := paging.Walk{Rows: sqlRows, Order: `id DESC`, Filter: `true`}
	switch {
	case filter.ConversationID != nil:
		walk.Rows += sqlJoinedConversation
		args["conversation_id"] = *filter.ConversationID
		if filter.ContactID != nil {
			walk.Filter += ` AND contact_id = coalesce((SELECT joined_into FROM contacts WHERE org_id = @org_id AND id = @contact_id), @contact_id)`
			args["contact_id"] = *filter.ContactID
		}
	case filter.ContactID != nil:
		walk.Rows += sqlOfContact
		args["contact_id"] = *filter.ContactID
	default:
		walk.Rows += sqlOfAccount
	}
	for _, field := range [][2]string{{"direction", string(filter.Direction)}, {"status", string(filter.Status)}, {"type", filter.Type}} {
		if name, value := field[0], field[1]; value != "" {
			walk.Filter += ` AND ` + name + ` = @` + name
			args[name] = value
		}
	}
	if filter.CreatedAfter != nil {
		args["from"] = ids.Floor[kind](filter.CreatedAfter.Add(time.Millisecond))
	}
	if filter.CreatedBefore != nil {
		args["until"] = ids.Floor[kind](*filter.CreatedBefore)
	}
	page, err := paging.ReadWalk(ctx, scope, walk.SQL(), args, slice,
		func(w walked) Message { return Message{Said: w.Said, State: w.State} }, func(m Message) ID { return m.ID })
	if err != nil || len(page.Items) == 0 {
		return page, err
	}
	page.Items, err = withPeople(ctx, scope, page.Items)
	return page, err
}

const sqlPeople = `
SELECT m.contact_id AS id, ` + contactColumns + `
FROM unnest(@ids::uuid[]) AS m (contact_id)` + sqlContact + `
WHERE c.id IS NOT NULL
  AND coalesce(c.departure, '') <> 'erasing'`

// withPeople adds what messages show of their contacts. Messages of contacts that are being erased
// are left out, so that the page may be short.
func withPeople(ctx context.Context, scope postgres.Scope, all []Message) ([]Message, error) {
	type row struct {
		ID ids.Any
		Person
	}
	asked := map[ids.Any]bool{}
	for _, message := range all {
		asked[message.ContactID.Any()] = true
	}
	rows, err := postgres.Many[row](ctx, scope, sqlPeople, postgres.Args{"ids": slices.Collect(maps.Keys(asked))})
	known := make(map[ids.Any]Person, len(rows))
	for _, one := range rows {
		known[one.ID] = one.Person
	}
	shown := make([]Message, 0, len(all))
	for _, message := range all {
		if person, there := known[message.ContactID.Any()]; there {
			message.Person = person
			shown = append(shown, message)
		}
	}
	return shown, err
}

const sqlCountAccepted = `
SELECT count(*)
FROM messages
WHERE org_id = @org_id
  AND id >= @from
  AND id < @to
  AND source IN ('api', 'broadcast')`

func countAccepted(ctx context.Context, scope postgres.Scope, from, to time.Time) (int64, error) {
	return postgres.One[int64](ctx, scope, sqlCountAccepted, postgres.Args{"from": ids.Floor[kind](from), "to": ids.Floor[kind](to)})
}
