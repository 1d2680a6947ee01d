package webhooks

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// A replay is a new delivery of the same event. Deliveries whose event is gone, and those of
// disabled subscriptions, are left out.
const sqlReplay = `
INSERT INTO webhook_deliveries
    (org_id, id, subscription_id, event_id, event_key, event_type, subject_id, status, next_attempt_at, replayed_from)
SELECT @org_id, given.id, d.subscription_id, d.event_id, d.event_key, d.event_type, d.subject_id, 'pending', @now, d.id
FROM unnest(@ids::uuid[], @from::uuid[]) AS given (id, replayed_from)
JOIN webhook_deliveries d ON d.org_id = @org_id AND d.id = given.replayed_from
JOIN webhook_subscriptions s ON s.org_id = @org_id AND s.id = d.subscription_id AND s.status <> 'disabled'
JOIN events e ON e.org_id = @org_id AND e.id = d.event_id
RETURNING ` + deliveryColumns

// insertReplays makes deliveries with the given ids that repeat others.
func insertReplays(ctx context.Context, tx *postgres.Tx, made, from []DeliveryID, now time.Time) ([]Delivery, error) {
	return postgres.Many[Delivery](ctx, tx, sqlReplay, postgres.Args{"ids": made, "from": from, "now": now})
}

// replay is a bulk replay under way: the dead deliveries from NextID to before UntilID.
type replay struct {
	ID             replayID
	SubscriptionID *SubscriptionID
	EventType      *events.Type
	NextID         DeliveryID
	UntilID        DeliveryID
}

const sqlInsertReplay = `
INSERT INTO webhook_replays (org_id, id, subscription_id, event_type, next_id, until_id)
VALUES (@org_id, @id, @subscription_id, @event_type, @next_id, @until_id)`

func insertReplay(ctx context.Context, tx *postgres.Tx, r replay) error {
	_, err := tx.Exec(ctx, sqlInsertReplay, postgres.Args{
		"id": r.ID, argSubscription: r.SubscriptionID, "event_type": r.EventType, "next_id": r.NextID, "until_id": r.UntilID,
	})
	return err
}

const sqlReplays = `
SELECT id
FROM webhook_replays
WHERE org_id = @org_id`

func replaysUnderWay(ctx context.Context, tx *postgres.Tx) ([]replayID, error) {
	return postgres.Many[replayID](ctx, tx, sqlReplays, nil)
}

const sqlLockReplay = `
SELECT id, subscription_id, event_type, next_id, until_id
FROM webhook_replays
WHERE org_id = @org_id
  AND id = @id
FOR UPDATE`

func lockReplay(ctx context.Context, tx *postgres.Tx, id replayID) (replay, error) {
	return postgres.One[replay](ctx, tx, sqlLockReplay, postgres.Args{"id": id})
}

// A delivery that was discarded on purpose is replayed only by its id.
const sqlNotDiscarded = `error_code IS DISTINCT FROM 'discarded'`

const sqlReplayable = `
SELECT id
FROM webhook_deliveries
WHERE org_id = @org_id
  AND troubled
  AND status = 'dead'
  AND ` + sqlNotDiscarded + `
  AND id >= @next_id
  AND id < @until_id
  AND (@subscription_id::uuid IS NULL OR subscription_id = @subscription_id)
  AND (@event_type::text IS NULL OR event_type = @event_type)
ORDER BY id
LIMIT @limit`

// replayable returns the oldest dead deliveries that the replay has not come to yet.
func replayable(ctx context.Context, tx *postgres.Tx, r replay, limit int) ([]DeliveryID, error) {
	return postgres.Many[DeliveryID](ctx, tx, sqlReplayable, postgres.Args{
		"next_id": r.NextID, "until_id": r.UntilID, argSubscription: r.SubscriptionID, "event_type": r.EventType, "limit": limit,
	})
}

const (
	sqlMoveReplay = `
UPDATE webhook_replays
SET next_id = @next_id
WHERE org_id = @org_id
  AND id = @id`
	sqlEndReplay = `
DELETE FROM webhook_replays
WHERE org_id = @org_id
  AND id = @id`
)

func moveReplay(ctx context.Context, tx *postgres.Tx, id replayID, next DeliveryID) error {
	_, err := tx.Exec(ctx, sqlMoveReplay, postgres.Args{"id": id, "next_id": next})
	return err
}

func endReplay(ctx context.Context, tx *postgres.Tx, id replayID) error {
	_, err := tx.Exec(ctx, sqlEndReplay, postgres.Args{"id": id})
	return err
}
