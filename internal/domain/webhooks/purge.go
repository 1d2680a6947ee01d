package webhooks

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Deliveries that still wait in a lane are gone when it comes to them.
const sqlPurge = `
WITH doomed AS MATERIALIZED (
    SELECT id, key
    FROM events
    WHERE org_id = @org_id
      AND phone_number_id = @phone_number_id
      AND id < @before
    LIMIT @limit
), undelivered AS (
    DELETE FROM webhook_deliveries
    WHERE org_id = @org_id
      AND event_key IN (SELECT key FROM doomed)
      AND event_id IN (SELECT id FROM doomed)
    RETURNING id
), forgotten AS (
    DELETE FROM webhook_attempts
    WHERE org_id = @org_id
      AND delivery_id IN (SELECT id FROM undelivered)
)
DELETE FROM events
WHERE org_id = @org_id
  AND id IN (SELECT id FROM doomed)
RETURNING id`

// PurgeNumber removes the events of a disconnected number, and their deliveries. Should the
// organization have connected it again since, those of that time stay.
func (s *Service) PurgeNumber(ctx context.Context, org orgs.ID, account accounts.Account) error {
	if account.PhoneNumberID == nil {
		return nil
	}
	before := ids.Ceiling[deliveryKind]()
	again, err := s.accounts.Find(ctx, org, *account.PhoneNumberID)
	switch {
	case err == nil:
		before = ids.Floor[deliveryKind](again.ID.CreatedAt().Add(-time.Millisecond))
	case fault.Of(err) != fault.ResourceNotFound:
		return err
	}
	return postgres.DeleteInPortions(ctx, s.work, org, sqlPurge, postgres.Args{"phone_number_id": *account.PhoneNumberID, "before": before})
}
