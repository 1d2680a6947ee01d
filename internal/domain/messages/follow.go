package messages

import (
	"context"
	"slices"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// portion is how many messages of a departed contact one transaction moves or erases.
const portion = 500

// contactLeftTx erases some messages of a contact that was deleted, or moves them to the
// conversation of the contact that it was merged into. It returns whether there are more.
func (s *Service) contactLeftTx(ctx context.Context, tx *postgres.Tx, departure contacts.Departure) (more bool, err error) {
	of, err := s.conversations.OfTx(ctx, tx, departure.ID)
	if err != nil {
		return false, err
	}
	if departure.JoinedInto == nil {
		// The last call must lock nothing: the same transaction then deletes the conversations, whose locks
		// come before those of messages. So look without a lock first.
		some, err := postgres.One[bool](ctx, tx, sqlSome, postgres.Args{"conversations": of})
		if err != nil || !some {
			return false, err
		}
		touched, err := tx.Exec(ctx, sqlErase, postgres.Args{"conversations": of, "limit": portion, "now": s.clock.Now()})
		return touched > 0, err
	}
	into, found, err := s.conversations.InUseTx(ctx, tx, *departure.JoinedInto)
	if err != nil || !found {
		return false, err
	}
	all, err := s.conversations.OfTx(ctx, tx, *departure.JoinedInto)
	if err != nil {
		return false, err
	}
	from := slices.Concat(of, all)
	some, err := postgres.One[bool](ctx, tx, sqlSomeOf, postgres.Args{"conversations": from, "from_id": departure.ID})
	if err != nil || !some {
		return false, err
	}
	touched, err := tx.Exec(ctx, sqlFollow, postgres.Args{
		"conversations": from, "into": into, "from_id": departure.ID, "into_id": *departure.JoinedInto, "limit": portion,
	})
	return touched > 0, err
}

// Purge deletes the messages of a number that was disconnected, and its lane with what waits in it.
func (s *Service) Purge(ctx context.Context, org orgs.ID, account accounts.Account, _ ids.Any) error {
	_, err := postgres.InTx(ctx, s.work, org, func(tx *postgres.Tx) (struct{}, error) {
		return struct{}{}, s.lanes.CloseTx(ctx, tx, account.ID.Any())
	})
	if err != nil {
		return err
	}
	for _, sql := range []string{sqlPurgeMessages, sqlPurgeReceipts, sqlPurgeParked, sqlPurgePairs} {
		if err := postgres.DeleteInPortions(ctx, s.work, org, sql, postgres.Args{argAccount: account.ID, "now": s.clock.Now()}); err != nil {
			return err
		}
	}
	return nil
}

const (
	// Deletes the messages in doomed with everything that hangs on them.
	sqlDoomed = `, states AS (
    DELETE FROM message_states WHERE org_id = @org_id AND id = ANY (ARRAY (SELECT id FROM doomed))
    RETURNING provider_id, second_provider_id, media_key, edit_history
), tries AS (
    DELETE FROM send_attempts WHERE org_id = @org_id AND message_id = ANY (ARRAY (SELECT id FROM doomed))
)`
	sqlDelete = sqlHanging + `
DELETE FROM messages WHERE org_id = @org_id AND id = ANY (ARRAY (SELECT id FROM doomed))
RETURNING id`
	// Deletes what hangs on the messages in doomed outside of their own tables. A file of the library is no part of a message.
	sqlHanging = `, downloads AS (
    DELETE FROM media_downloads WHERE org_id = @org_id AND id = ANY (ARRAY (SELECT id FROM doomed))
), uploads AS (
    DELETE FROM media_waiting WHERE org_id = @org_id AND id = ANY (ARRAY (SELECT id FROM doomed))
), files AS (
    INSERT INTO media_deletions (org_id, key, due_at)
    SELECT @org_id, media_key, @now
    FROM states s
    WHERE media_key IS NOT NULL
      AND NOT EXISTS (SELECT FROM library_files l WHERE l.org_id = @org_id AND l.key = s.media_key)
    ON CONFLICT DO NOTHING
), named AS (
    DELETE FROM provider_messages
    WHERE org_id = @org_id AND provider_id = ANY (ARRAY (
        SELECT unnest(ARRAY[provider_id, second_provider_id]) FROM states
        UNION SELECT edit ->> 'id' FROM states, json_array_elements(edit_history) AS edit))
)`
	sqlErase = `
-- locks: messages, message_states, send_attempts, provider_messages, erased_messages, media_waiting, media_downloads, media_deletions
WITH doomed AS MATERIALIZED (
    SELECT id FROM messages WHERE org_id = @org_id AND conversation_id = ANY (@conversations) ORDER BY id LIMIT @limit FOR UPDATE
)` + sqlDoomed + `, remembered AS (
    INSERT INTO erased_messages (org_id, hash, erased_at)
    SELECT @org_id, ` + sqlHash + `, @now
    FROM (SELECT unnest(ARRAY[provider_id, second_provider_id]) AS provider_id FROM states) AS known
    WHERE provider_id IS NOT NULL
    ON CONFLICT DO NOTHING
)` + sqlDelete
	sqlPurgeMessages = `-- locks: messages, message_states, send_attempts, provider_messages, media_waiting, media_downloads, media_deletions
WITH doomed AS MATERIALIZED (
    SELECT id FROM messages WHERE org_id = @org_id AND account_id = @account_id AND id > @after ORDER BY id LIMIT @limit FOR UPDATE
)` + sqlDoomed + sqlDelete
	sqlSome = `
SELECT EXISTS (SELECT FROM messages WHERE org_id = @org_id AND conversation_id = ANY (@conversations))`
	sqlSomeOf = `
SELECT EXISTS (SELECT FROM messages WHERE org_id = @org_id AND conversation_id = ANY (@conversations) AND contact_id = @from_id)`
	sqlFollow = `
WITH moved AS MATERIALIZED (
    SELECT id
    FROM messages
    WHERE org_id = @org_id AND conversation_id = ANY (@conversations) AND contact_id = @from_id
    ORDER BY id
    LIMIT @limit
    FOR UPDATE
)
UPDATE messages
SET conversation_id = @into, contact_id = @into_id
WHERE org_id = @org_id
  AND id IN (SELECT id FROM moved)`
	sqlPurgeReceipts = `
DELETE FROM receipts
WHERE org_id = @org_id
  AND id = ANY (ARRAY (
      SELECT id FROM receipts WHERE org_id = @org_id AND account_id = @account_id AND id > @after ORDER BY id LIMIT @limit))
RETURNING id`
	sqlPurgeParked = `
DELETE FROM parked_statuses
WHERE org_id = @org_id
  AND id = ANY (ARRAY (
      SELECT id FROM parked_statuses WHERE org_id = @org_id AND account_id = @account_id AND id > @after ORDER BY id LIMIT @limit))
RETURNING id`
	sqlPurgePairs = `
DELETE FROM send_pairs
WHERE org_id = @org_id
  AND account_id = @account_id
  AND contact_id = ANY (ARRAY (
      SELECT contact_id FROM send_pairs
      WHERE org_id = @org_id AND account_id = @account_id AND contact_id > @after ORDER BY contact_id LIMIT @limit))
RETURNING contact_id`
)
