package conversations

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// A list is a bounded walk along one index, in the order of the list. The index is that of one
// field of the filter; the other fields are checked on each row. A field is in the statement only
// when the filter has it: a plan made for `@status IS NULL OR …` could use no index.
const (
	sqlOwn = `
    SELECT ` + own + `, recent_at
    FROM conversations
    WHERE org_id = @org_id
      AND account_id = @account_id
      AND departure IS NULL`
	sqlOfContact = `contact_id = coalesce((SELECT joined_into FROM contacts WHERE org_id = @org_id AND id = @contact_id), @contact_id)`
	sqlAssigned  = `assignee_id = @assignee_id`
	sqlOfStatus  = `status = @status`
	sqlUnread    = `unread_count > 0`
	sqlRead      = `unread_count = 0`
	// A scalar subquery: the planner may turn an EXISTS into a join of all that carry the label.
	sqlLabeled = `(
        SELECT true FROM conversation_labels l
        WHERE l.org_id = @org_id AND l.conversation_id = c.id AND l.label_id = @label_id AND l.account_id = @account_id)`
	// For a label that few conversations carry.
	sqlCarriers = `id = ANY (ARRAY (
        SELECT conversation_id FROM conversation_labels
        WHERE org_id = @org_id AND label_id = @label_id AND account_id = @account_id))`
	// The condition on recent_at lets the planner use the index of the inbox, and no other list
	// has it.
	sqlInbox = `recent_at <= @at`
)

const sqlCountCarriers = `
SELECT count(*)
FROM (SELECT FROM conversation_labels WHERE org_id = @org_id AND label_id = @label_id AND account_id = @account_id LIMIT @few) AS carriers`

// few is how many conversations of a label are read and sorted at once.
const few = 1000

// The two orders of a list, and what comes after a position in it.
const (
	byRecent       = `recent_at DESC, id DESC`
	byUpdated      = `updated_at DESC, id DESC`
	sqlPastRecent  = ` AND (recent_at, id) < (@at, @after)`
	sqlPastUpdated = ` AND updated_at > @since AND (updated_at, id) < (@at, @after)`
)

// walked is a conversation that a Walk read.
type walked struct {
	Conversation
	paging.Mark
}

func listConversations(
	ctx context.Context, scope postgres.Scope, of accounts.ID, filter Filter, slice paging.Slice[Position],
) (paging.Page[Conversation, Position], error) {
	args := postgres.Args{argAccount: of}
	args["at"], args["after"] = after(slice.After)
	sql, err := sqlList(ctx, scope, filter, args)
	if err != nil {
		return paging.Page[Conversation, Position]{}, err
	}
	return paging.ReadWalk(ctx, scope, sql, args, slice, func(w walked) Conversation { return w.Conversation }, filter.position)
}

// sqlList is the statement of a filter, whose values it adds to args.
func sqlList(ctx context.Context, scope postgres.Scope, filter Filter, args postgres.Args) (string, error) {
	walk := paging.Walk{Rows: sqlOwn, Order: byRecent, Filter: `true`}
	indexed := filter.UpdatedSince != nil
	// with adds a condition: to the rows when it is the first that an index serves, else to the filter.
	with := func(index bool, condition string) {
		if index && !indexed {
			walk.Rows, indexed = walk.Rows+` AND `+condition, true
		} else {
			walk.Filter += ` AND ` + condition
		}
	}
	if filter.LabelID != nil {
		args["label_id"] = *filter.LabelID
		carriers, err := postgres.One[int](ctx, scope, sqlCountCarriers, postgres.Args{
			"label_id": *filter.LabelID, argAccount: args[argAccount], "few": few,
		})
		if err != nil {
			return "", err
		}
		if carriers < few {
			walk.Rows, indexed = walk.Rows+` AND `+sqlCarriers, true
		} else {
			with(false, sqlLabeled)
		}
	}
	if filter.ContactID != nil {
		args["contact_id"] = *filter.ContactID
		walk.Rows, indexed = walk.Rows+` AND `+sqlOfContact, true
	}
	if filter.AssignedTo != nil {
		args["assignee_id"] = *filter.AssignedTo
		with(true, sqlAssigned)
	}
	if filter.Status != "" {
		args["status"] = filter.Status
		with(true, sqlOfStatus)
	}
	if filter.Unread != nil && *filter.Unread {
		with(true, sqlUnread)
	} else if filter.Unread != nil {
		with(false, sqlRead)
	}
	if !indexed {
		walk.Rows += ` AND ` + sqlInbox
	}
	if filter.UpdatedSince != nil {
		args["since"] = *filter.UpdatedSince
		walk.Rows, walk.Order = walk.Rows+sqlPastUpdated, byUpdated
	} else {
		walk.Rows += sqlPastRecent
	}
	return sqlShown + `, c.matches, c.last_read
FROM (` + walk.SQL() + `) AS c` + sqlNames + `
ORDER BY c.` + walk.Order, nil
}

// after is the position after which a page begins; the first page begins before everything.
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
