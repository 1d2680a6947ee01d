package contacts

import (
	"cmp"
	"context"

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

// Label attaches a label of the account's team to a contact, or detaches it. It records an event
// only when something changed.
func (s *Service) Label(
	ctx context.Context, org orgs.ID, of accounts.Account, id ID, label labels.ID, operation Operation,
) (LabelResource, error) {
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (LabelResource, error) {
		param := "label_id"
		if operation == Detach {
			param = "" // it is in the path
		}
		unknown, err := s.labels.InTeamTx(ctx, tx, of.TeamID, label, param)
		if err != nil {
			return LabelResource{}, err
		}
		contact, err := lockContact(ctx, tx, of.ID, id, toChange)
		if err != nil {
			return LabelResource{}, notFound(err)
		}
		if unknown != nil {
			return LabelResource{}, unknown
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
	// Skipped counts ids that are not those of contacts of the account.
	Skipped int
}

// BulkLabel changes all contacts in one transaction, locked in the order of their ids.
func (s *Service) BulkLabel(ctx context.Context, org orgs.ID, of accounts.Account, bulk Bulk) (BulkOutcome, error) {
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (BulkOutcome, error) {
		if unknown, err := s.labels.InTeamTx(ctx, tx, of.TeamID, bulk.LabelID, "label_id"); err != nil || unknown != nil {
			return BulkOutcome{}, cmp.Or(err, unknown)
		}
		listed, err := lockListed(ctx, tx, of.ID, bulk.ContactIDs)
		if err != nil {
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

// skipped counts the ids that none of the contacts has, by itself or by a merge.
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
	aliases, err := aliasesOf(ctx, tx, others)
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

// labelTx labels contacts that are locked and returns how many changed.
func (s *Service) labelTx(
	ctx context.Context, tx *postgres.Tx, of accounts.Account, contacts []Contact, label labels.ID, operation Operation,
) (int, error) {
	if len(contacts) == 0 {
		return 0, nil
	}
	touched, err := labelContacts(ctx, tx, of.ID, contacts, label, operation)
	if err != nil || len(touched) == 0 {
		return 0, err
	}
	if operation == Attach {
		if err := refuseTooMany(ctx, tx, touched); err != nil {
			return 0, err
		}
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
