package contacts

import (
	"context"
	"fmt"
	"strings"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/phone"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/textkey"
)

// A list is one statement: which contacts, newest first, by the index made for the
// question; then each of them by its key, and whether it is all that was asked for. The
// planner takes any account for one contact and any index for as good as another, so no
// part names a column whose index is not to be used for it, but behind a fence (OFFSET 0).
const (
	searched = `name_key, email_key, username_key`
	sqlOwn   = `
FROM contacts
WHERE org_id = @org_id
  AND account_id = @account_id
  AND departure IS NULL`
	sqlNewest = sqlOwn + `
  AND id < @after`
	sqlPage = `
SELECT ` + columns + `
FROM (%s) AS page (contact_id)
JOIN LATERAL (
    SELECT ` + columns + `, ` + searched + `, departure FROM contacts WHERE org_id = @org_id AND id = page.contact_id OFFSET 0
) AS c ON true
WHERE account_id = @account_id
  AND departure IS NULL%s
ORDER BY contact_id DESC
LIMIT @limit`
)

// Where contacts are found.
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
SELECT id
FROM (SELECT id` + sqlOwn + ` AND %[1]s_key = @%[1]s ORDER BY id DESC OFFSET 0) AS equal
WHERE id < @after`
	sqlWithin = `
SELECT id
FROM (SELECT id` + sqlOwn + ` AND %[1]s ORDER BY %[2]s, id OFFSET 0) AS span
WHERE id < @after`
	sqlWithLabel = `
SELECT contact_id AS id
FROM contact_labels
WHERE org_id = @org_id
  AND label_id = @label_id
  AND account_id = @account_id
  AND contact_id < @after
ORDER BY contact_id DESC`
)

// What else a contact must be. A condition is in the statement only when it is asked for.
const (
	sqlHasKey   = ` AND id IN (` + sqlWithKey + `)`
	sqlHasText  = ` AND %[1]s_key = @%[1]s`
	sqlHasLabel = `
  AND (SELECT true FROM contact_labels l
       WHERE l.org_id = @org_id AND l.contact_id = c.id AND l.label_id = @label_id AND l.account_id = @account_id)`
)

// query is a list: where its contacts are found, and what each must be besides.
type query struct {
	source     string
	conditions string
	gathers    []string
	args       postgres.Args
}

func queryOf(of accounts.ID, filter Filter, slice paging.Slice[ID]) query {
	after := ids.Ceiling[kind]()
	if slice.After != nil {
		after = *slice.After
	}
	q := query{args: postgres.Args{argAccount: of, "after": after, "limit": slice.Limit + 1}}
	if filter.PhoneNumber != "" {
		number, _ := phone.Parse(filter.PhoneNumber)
		q.only(sqlWithKey, sqlHasKey, "number", numberKey(number))
	}
	if filter.BSUID != "" {
		q.only(sqlWithKey, sqlHasKey, "bsuid", bsuidKey(filter.BSUID))
	}
	if filter.Username != "" {
		q.only(sqlWithText, sqlHasText, "username", textkey.Fold(bare(filter.Username)))
	}
	if filter.Email != "" {
		q.only(sqlWithText, sqlHasText, "email", textkey.Fold(filter.Email))
	}
	if filter.LabelID != nil {
		q.args["label_id"] = *filter.LabelID
		q.also(sqlWithLabel, sqlHasLabel)
	}
	if filter.UpdatedSince != nil {
		q.args["updated_since"] = *filter.UpdatedSince
		q.ranges(span{column: "updated_at", from: "updated_since"})
	}
	if filter.Q != "" {
		q.ranges(q.spans(filter.Q)...)
	}
	return q
}

// only asks for a value that hardly more than one contact has. The first of them finds it.
func (q *query) only(source, condition, name string, value any) {
	if q.args[name] = value; q.source == "" {
		q.source = fmt.Sprintf(source, name)
		return
	}
	q.conditions += fmt.Sprintf(condition, name)
}

// also asks for what any number of contacts may be.
func (q *query) also(source, condition string) {
	q.gathers = append(q.gathers, source)
	q.conditions += condition
}

// span is a range of an index. Without an end it goes on to the last.
type span struct{ column, from, until string }

func (s span) condition() string {
	if s.until == "" {
		return s.column + ` > @` + s.from
	}
	return s.column + ` >= @` + s.from + ` AND ` + s.column + ` < @` + s.until
}

// spans are the ranges that start with a prefix.
func (q *query) spans(given string) (all []span) {
	add := func(column, name, prefix string) {
		q.args[name], q.args[name+"_end"] = prefix, textkey.After(prefix)
		all = append(all, span{column: column, from: name, until: name + "_end"})
	}
	folded := textkey.Fold(given)
	add("name_key", "q", folded)
	add("email_key", "q", folded)
	if username := textkey.Fold(bare(given)); username != "" {
		add("username_key", "q_username", username)
	}
	if number, ok := phone.Prefix(given); ok {
		add("phone_number", "q_number", number)
	}
	return all
}

// ranges asks for contacts in any of the spans.
func (q *query) ranges(spans ...span) {
	sources, conditions := make([]string, len(spans)), make([]string, len(spans))
	for i, s := range spans {
		conditions[i] = s.condition()
		sources[i] = fmt.Sprintf(sqlWithin, conditions[i], s.column)
	}
	q.also(strings.Join(sources, ` UNION ALL `), ` AND (`+strings.Join(conditions, ` OR `)+`)`)
}

const (
	// glance is how many of the newest contacts tell whether many match.
	glance = 150
	// few is how many matches are gathered and put in order at once.
	few = 1000
	// recent is how many of the newest contacts are looked at for what many match.
	recent = 1500
)

func (q query) sql() string {
	switch {
	case q.source != "":
		return fmt.Sprintf(sqlPage, q.source, q.conditions)
	case len(q.gathers) == 0:
		return `SELECT ` + columns + sqlNewest + ` ORDER BY id DESC LIMIT @limit`
	case len(q.gathers) == 1 && q.gathers[0] == sqlWithLabel:
		return fmt.Sprintf(sqlPage, sqlWithLabel+` LIMIT @limit`, "")
	default:
		return q.search()
	}
}

// search finds what matches, newest first. Matches are not in that order, and neither way
// alone is quick at every size: to gather few and order them is, and so is to walk from the
// newest contact while many match. A glance at the newest tells which to try first. If the
// walk does not fill the page it gathers the first of what was asked for that few match; if
// many match each, and hardly any of them is new, all are gathered. A part that is not
// needed is not run.
func (q query) search() string {
	q.args["glance"], q.args["few"], q.args["recent"] = glance, few, recent
	with, found, all, reached := "", "", "", `NOT (SELECT so FROM filled)`
	for i, gather := range q.gathers {
		all = `SELECT id FROM (` + gather + `) AS matching WHERE ` + reached
		with += fmt.Sprintf(`,
few_%[1]d AS MATERIALIZED (%[2]s LIMIT @few),
many_%[1]d AS MATERIALIZED (SELECT count(*) = @few AS so FROM few_%[1]d)`, i, all)
		reached = fmt.Sprintf(`(SELECT so FROM many_%d)`, i)
		found += fmt.Sprintf(`
    SELECT id FROM few_%d WHERE NOT %s UNION ALL`, i, reached)
	}
	return `
WITH glance AS MATERIALIZED (
    SELECT count(*) * @recent::int >= @limit::int * @glance::int AS many FROM (` + q.walk("true", "glance") + `) AS c
), early AS MATERIALIZED (` + q.walk(`(SELECT many FROM glance)`, "recent") + ` LIMIT @limit
), filled AS MATERIALIZED (SELECT count(*) = @limit AS so FROM early)` + with + `,
late AS MATERIALIZED (` + q.walk(reached+` AND NOT (SELECT many FROM glance)`, "recent") + ` LIMIT @limit
)
SELECT ` + columns + ` FROM early WHERE (SELECT so FROM filled)
UNION ALL
SELECT ` + columns + ` FROM late WHERE (SELECT count(*) FROM late) = @limit
UNION ALL
SELECT ` + columns + `
FROM (` + fmt.Sprintf(sqlPage, `
SELECT DISTINCT id
FROM (`+found+`
    `+all+` AND `+reached+` AND (SELECT count(*) FROM late) < @limit
) AS found
ORDER BY id DESC`, q.conditions) + `
) AS gathered
ORDER BY id DESC`
}

// walk is those of the newest contacts that match.
func (q query) walk(when, most string) string {
	return `
    SELECT ` + columns + `
    FROM (SELECT ` + columns + `, ` + searched + sqlNewest + ` AND ` + when + ` ORDER BY id DESC LIMIT @` + most + `) AS c
    WHERE true` + q.conditions
}

func listContacts(ctx context.Context, scope postgres.Scope, of accounts.ID, filter Filter, slice paging.Slice[ID]) ([]Contact, error) {
	q := queryOf(of, filter, slice)
	return postgres.Many[Contact](ctx, scope, q.sql(), q.args)
}
