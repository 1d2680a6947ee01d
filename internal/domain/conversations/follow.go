package conversations

import (
	"context"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const sqlTouch = `
UPDATE conversations
SET updated_at = ` + sqlLater + `
WHERE org_id = @org_id
  AND contact_id = ANY (@contact_ids)
  AND departure IS NULL`

// contactsChangedTx: a conversation shows the name and number of its contact.
func (s *Service) contactsChangedTx(ctx context.Context, tx *postgres.Tx, changed []contacts.ID) error {
	if err := lockOf(ctx, tx, changed); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, sqlTouch, postgres.Args{"contact_ids": changed, "now": s.clock.Now()})
	return err
}

func lockOf(ctx context.Context, tx *postgres.Tx, of []contacts.ID) error {
	_, err := tx.Exec(ctx, sqlLockOf, postgres.Args{"contact_ids": of})
	return err
}

const sqlHide = `
UPDATE conversations
SET departure = 'erasing'
WHERE org_id = @org_id
  AND contact_id = @contact_id
  AND departure IS NULL`

// contactsLeftTx hides the conversations of contacts that were deleted, and makes one of
// the two of contacts that were joined.
func (s *Service) contactsLeftTx(ctx context.Context, tx *postgres.Tx, departures []contacts.Departure) error {
	var all []contacts.ID
	for _, departure := range departures {
		if all = append(all, departure.ID); departure.JoinedInto != nil {
			all = append(all, *departure.JoinedInto)
		}
	}
	if err := lockOf(ctx, tx, all); err != nil {
		return err
	}
	for _, departure := range departures {
		if departure.JoinedInto != nil {
			if err := s.joinTx(ctx, tx, departure.ID, *departure.JoinedInto); err != nil {
				return err
			}
			continue
		}
		if _, err := tx.Exec(ctx, sqlHide, postgres.Args{"contact_id": departure.ID}); err != nil {
			return err
		}
	}
	return nil
}

const (
	sqlOf = `
SELECT id
FROM conversations
WHERE org_id = @org_id
  AND contact_id = @contact_id
  AND departure IS NULL`
	sqlMove = `
UPDATE conversations
SET contact_id = @into,
    updated_at = ` + sqlLater + `
WHERE org_id = @org_id
  AND id = @id`
	// What was to be done in either is to be done in the one, what was unread is unread.
	sqlMerge = `
UPDATE conversations c
SET status = CASE WHEN 'open' IN (c.status, other.status) THEN 'open'
                  WHEN 'pending' IN (c.status, other.status) THEN 'pending'
                  ELSE 'resolved' END,
    assignee_id = coalesce(c.assignee_id, other.assignee_id),
    unread_count = c.unread_count + other.unread_count,
    last_message_at = greatest(c.last_message_at, other.last_message_at),
    last_message_id = CASE WHEN other.last_message_at > coalesce(c.last_message_at, '-infinity')
                           THEN other.last_message_id ELSE c.last_message_id END,
    last_inbound_at = greatest(c.last_inbound_at, other.last_inbound_at),
    updated_at = greatest(@now, c.updated_at + interval '1 millisecond')
FROM conversations other
WHERE c.org_id = @org_id
  AND c.id = @into
  AND other.org_id = @org_id
  AND other.id = @id`
	sqlMergeLabels = `
INSERT INTO conversation_labels (org_id, conversation_id, label_id, account_id)
SELECT @org_id, @into, label_id, account_id
FROM conversation_labels
WHERE org_id = @org_id
  AND conversation_id = @id
  AND label_id NOT IN (SELECT label_id FROM conversation_labels WHERE org_id = @org_id AND conversation_id = @into)
ORDER BY label_id
LIMIT greatest(0, @most_labels - (SELECT count(*) FROM conversation_labels WHERE org_id = @org_id AND conversation_id = @into))
ON CONFLICT DO NOTHING`
	sqlDropLabels = `
DELETE FROM conversation_labels
WHERE org_id = @org_id
  AND conversation_id = @id`
	sqlJoinAliases = `
UPDATE conversations
SET joined_into = @into
WHERE org_id = @org_id
  AND joined_into = @id`
	sqlJoined = `
UPDATE conversations
SET departure = 'joined',
    joined_into = @into,
    assignee_id = NULL
WHERE org_id = @org_id
  AND id = @id`
)

// joinTx makes one conversation of those of two contacts that turned out to be one. Its
// messages follow in the background.
func (s *Service) joinTx(ctx context.Context, tx *postgres.Tx, from, into contacts.ID) error {
	theirs, found, err := s.InUseTx(ctx, tx, from)
	if err != nil || !found {
		return err
	}
	own, found, err := s.InUseTx(ctx, tx, into)
	if err != nil {
		return err
	}
	if !found {
		_, err = tx.Exec(ctx, sqlMove, postgres.Args{"id": theirs, "into": into, "now": s.clock.Now()})
		return err
	}
	for _, sql := range []string{sqlMerge, sqlMergeLabels, sqlDropLabels, sqlJoinAliases, sqlJoined} {
		if _, err := tx.Exec(ctx, sql, postgres.Args{
			"id": theirs, "into": own, "now": s.clock.Now(), "most_labels": labels.MaxCarried,
		}); err != nil {
			return err
		}
	}
	return nil
}

// Also those that were joined into the contact's: their messages may not have moved yet.
const (
	sqlAllOf = `
SELECT id
FROM conversations
WHERE org_id = @org_id
  AND contact_id IN (SELECT id FROM contacts WHERE org_id = @org_id AND (id = @contact_id OR joined_into = @contact_id))`
	sqlErase = `
DELETE FROM conversations
WHERE org_id = @org_id
  AND id = ANY (@ids)`
)

// OfTx returns all conversations that a departed contact has had, for who erases or moves
// what was said in them.
func (s *Service) OfTx(ctx context.Context, tx *postgres.Tx, contact contacts.ID) ([]ID, error) {
	return postgres.Many[ID](ctx, tx, sqlAllOf, postgres.Args{"contact_id": contact})
}

// InUseTx returns the conversation that shows what is said to a contact. Those that were merged into it only name it.
func (s *Service) InUseTx(ctx context.Context, tx *postgres.Tx, contact contacts.ID) (id ID, found bool, err error) {
	one, err := postgres.Many[ID](ctx, tx, sqlOf, postgres.Args{"contact_id": contact})
	if err != nil || len(one) == 0 {
		return ID{}, false, err
	}
	return one[0], true, nil
}

// settleTx erases the conversation of a deleted contact, after all that was said in it.
func (s *Service) settleTx(ctx context.Context, tx *postgres.Tx, departure contacts.Departure) (more bool, err error) {
	if departure.JoinedInto != nil {
		return false, nil // the former conversation stays as another name of the other
	}
	gone, err := s.OfTx(ctx, tx, departure.ID)
	if err != nil || len(gone) == 0 {
		return false, err
	}
	_, err = tx.Exec(ctx, sqlErase, postgres.Args{"ids": gone})
	return false, err
}

// The index of the account leaves out those that are merged or being erased: each portion reads the next rows of the
// organization.
const sqlPurge = `
WITH walked AS MATERIALIZED (
    SELECT id, account_id = @account_id AS doomed
    FROM conversations
    WHERE org_id = @org_id
      AND id > @after
    ORDER BY id
    LIMIT 10 * @limit
), gone AS (
    DELETE FROM conversations
    WHERE org_id = @org_id
      AND id = ANY (ARRAY (SELECT id FROM walked WHERE doomed))
)
SELECT id FROM walked ORDER BY id DESC LIMIT 1`

// Purge deletes the conversations of an account that is gone.
func (s *Service) Purge(ctx context.Context, org orgs.ID, of accounts.Account, from ids.Any) error {
	return postgres.DeleteInPortions(ctx, s.work, org, sqlPurge, postgres.Args{argAccount: of.ID, "after": from})
}
