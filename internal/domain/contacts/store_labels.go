package contacts

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const sqlLockListed = `
SELECT ` + columns + `
FROM contacts
WHERE org_id = @org_id
  AND account_id = @account_id
  AND departure IS NULL
  AND id IN (SELECT coalesce(joined_into, id) FROM contacts WHERE org_id = @org_id AND id = ANY (@ids))
ORDER BY id
FOR NO KEY UPDATE`

// Bulk changes of the same contacts wait for each other, each for longer than a single change takes.
const sqlLockTimeout = `SET LOCAL lock_timeout = '8s'`

func lockListed(ctx context.Context, tx *postgres.Tx, of accounts.ID, ids []ID) ([]Contact, error) {
	if _, err := tx.Exec(ctx, sqlLockTimeout, nil); err != nil {
		return nil, err
	}
	return postgres.Many[Contact](ctx, tx, sqlLockListed, postgres.Args{argAccount: of, "ids": ids})
}

const sqlJoinedInto = `
SELECT c.id, c.joined_into AS into
FROM (SELECT DISTINCT contact_id FROM unnest(@ids::uuid[]) AS contact_id) AS wanted
JOIN LATERAL (SELECT id, joined_into FROM contacts WHERE org_id = @org_id AND id = wanted.contact_id OFFSET 0) AS c ON true
WHERE c.joined_into IS NOT NULL`

// alias is the id of a contact that was merged into another.
type alias struct{ ID, Into ID }

func aliasesOf(ctx context.Context, tx *postgres.Tx, ids []ID) ([]alias, error) {
	return postgres.Many[alias](ctx, tx, sqlJoinedInto, postgres.Args{"ids": ids})
}

const (
	sqlAttach = `
INSERT INTO contact_labels (org_id, contact_id, label_id, account_id)
SELECT @org_id, contact_id, @label_id, @account_id
FROM unnest(@ids::uuid[]) AS contact_id
ON CONFLICT DO NOTHING
RETURNING contact_id`
	sqlDetach = `
DELETE FROM contact_labels
WHERE org_id = @org_id
  AND contact_id = ANY (@ids)
  AND label_id = @label_id
RETURNING contact_id`
)

// labelContacts attaches or detaches a label and returns the contacts that changed.
func labelContacts(
	ctx context.Context, tx *postgres.Tx, of accounts.ID, contacts []Contact, label labels.ID, operation Operation,
) ([]ID, error) {
	sql := sqlAttach
	if operation == Detach {
		sql = sqlDetach
	}
	return postgres.Many[ID](ctx, tx, sql, postgres.Args{"ids": postgres.Each(contacts, idOf), "label_id": label, argAccount: of})
}

const sqlTooMany = `
SELECT wanted.contact_id
FROM unnest(@ids::uuid[]) AS wanted (contact_id)
WHERE (SELECT count(*) FROM contact_labels WHERE org_id = @org_id AND contact_id = wanted.contact_id) > @most
ORDER BY wanted.contact_id
LIMIT 1`

// refuseTooMany refuses if one of the contacts has more labels than it may.
func refuseTooMany(ctx context.Context, tx *postgres.Tx, ids []ID) error {
	full, err := postgres.Many[ID](ctx, tx, sqlTooMany, postgres.Args{"ids": ids, "most": labels.MaxCarried})
	if err != nil || len(full) == 0 {
		return err
	}
	return labels.TooMany("contact", full[0])
}

const sqlTouch = `
UPDATE contacts c
SET updated_at = given.updated_at
FROM unnest(@ids::uuid[], @updated_ats::timestamptz[]) AS given (id, updated_at)
WHERE c.org_id = @org_id
  AND c.id = given.id`

func touch(ctx context.Context, tx *postgres.Tx, contacts []Contact) error {
	_, err := tx.Exec(ctx, sqlTouch, postgres.Columns(contacts,
		postgres.Col("ids", idOf), postgres.Col("updated_ats", func(c Contact) time.Time { return c.UpdatedAt })))
	return err
}

// carried is a label on a contact.
type carried struct {
	ContactID ID
	labels.Summary
}

// OFFSET 0 keeps one look-up for each contact: a plan made for the average organization would
// read all labels of a large one.
const sqlLabelsOf = `
SELECT wanted.contact_id, l.id, l.name, l.color
FROM unnest(@ids::uuid[]) AS wanted (contact_id)
JOIN LATERAL (SELECT label_id FROM contact_labels WHERE org_id = @org_id AND contact_id = wanted.contact_id OFFSET 0) AS carried ON true
JOIN labels l ON l.org_id = @org_id AND l.id = carried.label_id
ORDER BY wanted.contact_id, l.id`

// withLabels gives contacts the labels they carry, oldest first.
func withLabels(ctx context.Context, scope postgres.Scope, contacts []Contact) ([]Contact, error) {
	if len(contacts) == 0 {
		return contacts, nil
	}
	rows, err := postgres.Many[carried](ctx, scope, sqlLabelsOf, postgres.Args{"ids": postgres.Each(contacts, idOf)})
	byContact := map[ID][]labels.Summary{}
	for _, row := range rows {
		byContact[row.ContactID] = append(byContact[row.ContactID], row.Summary)
	}
	for i := range contacts {
		contacts[i].Labels = byContact[contacts[i].ID]
	}
	return contacts, err
}

func withLabelsOne(ctx context.Context, scope postgres.Scope, contact Contact, err error) (Contact, error) {
	if err != nil {
		return Contact{}, err
	}
	one, err := withLabels(ctx, scope, []Contact{contact})
	return one[0], err
}
