package webhooks

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	// Deletes the events in doomed with their deliveries, also those of replays, and their attempts.
	sqlDeleteEvents = `, undelivered AS (
    DELETE FROM webhook_deliveries
    WHERE org_id = @org_id
      AND event_key = ANY (ARRAY (SELECT key FROM doomed))
      AND event_id = ANY (ARRAY (SELECT id FROM doomed))
    RETURNING id
), forgotten AS (
    DELETE FROM webhook_attempts
    WHERE org_id = @org_id
      AND delivery_id = ANY (ARRAY (SELECT id FROM undelivered))
), gone AS (
    DELETE FROM events
    WHERE org_id = @org_id
      AND id = ANY (ARRAY (SELECT id FROM doomed))
)`
	sqlExpireEvents = `-- locks: events, webhook_deliveries, webhook_attempts
WITH doomed AS MATERIALIZED (
    SELECT id, key FROM events WHERE org_id = @org_id AND id > @after AND id < @before ORDER BY id LIMIT @limit
)` + sqlDeleteEvents + `
SELECT id FROM doomed`
	// Deliveries whose event went before them.
	sqlExpireDeliveries = `-- locks: webhook_deliveries, webhook_attempts
WITH doomed AS MATERIALIZED (
    SELECT id FROM webhook_deliveries WHERE org_id = @org_id AND id > @after AND id < @before ORDER BY id LIMIT @limit
), forgotten AS (
    DELETE FROM webhook_attempts
    WHERE org_id = @org_id
      AND delivery_id = ANY (ARRAY (SELECT id FROM doomed))
)
DELETE FROM webhook_deliveries
WHERE org_id = @org_id
  AND id = ANY (ARRAY (SELECT id FROM doomed))
  AND id < @before
RETURNING id`
	// Attempts whose delivery went before them.
	sqlExpireAttempts = `
DELETE FROM webhook_attempts
WHERE org_id = @org_id
  AND id < @before
  AND id = ANY (ARRAY (
      SELECT id FROM webhook_attempts WHERE org_id = @org_id AND id > @after AND id < @before ORDER BY id LIMIT @limit))
RETURNING id`
)

// ExpireBefore deletes the events, deliveries and attempts of an organization from before a time. Rows of deliveries that
// still wait leave their lane when it comes to them. It begins after the id after, or with the oldest if that is zero. A
// postgres.MoreError means that its time was over, and says where the next call goes on.
func (s *Service) ExpireBefore(ctx context.Context, org orgs.ID, after ids.Any, before time.Time) error {
	for _, sql := range []string{sqlExpireEvents, sqlExpireDeliveries, sqlExpireAttempts} {
		err := postgres.DeleteInPortions(ctx, s.work, org, sql, postgres.Args{"after": after, "before": ids.Floor[deliveryKind](before)})
		if err != nil {
			return err
		}
		after = ids.Any{} // a delivery or attempt that is left may have any id
	}
	return nil
}

const (
	sqlSomeOfContact = `
SELECT EXISTS (SELECT FROM events WHERE org_id = @org_id AND contact_id = @contact_id)`
	sqlEraseContact = `-- locks: events, webhook_deliveries, webhook_attempts
WITH doomed AS MATERIALIZED (
    SELECT id, key FROM events WHERE org_id = @org_id AND contact_id = @contact_id ORDER BY id LIMIT @limit
)` + sqlDeleteEvents + `
SELECT id FROM doomed`
)

// EraseContactTx deletes some events about a contact, with their deliveries, and tells whether there are more. It locks
// nothing when there is none.
func (s *Service) EraseContactTx(ctx context.Context, tx *postgres.Tx, contact ids.Any) (more bool, err error) {
	some, err := postgres.One[bool](ctx, tx, sqlSomeOfContact, postgres.Args{"contact_id": contact})
	if err != nil || !some {
		return false, err
	}
	_, err = tx.Exec(ctx, sqlEraseContact, postgres.Args{"contact_id": contact, "limit": postgres.Portion})
	return true, err
}
