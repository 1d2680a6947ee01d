package contacts

import (
	"context"
	"fmt"
	"strings"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts/identity"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/phone"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/textkey"
)

// A list is a bounded walk, newest first, over one source of contact ids: all contacts of the
// account, the contacts with a label, those with an exact identifier, or the few that a prefix
// or a time found by its index. The other filters are checked on each row (ADR 15).
//
// The planner estimates one contact per account, so all indexes look equally cheap to it. The
// subqueries with OFFSET 0 are not merged with the rest, so that each can use only the index of
// the column that it names.
const (
	searched = `name_key, email_key, username_key, departure`
	sqlOwn   = `
    FROM contacts
    WHERE org_id = @org_id
      AND account_id = @account_id
      AND departure IS NULL`
	sqlNewest = `
    SELECT id AS contact_id, ` + columns + `, ` + searched + sqlOwn + `
      AND id < @after`
	sqlOfSource = `
    SELECT contact_id, ` + columns + `, ` + searched + `
    FROM (%s ORDER BY contact_id DESC) AS source (contact_id)
    JOIN LATERAL (
        SELECT ` + columns + `, ` + searched + ` FROM contacts WHERE org_id = @org_id AND id = source.contact_id OFFSET 0
    ) AS found ON true`
	sqlHere = `account_id = @account_id AND departure IS NULL`
)

// Sources of contact ids. The first argument is the name of the value.
const (
	sqlWithKey = `
        SELECT contact_id
        FROM contact_keys
        WHERE org_id = @org_id
          AND account_id = @account_id
          AND key = @%s
          AND retired_at IS NULL
          AND contact_id < @after`
	sqlWithText = `
        SELECT id AS contact_id
        FROM (SELECT id` + sqlOwn + ` AND %[1]s_key = @%[1]s ORDER BY id DESC OFFSET 0) AS equal
        WHERE id < @after`
	sqlWithLabel = `
        SELECT contact_id
        FROM contact_labels
        WHERE org_id = @org_id
          AND label_id = @label_id
          AND account_id = @account_id
          AND contact_id < @after`
	sqlOfGathered = `
        SELECT DISTINCT id AS contact_id
        FROM unnest(@gathered::uuid[]) AS id
        WHERE id < @after`
)

// Conditions on a row. A condition is in the statement only when the filter has it.
const (
	sqlHasKey = ` AND id IN (
        SELECT contact_id FROM contact_keys
        WHERE org_id = @org_id AND account_id = @account_id AND key = @%s AND retired_at IS NULL)`
	sqlHasText  = ` AND %[1]s_key = @%[1]s`
	sqlHasLabel = ` AND (
        SELECT true FROM contact_labels l
        WHERE l.org_id = @org_id AND l.contact_id = c.id AND l.label_id = @label_id AND l.account_id = @account_id)`
)

// query is the statement of a list and what it is made of.
type query struct {
	args   postgres.Args
	source string
	filter string
	// ranges are those of the indexes that a prefix or a time selects; nil when the filter has
	// neither, or when the source has few contacts anyway.
	ranges []string
	// maxGathered is that of the package; tests gather fewer.
	maxGathered int
}

func queryOf(of accounts.ID, filter Filter) *query {
	q := &query{args: postgres.Args{argAccount: of}, filter: sqlHere, maxGathered: maxGathered}
	if filter.PhoneNumber != "" {
		number, _ := phone.Parse(filter.PhoneNumber)
		q.exact(sqlWithKey, sqlHasKey, "number", identity.NumberKey(number))
	}
	if filter.BSUID != "" {
		q.exact(sqlWithKey, sqlHasKey, "bsuid", identity.BSUIDKey(filter.BSUID))
	}
	if filter.Username != "" {
		q.exact(sqlWithText, sqlHasText, "username", textkey.Fold(identity.Bare(filter.Username)))
	}
	if filter.Email != "" {
		q.exact(sqlWithText, sqlHasText, "email", textkey.Fold(filter.Email))
	}
	few := q.source != ""
	if filter.Q != "" {
		q.within(q.prefixes(filter.Q)...)
	}
	if filter.UpdatedSince != nil {
		q.args["updated_since"] = *filter.UpdatedSince
		q.within(span{column: "updated_at", condition: `updated_at > @updated_since`})
	}
	if few {
		q.ranges = nil
	}
	if filter.LabelID != nil {
		q.args["label_id"] = *filter.LabelID
		if q.source == "" {
			q.source = sqlWithLabel
		}
		q.filter += sqlHasLabel
	}
	return q
}

// exact asks for a value that hardly more than one contact has. The first is the source.
func (q *query) exact(source, condition, name string, value any) {
	if q.args[name] = value; q.source == "" {
		q.source = fmt.Sprintf(source, name)
		return
	}
	q.filter += fmt.Sprintf(condition, name)
}

// span is a range of the index on a column.
type span struct{ column, condition string }

// prefixes are the ranges of texts and numbers that begin with the given one.
func (q *query) prefixes(given string) (all []span) {
	add := func(column, name, prefix string) {
		q.args[name], q.args[name+"_end"] = prefix, textkey.After(prefix)
		all = append(all, span{column, fmt.Sprintf(`%[1]s >= @%[2]s AND %[1]s < @%[2]s_end`, column, name)})
	}
	folded := textkey.Fold(given)
	add("name_key", "q", folded)
	add("email_key", "q", folded)
	if username := textkey.Fold(identity.Bare(given)); username != "" {
		add("username_key", "q_username", username)
	}
	if number, ok := phone.Prefix(given); ok {
		add("phone_number", "q_number", number)
	}
	return all
}

// within asks for contacts in any of the ranges. The first call says what is gathered.
func (q *query) within(spans ...span) {
	conditions := postgres.Each(spans, func(s span) string { return s.condition })
	q.filter += ` AND (` + strings.Join(conditions, ` OR `) + `)`
	if q.ranges == nil {
		q.ranges = postgres.Each(spans, func(s span) string {
			return `SELECT id FROM (SELECT id` + sqlOwn + ` AND ` + s.condition + ` ORDER BY ` + s.column + `, id OFFSET 0) AS range`
		})
	}
}

// maxGathered is how many matches of a prefix or a time are read from their indexes and sorted.
// When there are as many, the list is walked instead: then one row in so many matches on average.
const maxGathered = 1000

// sqlGather reads the ids in the ranges; it returns NULL when there are too many.
func (q *query) sqlGather() string {
	return `
SELECT CASE WHEN count(*) < @max_gathered THEN coalesce(array_agg(id), '{}') END
FROM (` + strings.Join(q.ranges, `
    UNION ALL `) + `
    LIMIT @max_gathered) AS gathered`
}

// gather makes the ids in the ranges the source of the list when they are few.
func (q *query) gather(ctx context.Context, scope postgres.Scope) error {
	q.args["max_gathered"] = q.maxGathered
	found, err := postgres.One[[]ID](ctx, scope, q.sqlGather(), q.args)
	if found != nil {
		q.source, q.args["gathered"] = sqlOfGathered, found
	}
	return err
}

func (q *query) sqlPage() string {
	rows := sqlNewest
	if q.source != "" {
		rows = fmt.Sprintf(sqlOfSource, q.source)
	}
	return paging.Walk{Columns: columns, Rows: rows, Order: `contact_id DESC`, Filter: q.filter}.SQL()
}

// walked is a contact that a Walk read.
type walked struct {
	Contact
	paging.Mark
}

func listContacts(
	ctx context.Context, scope postgres.Scope, of accounts.ID, filter Filter, slice paging.Slice[ID],
) (paging.Page[Contact, ID], error) {
	return queryOf(of, filter).list(ctx, scope, slice)
}

func (q *query) list(ctx context.Context, scope postgres.Scope, slice paging.Slice[ID]) (paging.Page[Contact, ID], error) {
	if q.ranges != nil {
		if err := q.gather(ctx, scope); err != nil {
			return paging.Page[Contact, ID]{}, err
		}
	}
	return paging.ReadWalk(ctx, scope, q.sqlPage(), q.args, slice, func(w walked) Contact { return w.Contact }, idOf)
}
