package messages

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// ErasedFor is how long the hashed ids of erased messages, and of applied preferences, are kept: the network repeats a callback for
// seven days.
const ErasedFor = 8 * 24 * time.Hour

// sqlHash is what is kept of provider_id. The id itself has the contact's number in it.
const sqlHash = `sha256(convert_to(provider_id, 'UTF8'))`

// Each id of provider_messages is looked up in its own partition, as in sqlProviderIDs; OFFSET 0 keeps the planner from making a
// join of it.
const sqlArrivedIDs = `
SELECT asked.provider_id, p.message_id, e.hash IS NOT NULL AS erased
FROM unnest(@ids::text[]) AS asked (provider_id)
LEFT JOIN LATERAL (
    SELECT message_id FROM provider_messages WHERE org_id = @org_id AND provider_id = asked.provider_id OFFSET 0
) AS p ON true
LEFT JOIN LATERAL (
    SELECT hash FROM erased_messages WHERE org_id = @org_id AND hash = ` + sqlHash + ` OFFSET 0
) AS e ON true
WHERE p.message_id IS NOT NULL
   OR e.hash IS NOT NULL`

// arrivedBefore finds the messages that are stored under the provider's ids, and the ids of messages that were erased and of
// preferences that were applied.
func arrivedBefore(ctx context.Context, tx *postgres.Tx, asked []string) (stored map[string]ID, erased map[string]bool, err error) {
	type row struct {
		ProviderID string
		MessageID  *ID
		Erased     bool
	}
	rows, err := postgres.Many[row](ctx, tx, sqlArrivedIDs, postgres.Args{"ids": asked})
	stored, erased = map[string]ID{}, map[string]bool{}
	for _, one := range rows {
		if one.MessageID != nil {
			stored[one.ProviderID] = *one.MessageID
		}
		erased[one.ProviderID] = one.Erased
	}
	return stored, erased, err
}

const sqlRemember = `
INSERT INTO erased_messages (org_id, hash, erased_at)
SELECT @org_id, ` + sqlHash + `, @now
FROM unnest(@ids::text[]) AS given (provider_id)
ON CONFLICT DO NOTHING`

// rememberPreferences stores the hashed ids of preferences when they are applied. At the erasure of the contact it would be too late:
// the contact has only the last one.
func rememberPreferences(ctx context.Context, tx *postgres.Tx, all []string, now time.Time) error {
	if len(all) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, sqlRemember, postgres.Args{"ids": all, "now": now})
	return err
}

// DeleteInPortions goes on after an id, and this table has none: each portion deletes the oldest, and returns @after for each row.
const sqlForgetErased = `
DELETE FROM erased_messages
WHERE org_id = @org_id
  AND hash = ANY (ARRAY (
      SELECT hash FROM erased_messages WHERE org_id = @org_id AND erased_at < @before ORDER BY erased_at LIMIT @limit))
RETURNING @after::uuid`

// ForgetErased deletes the hashes of messages that were erased, and of preferences that were applied, before a time. A
// postgres.MoreError means that its time was over before all were deleted.
func (s *Service) ForgetErased(ctx context.Context, org orgs.ID, before time.Time) error {
	return postgres.DeleteInPortions(ctx, s.work, org, sqlForgetErased, postgres.Args{"before": before})
}
