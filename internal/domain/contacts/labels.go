package contacts

import (
	"context"
	"maps"
	"slices"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Operation is what is done with a label.
type Operation string

// The operations.
const (
	Attach Operation = "attach"
	Detach Operation = "detach"
)

// Label attaches a label of the account's team to a contact, or detaches it. What is so
// already is not announced.
func (s *Service) Label(
	ctx context.Context, org orgs.ID, of accounts.Account, id ID, label labels.ID, operation Operation,
) (LabelResource, error) {
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (LabelResource, error) {
		contact, err := lockContact(ctx, tx, of.ID, id)
		if err != nil {
			return LabelResource{}, notFound(err)
		}
		param := "label_id"
		if operation == Detach {
			param = "" // it is in the path
		}
		if _, err := s.labels.InTeamTx(ctx, tx, of.TeamID, label, param); err != nil {
			return LabelResource{}, err
		}
		_, err = s.labelTx(ctx, tx, of, []Contact{contact}, label, operation)
		return LabelResource{ContactID: contact.ID, LabelID: label, Attached: operation == Attach}, err
	})
}

// Bulk attaches or detaches one label on many contacts.
type Bulk struct {
	ContactIDs []ID      `json:"contact_ids"`
	LabelID    labels.ID `json:"label_id"`
	Operation  Operation `json:"operation"`
}

// BulkOutcome counts what became of the contacts of a Bulk.
type BulkOutcome struct {
	Operation Operation
	Requested int
	Changed   int
	// Skipped are not contacts of the account, or nobody's.
	Skipped int
}

const sqlLockListed = `
SELECT ` + columns + `
FROM contacts
WHERE org_id = @org_id
  AND account_id = @account_id
  AND departure IS NULL
  AND id IN (SELECT coalesce(joined_into, id) FROM contacts WHERE org_id = @org_id AND id = ANY (@ids))
ORDER BY id
FOR NO KEY UPDATE`

// Many who want the same contacts stand in line, each for longer than a single change takes.
const sqlPatience = `SET LOCAL lock_timeout = '8s'`

// BulkLabel changes all contacts in one transaction, locked in the order of their ids.
func (s *Service) BulkLabel(ctx context.Context, org orgs.ID, of accounts.Account, bulk Bulk) (BulkOutcome, error) {
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (BulkOutcome, error) {
		if _, err := tx.Exec(ctx, sqlPatience, nil); err != nil {
			return BulkOutcome{}, err
		}
		listed, err := postgres.Many[Contact](ctx, tx, sqlLockListed, postgres.Args{argAccount: of.ID, "ids": bulk.ContactIDs})
		if err != nil {
			return BulkOutcome{}, err
		}
		if _, err := s.labels.InTeamTx(ctx, tx, of.TeamID, bulk.LabelID, "label_id"); err != nil {
			return BulkOutcome{}, err
		}
		outcome := BulkOutcome{Operation: bulk.Operation, Requested: len(bulk.ContactIDs)}
		if outcome.Skipped, err = skipped(ctx, tx, bulk.ContactIDs, listed); err != nil {
			return BulkOutcome{}, err
		}
		outcome.Changed, err = s.labelTx(ctx, tx, of, listed, bulk.LabelID, bulk.Operation)
		return outcome, err
	})
}

const sqlJoinedInto = `
SELECT id, joined_into AS into
FROM contacts
WHERE org_id = @org_id
  AND id = ANY (@ids)
  AND joined_into IS NOT NULL`

// skipped counts the ids that name none of the contacts.
func skipped(ctx context.Context, tx *postgres.Tx, asked []ID, found []Contact) (count int, err error) {
	here := make(map[ID]bool, len(found))
	for _, contact := range found {
		here[contact.ID] = true
	}
	var others []ID
	for _, id := range asked {
		if !here[id] {
			others = append(others, id)
		}
	}
	if len(others) == 0 {
		return 0, nil
	}
	type alias struct{ ID, Into ID }
	aliases, err := postgres.Many[alias](ctx, tx, sqlJoinedInto, postgres.Args{"ids": others})
	named := map[ID]bool{}
	for _, alias := range aliases {
		named[alias.ID] = here[alias.Into]
	}
	for _, id := range others {
		if !named[id] {
			count++
		}
	}
	return count, err
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

// labelTx labels contacts that are locked and tells how many changed.
func (s *Service) labelTx(
	ctx context.Context, tx *postgres.Tx, of accounts.Account, contacts []Contact, label labels.ID, operation Operation,
) (int, error) {
	if len(contacts) == 0 {
		return 0, nil
	}
	sql := sqlAttach
	if operation == Detach {
		sql = sqlDetach
	}
	touched, err := postgres.Many[ID](ctx, tx, sql, postgres.Args{
		"ids": column(contacts, func(c Contact) ID { return c.ID }), "label_id": label, argAccount: of.ID,
	})
	if err != nil || len(touched) == 0 {
		return 0, err
	}
	now, relabeled := s.clock.Now(), make(map[ID]bool, len(touched))
	for _, id := range touched {
		relabeled[id] = true
	}
	var changed []Contact
	var drafts []events.Draft
	for _, contact := range contacts {
		if !relabeled[contact.ID] {
			continue
		}
		contact.advance(now)
		changed = append(changed, contact)
		drafts = append(drafts, updatedEvent(of, contact, []string{fieldLabels}))
	}
	if err := s.events.RecordTx(ctx, tx, drafts...); err != nil {
		return 0, err
	}
	return len(changed), touch(ctx, tx, changed)
}

const sqlTouch = `
UPDATE contacts c
SET updated_at = given.updated_at
FROM unnest(@ids::uuid[], @updated_ats::timestamptz[]) AS given (id, updated_at)
WHERE c.org_id = @org_id
  AND c.id = given.id`

func touch(ctx context.Context, tx *postgres.Tx, contacts []Contact) error {
	args := sideways(contacts)
	_, err := tx.Exec(ctx, sqlTouch, postgres.Args{"ids": args["ids"], "updated_ats": args["updated_ats"]})
	return err
}

func idsOf(set map[ID]bool) []ID { return slices.Collect(maps.Keys(set)) }
