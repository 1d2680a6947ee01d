package contacts

import (
	"context"
	"slices"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Follower is a package whose rows point to contacts. It is told of what happens to them
// in the transaction in which it happens; what takes long it does in Settle.
type Follower struct {
	// Changed contacts have another name or number.
	Changed func(ctx context.Context, tx *postgres.Tx, ids []ID) error
	// Left contacts are gone for everybody: they were deleted, or joined into another. From
	// now on nothing of theirs may be shown under their id.
	Left func(ctx context.Context, tx *postgres.Tx, departures []Departure) error
	// Settle erases some of what hangs on a deleted contact, or moves it to the contact that
	// it was joined into, and tells whether there is more. It is asked until there is none.
	Settle func(ctx context.Context, tx *postgres.Tx, departure Departure) (more bool, err error)
}

// Departure is a contact that is no more. JoinedInto is nil when it was deleted.
type Departure struct {
	ID         ID
	AccountID  accounts.ID
	JoinedInto *ID
}

const sqlNames = `
SELECT id
FROM contacts
WHERE org_id = @org_id
  AND joined_into = @id`

// NamesTx returns the ids under which a contact was known: its own, and those of contacts that were joined into it.
func (s *Service) NamesTx(ctx context.Context, tx *postgres.Tx, contact ID) ([]ID, error) {
	joined, err := postgres.Many[ID](ctx, tx, sqlNames, postgres.Args{"id": contact})
	return append(joined, contact), err
}

// FollowedBy registers a follower. Who points to another follower's rows comes after it;
// rows are settled in the opposite order.
func (s *Service) FollowedBy(f Follower) { s.followers = append(s.followers, f) }

// tellTx tells the followers that contacts are shown otherwise now.
func (s *Service) tellTx(ctx context.Context, tx *postgres.Tx, changed []ID) error {
	if len(changed) == 0 {
		return nil
	}
	for _, f := range s.followers {
		if f.Changed == nil {
			continue
		}
		if err := f.Changed(ctx, tx, changed); err != nil {
			return err
		}
	}
	return nil
}

// What is personal goes at once, and the keys are free for a new contact.
const (
	sqlErase = `
UPDATE contacts
SET phone_number = NULL, bsuid = NULL, parent_bsuid = NULL, username = NULL, username_key = NULL, name = NULL, name_key = NULL,
    email = NULL, email_key = NULL, metadata = NULL, departure = 'erasing'
WHERE org_id = @org_id
  AND id = @id`
	sqlDropKeys = `
DELETE FROM contact_keys
WHERE org_id = @org_id
  AND contact_id = @id`
	sqlDropLabels = `
DELETE FROM contact_labels
WHERE org_id = @org_id
  AND contact_id = @id`
)

// Delete erases a contact: it is gone at once, and what hangs on it is erased by a job.
func (s *Service) Delete(ctx context.Context, org orgs.ID, of accounts.Account, id ID) (ID, error) {
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (ID, error) {
		contact, err := lockContact(ctx, tx, of.ID, id, toLeave)
		if err != nil {
			return ID{}, notFound(err)
		}
		for _, sql := range []string{sqlErase, sqlDropKeys, sqlDropLabels} {
			if _, err := tx.Exec(ctx, sql, postgres.Args{"id": contact.ID}); err != nil {
				return ID{}, err
			}
		}
		return contact.ID, s.departTx(ctx, tx, []Departure{{ID: contact.ID, AccountID: of.ID}})
	})
}

const (
	// The contact's own labels and those of the one that is joined into it, as many as a contact may have.
	sqlJoinLabels = `
INSERT INTO contact_labels (org_id, contact_id, label_id, account_id)
SELECT @org_id, @into, label_id, account_id
FROM contact_labels
WHERE org_id = @org_id
  AND contact_id = @id
  AND label_id NOT IN (SELECT label_id FROM contact_labels WHERE org_id = @org_id AND contact_id = @into)
ORDER BY label_id
LIMIT greatest(0, @most_labels - (SELECT count(*) FROM contact_labels WHERE org_id = @org_id AND contact_id = @into))
ON CONFLICT DO NOTHING`
	sqlJoin = `
UPDATE contacts
SET phone_number = NULL, bsuid = NULL, parent_bsuid = NULL, username = NULL, username_key = NULL, name = NULL, name_key = NULL,
    email = NULL, email_key = NULL, metadata = NULL, departure = 'joining', joined_into = @into
WHERE org_id = @org_id
  AND id = @id`
	// What was joined into the one that is joined names the other, too.
	sqlJoinAliases = `
UPDATE contacts
SET joined_into = @into
WHERE org_id = @org_id
  AND joined_into = @id`
)

// joinTx joins contacts into those that they turned out to be. Their keys are theirs already.
func (s *Service) joinTx(ctx context.Context, tx *postgres.Tx, joined []*person) error {
	if err := lockContacts(ctx, tx, postgres.Each(joined, func(p *person) ID { return p.ID }), toLeave); err != nil {
		return err
	}
	departures := make([]Departure, len(joined))
	for i, p := range joined {
		into := p.last()
		args := func() postgres.Args {
			return postgres.Args{"id": p.ID, "into": into.ID, "most_labels": labels.MaxCarried}
		}
		labeled, err := tx.Exec(ctx, sqlJoinLabels, args())
		if err != nil {
			return err
		}
		if labeled > 0 {
			into.fill(fieldLabels)
		}
		for _, sql := range []string{sqlDropLabels, sqlJoinAliases, sqlJoin} {
			if _, err := tx.Exec(ctx, sql, args()); err != nil {
				return err
			}
		}
		departures[i] = Departure{ID: p.ID, AccountID: p.AccountID, JoinedInto: &into.ID}
	}
	return s.departTx(ctx, tx, departures)
}

// departTx tells the followers, and has the rest done by jobs.
func (s *Service) departTx(ctx context.Context, tx *postgres.Tx, departures []Departure) error {
	if len(departures) == 0 {
		return nil
	}
	for _, f := range s.followers {
		if f.Left == nil {
			continue
		}
		if err := f.Left(ctx, tx, departures); err != nil {
			return err
		}
	}
	return s.settleLaterTx(ctx, tx, departures)
}

func (s *Service) settleLaterTx(ctx context.Context, tx *postgres.Tx, departures []Departure) error {
	if len(departures) == 0 {
		return nil
	}
	added := make([]jobs.Job, len(departures))
	for i, departure := range departures {
		added[i] = jobs.Job{Args: settleArgs{Org: tx.Org(), Contact: departure.ID}, Queue: jobs.Maintenance}
	}
	_, err := s.jobs.AddTx(ctx, tx, added...)
	return err
}

// settleArgs is the job that does what a departed contact leaves to be done.
type settleArgs struct {
	Org     orgs.ID `json:"org"`
	Contact ID      `json:"contact"`
}

// Kind names the job.
func (settleArgs) Kind() string { return "contacts_settle" }

// Handle registers the jobs.
func (s *Service) Handle(set *jobs.Set) {
	jobs.Handle(set, func(ctx context.Context, _ int64, args settleArgs) error { return s.settle(ctx, args) })
}

const sqlLockDeparture = `
SELECT id, account_id, joined_into
FROM contacts
WHERE org_id = @org_id
  AND id = @id
  AND departure IN ('erasing', 'joining')
FOR NO KEY UPDATE`

const (
	sqlErased = `
DELETE FROM contacts
WHERE org_id = @org_id
  AND id = @id`
	sqlJoined = `
UPDATE contacts
SET departure = 'joined'
WHERE org_id = @org_id
  AND id = @id`
)

// settle lets each follower do some of its work in a transaction of its own until nothing
// is left, the last one first; then an erased contact's row goes, too. Once its turn is over, the job goes on later.
func (s *Service) settle(ctx context.Context, args settleArgs) error {
	ctx = postgres.WithBudget(ctx, jobs.Turn)
	for more := true; more; {
		if postgres.OverBudget(ctx) {
			return jobs.Later(0)
		}
		var err error
		more, err = postgres.InTx(ctx, s.work, args.Org, func(tx *postgres.Tx) (bool, error) {
			return s.settleSomeTx(ctx, tx, args.Contact)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) settleSomeTx(ctx context.Context, tx *postgres.Tx, id ID) (more bool, err error) {
	waiting, err := postgres.Many[Departure](ctx, tx, sqlLockDeparture, postgres.Args{"id": id})
	if err != nil || len(waiting) == 0 {
		return false, err
	}
	departure := waiting[0]
	for _, f := range slices.Backward(s.followers) {
		if f.Settle == nil {
			continue
		}
		if more, err := f.Settle(ctx, tx, departure); err != nil || more {
			return true, err
		}
	}
	sql := sqlErased
	if departure.JoinedInto != nil {
		sql = sqlJoined
	}
	_, err = tx.Exec(ctx, sql, postgres.Args{"id": id})
	return false, err
}

const sqlDepartures = `
SELECT id, account_id, joined_into
FROM contacts
WHERE org_id = @org_id
  AND departure IN ('erasing', 'joining')
ORDER BY id`

// RestoreTx has what was under way done again after the organization moved.
func (s *Service) RestoreTx(ctx context.Context, tx *postgres.Tx) error {
	waiting, err := postgres.Many[Departure](ctx, tx, sqlDepartures, nil)
	if err != nil {
		return err
	}
	return s.settleLaterTx(ctx, tx, waiting)
}

// The index of the account leaves out those that are merged or being erased: each portion reads the next rows of the
// organization.
const sqlPurge = `
WITH walked AS MATERIALIZED (
    SELECT id, account_id = @account_id AS doomed
    FROM contacts
    WHERE org_id = @org_id
      AND id > @after
    ORDER BY id
    LIMIT 10 * @limit
), gone AS (
    DELETE FROM contacts
    WHERE org_id = @org_id
      AND id = ANY (ARRAY (SELECT id FROM walked WHERE doomed))
)
SELECT id FROM walked ORDER BY id DESC LIMIT 1`

// Purge deletes the contacts of an account that is gone.
func (s *Service) Purge(ctx context.Context, org orgs.ID, of accounts.Account, from ids.Any) error {
	return postgres.DeleteInPortions(ctx, s.work, org, sqlPurge, postgres.Args{argAccount: of.ID, "after": from})
}
