package contacts

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/textkey"
)

const columns = `id, account_id, phone_number, bsuid, parent_bsuid, username, name, email, metadata,
    marketing, marketing_at, marketing_source, updated_at`

const argAccount = "account_id"

// The id of a contact that was merged into another finds that one.
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

// strength is how a contact is locked.
type strength string

const (
	// toChange lets others write rows that point to the contact.
	toChange strength = ` FOR NO KEY UPDATE`
	// toLeave waits for transactions that write the first conversation of the contact, and keeps out new ones.
	toLeave strength = ` FOR UPDATE`
)

func lockContact(ctx context.Context, tx *postgres.Tx, of accounts.ID, id ID, how strength) (Contact, error) {
	return postgres.One[Contact](ctx, tx, sqlContactByID+string(how), postgres.Args{argAccount: of, "id": id})
}

// OFFSET 0 keeps the subquery apart, so that each contact is read by its primary key (ADR 15).
const sqlContactsByID = `
SELECT ` + columns + `
FROM (SELECT DISTINCT contact_id FROM unnest(@ids::uuid[]) AS contact_id) AS wanted
JOIN LATERAL (
    SELECT ` + columns + ` FROM contacts WHERE org_id = @org_id AND id = wanted.contact_id AND departure IS NULL OFFSET 0
) AS found ON true`

func contactsByID(ctx context.Context, scope postgres.Scope, ids []ID) ([]Contact, error) {
	return postgres.Many[Contact](ctx, scope, sqlContactsByID, postgres.Args{"ids": ids})
}

// Each contact is locked alone, in the order of the ids. With = ANY the planner reads all contacts of the organization as long
// as it expects only few.
const sqlLockContacts = `
SELECT c.id
FROM (SELECT DISTINCT contact_id FROM unnest(@ids::uuid[]) AS contact_id ORDER BY contact_id) AS wanted
JOIN LATERAL (SELECT id FROM contacts WHERE org_id = @org_id AND id = wanted.contact_id`

const sqlLocked = `) AS c ON true`

func lockContacts(ctx context.Context, tx *postgres.Tx, ids []ID, how strength) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := postgres.Many[ID](ctx, tx, sqlLockContacts+string(how)+sqlLocked, postgres.Args{"ids": ids})
	return err
}

// Contacts as arrays, with the folded texts by which lists find them.
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
	_, err := tx.Exec(ctx, sqlInsertContacts, columnsOf(contacts))
	return err
}

// LIMIT makes the planner look up each contact by its primary key (ADR 15).
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
    updated_at = given.updated_at
FROM (
    SELECT found.org_id, given.*` + sqlGiven + `
    JOIN LATERAL (SELECT org_id FROM contacts WHERE org_id = @org_id AND id = given.id OFFSET 0) AS found ON true
    LIMIT @count
) AS given
WHERE c.org_id = given.org_id
  AND c.id = given.id`

// updateContacts writes contacts that are locked.
func updateContacts(ctx context.Context, tx *postgres.Tx, contacts []Contact) error {
	if len(contacts) == 0 {
		return nil
	}
	args := columnsOf(contacts)
	args["count"] = len(contacts)
	_, err := tx.Exec(ctx, sqlUpdateContacts, args)
	return err
}

func columnsOf(contacts []Contact) postgres.Args {
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
	return postgres.Columns(contacts,
		postgres.Col("ids", idOf),
		postgres.Col("account_ids", func(c Contact) accounts.ID { return c.AccountID }),
		postgres.Col("phone_numbers", func(c Contact) *string { return c.PhoneNumber }),
		postgres.Col("bsuids", func(c Contact) *string { return c.BSUID }),
		postgres.Col("parent_bsuids", func(c Contact) *string { return c.ParentBSUID }),
		postgres.Col("usernames", func(c Contact) *string { return c.Username }),
		postgres.Col("username_keys", func(c Contact) *string { return folded(c.Username) }),
		postgres.Col("names", func(c Contact) *string { return c.Name }),
		postgres.Col("name_keys", func(c Contact) *string { return folded(c.Name) }),
		postgres.Col("emails", func(c Contact) *string { return c.Email }),
		postgres.Col("email_keys", func(c Contact) *string { return folded(c.Email) }),
		postgres.Col("metadatas", metadata),
		postgres.Col("marketings", func(c Contact) Marketing { return c.Marketing }),
		postgres.Col("marketing_ats", func(c Contact) *time.Time { return c.MarketingAt }),
		postgres.Col("marketing_sources", func(c Contact) *string { return c.MarketingSource }),
		postgres.Col("updated_ats", func(c Contact) time.Time { return c.UpdatedAt }))
}

func idOf(c Contact) ID { return c.ID }
