package contacts

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/textkey"
)

const columns = `id, account_id, phone_number, bsuid, parent_bsuid, username, name, email, metadata,
    marketing, marketing_at, marketing_source, updated_at`

// argAccount is bound in almost every statement.
const argAccount = "account_id"

// An id that was joined into another names that one.
const sqlContactByID = `
SELECT ` + columns + `
FROM contacts
WHERE org_id = @org_id
  AND account_id = @account_id
  AND departure IS NULL
  AND id = coalesce((SELECT joined_into FROM contacts WHERE org_id = @org_id AND id = @id), @id)`

func contactByID(ctx context.Context, scope postgres.Scope, of accounts.ID, id ID) (Contact, error) {
	return postgres.One[Contact](ctx, scope, sqlContactByID, postgres.Args{argAccount: of, "id": id})
}

// lockContact leaves the key of the row free: rows that point to it may still be written.
func lockContact(ctx context.Context, tx *postgres.Tx, of accounts.ID, id ID) (Contact, error) {
	return postgres.One[Contact](ctx, tx, sqlContactByID+` FOR NO KEY UPDATE`, postgres.Args{argAccount: of, "id": id})
}

const sqlContactsByID = `
SELECT c.id, c.account_id, c.phone_number, c.bsuid, c.parent_bsuid, c.username, c.name, c.email, c.metadata,
    c.marketing, c.marketing_at, c.marketing_source, c.updated_at
FROM (SELECT DISTINCT id FROM unnest(@ids::uuid[]) AS id) AS wanted
JOIN LATERAL (SELECT ` + columns + ` FROM contacts WHERE org_id = @org_id AND id = wanted.id AND departure IS NULL OFFSET 0) AS c ON true`

func contactsByID(ctx context.Context, scope postgres.Scope, ids []ID) ([]Contact, error) {
	return postgres.Many[Contact](ctx, scope, sqlContactsByID, postgres.Args{"ids": ids})
}

const sqlLockContacts = `
SELECT id
FROM contacts
WHERE org_id = @org_id
  AND id = ANY (@ids)
ORDER BY id
FOR NO KEY UPDATE`

func lockContacts(ctx context.Context, tx *postgres.Tx, ids map[ID]bool) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := postgres.Many[ID](ctx, tx, sqlLockContacts, postgres.Args{"ids": slices.Collect(maps.Keys(ids))})
	return err
}

// Contacts turned on their side, with the keys they are found by.
const sqlGiven = `
FROM unnest(
    @ids::uuid[], @account_ids::uuid[], @phone_numbers::text[], @bsuids::text[], @parent_bsuids::text[], @usernames::text[],
    @username_keys::text[], @names::text[], @name_keys::text[], @emails::text[], @email_keys::text[], @metadatas::text[],
    @marketings::text[], @marketing_ats::timestamptz[], @marketing_sources::text[], @updated_ats::timestamptz[]
) AS given (
    id, account_id, phone_number, bsuid, parent_bsuid, username, username_key, name, name_key, email, email_key, metadata,
    marketing, marketing_at, marketing_source, updated_at
)`

const sqlInsertContacts = `
INSERT INTO contacts (org_id, id, account_id, phone_number, bsuid, parent_bsuid, username, username_key, name, name_key, email, email_key,
    metadata, marketing, marketing_at, marketing_source, updated_at)
SELECT @org_id, id, account_id, phone_number, bsuid, parent_bsuid, username, username_key, name, name_key, email, email_key,
    metadata::json, marketing, marketing_at, marketing_source, updated_at` + sqlGiven

func insertContacts(ctx context.Context, tx *postgres.Tx, contacts []Contact) error {
	if len(contacts) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, sqlInsertContacts, sideways(contacts))
	return err
}

const sqlUpdateContacts = `
UPDATE contacts c
SET phone_number = given.phone_number,
    bsuid = given.bsuid,
    parent_bsuid = given.parent_bsuid,
    username = given.username,
    username_key = given.username_key,
    name = given.name,
    name_key = given.name_key,
    email = given.email,
    email_key = given.email_key,
    metadata = given.metadata::json,
    marketing = given.marketing,
    marketing_at = given.marketing_at,
    marketing_source = given.marketing_source,
    updated_at = given.updated_at` + sqlGiven + `
WHERE c.org_id = @org_id
  AND c.id = given.id`

// updateContacts writes contacts that are locked.
func updateContacts(ctx context.Context, tx *postgres.Tx, contacts []Contact) error {
	if len(contacts) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, sqlUpdateContacts, sideways(contacts))
	return err
}

func sideways(contacts []Contact) postgres.Args {
	folded := func(text *string) *string {
		if text == nil {
			return nil
		}
		return new(textkey.Fold(*text))
	}
	metadata := func(c Contact) *string {
		if c.Metadata == nil {
			return nil
		}
		return new(string(c.Metadata))
	}
	return postgres.Args{
		"ids":               column(contacts, func(c Contact) ID { return c.ID }),
		"account_ids":       column(contacts, func(c Contact) accounts.ID { return c.AccountID }),
		"phone_numbers":     column(contacts, func(c Contact) *string { return c.PhoneNumber }),
		"bsuids":            column(contacts, func(c Contact) *string { return c.BSUID }),
		"parent_bsuids":     column(contacts, func(c Contact) *string { return c.ParentBSUID }),
		"usernames":         column(contacts, func(c Contact) *string { return c.Username }),
		"username_keys":     column(contacts, func(c Contact) *string { return folded(c.Username) }),
		"names":             column(contacts, func(c Contact) *string { return c.Name }),
		"name_keys":         column(contacts, func(c Contact) *string { return folded(c.Name) }),
		"emails":            column(contacts, func(c Contact) *string { return c.Email }),
		"email_keys":        column(contacts, func(c Contact) *string { return folded(c.Email) }),
		"metadatas":         column(contacts, metadata),
		"marketings":        column(contacts, func(c Contact) Marketing { return c.Marketing }),
		"marketing_ats":     column(contacts, func(c Contact) *time.Time { return c.MarketingAt }),
		"marketing_sources": column(contacts, func(c Contact) *string { return c.MarketingSource }),
		"updated_ats":       column(contacts, func(c Contact) time.Time { return c.UpdatedAt }),
	}
}

func column[T any](contacts []Contact, of func(Contact) T) []T {
	values := make([]T, len(contacts))
	for i, contact := range contacts {
		values[i] = of(contact)
	}
	return values
}

// carried is a label on a contact.
type carried struct {
	ContactID ID
	labels.Summary
}

// One look-up for each contact: a plan made for the average organization would read all
// labels of a large one instead.
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
	rows, err := postgres.Many[carried](ctx, scope, sqlLabelsOf, postgres.Args{
		"ids": column(contacts, func(c Contact) ID { return c.ID }),
	})
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
