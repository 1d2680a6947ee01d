package webhooks

import (
	"context"

	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Event, deliveries and lane rows in one statement. Paused and disabled subscriptions get
// theirs too: they wait. The time of a delivery is that of its event, so that the
// deliveries of one subject are due in the order of its events.
const (
	sqlWrite    = events.Recording + sqlMatch + sqlDeliverMatched
	sqlWriteOne = events.RecordingOne + sqlMatch + sqlDeliverMatched
	sqlMatch    = `, matched AS (
    SELECT ulid(e.at) AS id, s.id AS subscription_id, e.id AS event_id, e.key, e.type, e.subject_id, e.at
    FROM given e
    JOIN webhook_subscriptions s ON s.org_id = @org_id
     AND e.type = ANY (s.events)
     AND (e.phone_number_id IS NULL OR s.phone_number_ids IS NULL OR e.phone_number_id = ANY (s.phone_number_ids))
    WHERE e.audience = 'public'
)`
)

// What every statement that makes deliveries ends with.
const sqlDeliverMatched = `, delivered AS (
    INSERT INTO webhook_deliveries (org_id, id, subscription_id, event_id, event_key, event_type, subject_id, status, next_attempt_at)
    SELECT @org_id, id, subscription_id, event_id, key, type, subject_id, 'pending', at FROM matched
), waiting AS (
    ` + lanes.Adding + `
    SELECT subscription_id, 0, at, id, subject_id FROM matched
)
` + lanes.Touched + `
WHERE lane_id IN (SELECT subscription_id FROM matched)`

// writeTx writes events and has them delivered.
func (s *Service) writeTx(ctx context.Context, tx *postgres.Tx, recorded []events.Event) error {
	if len(recorded) == 1 {
		return s.lanes.AddLastTx(ctx, tx, laneKind, sqlWriteOne, events.Values(recorded[0]))
	}
	return s.lanes.AddLastTx(ctx, tx, laneKind, sqlWrite, events.Columns(recorded))
}
