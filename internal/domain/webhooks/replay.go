package webhooks

import (
	"context"

	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// A replay is a new delivery of the same event, behind what just happened.
const sqlReplay = `
WITH chosen AS (
    SELECT given.id, d.id AS replayed_from, d.subscription_id, d.event_id, d.event_key, d.event_type, d.subject_id
    FROM unnest(@ids::uuid[], @from::uuid[]) AS given (id, replayed_from)
    JOIN webhook_deliveries d ON d.org_id = @org_id AND d.id = given.replayed_from
    JOIN webhook_subscriptions s ON s.org_id = @org_id AND s.id = d.subscription_id AND s.status <> 'disabled'
    JOIN events e ON e.org_id = @org_id AND e.id = d.event_id
), delivered AS (
    INSERT INTO webhook_deliveries
        (org_id, id, subscription_id, event_id, event_key, event_type, subject_id, status, next_attempt_at, replayed_from)
    SELECT @org_id, id, subscription_id, event_id, event_key, event_type, subject_id, 'pending', @now, replayed_from FROM chosen
), waiting AS (
    ` + lanes.Adding + `
    SELECT subscription_id, 1, @now, id, subject_id FROM chosen
)
` + lanes.Touched + `
WHERE lane_id IN (SELECT subscription_id FROM chosen)`

// replayTx makes deliveries in the order of those they repeat.
func (s *Service) replayTx(ctx context.Context, tx *postgres.Tx, from ...DeliveryID) ([]DeliveryID, error) {
	now := s.clock.Now()
	made := make([]DeliveryID, len(from))
	for i := range made {
		made[i] = ids.New[deliveryKind](now)
	}
	return made, s.lanes.AddedTx(ctx, tx, laneKind, sqlReplay, postgres.Args{"ids": made, "from": from, "now": now})
}

// Replay delivers the same event to the same subscription once more.
func (s *Service) Replay(ctx context.Context, org orgs.ID, id DeliveryID) (Delivery, error) {
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Delivery, error) {
		delivery, err := deliveryByID(ctx, tx, id)
		if err != nil {
			return Delivery{}, err
		}
		if err := deliverable(ctx, tx, delivery.SubscriptionID); err != nil {
			return Delivery{}, err
		}
		made, err := s.replayTx(ctx, tx, id)
		if err != nil {
			return Delivery{}, err
		}
		return deliveryByID(ctx, tx, made[0])
	})
}

// deliverable refuses subscriptions that were disabled or are gone.
func deliverable(ctx context.Context, tx *postgres.Tx, id SubscriptionID) error {
	subscription, err := subscriptionByID(ctx, tx, id)
	if err != nil {
		return notFound(err)
	}
	if subscription.Status == Disabled {
		return disabled(subscription)
	}
	return nil
}

// An example is recorded for one subscription, whatever that subscribes to.
const sqlTest = events.RecordingOne + `, matched AS (
    SELECT ulid(e.at) AS id, @subscription_id::uuid AS subscription_id, e.id AS event_id, e.key, e.type, e.subject_id, e.at
    FROM given e
)` + sqlDeliverMatched

const sqlDeliveryOfEvent = `
SELECT ` + deliveryColumns + `
FROM webhook_deliveries
WHERE org_id = @org_id
  AND event_key = @event_key
  AND event_id = @event_id`

// Test sends an example event to the endpoint, signed like a real one.
func (s *Service) Test(ctx context.Context, org orgs.ID, id SubscriptionID, example events.Draft) (Delivery, error) {
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Delivery, error) {
		if err := deliverable(ctx, tx, id); err != nil {
			return Delivery{}, err
		}
		event, err := example.Internal(s.clock.Now())
		if err != nil {
			return Delivery{}, err
		}
		args := events.Values(event)
		args["subscription_id"] = id
		if err := s.lanes.AddedTx(ctx, tx, laneKind, sqlTest, args); err != nil {
			return Delivery{}, err
		}
		return postgres.One[Delivery](ctx, tx, sqlDeliveryOfEvent, postgres.Args{"event_key": event.Key, "event_id": event.ID})
	})
}

// ReplayDead delivers dead deliveries again. It counts them here and leaves the rest to a
// job, which goes slowly enough for what happens meanwhile.
func (s *Service) ReplayDead(ctx context.Context, org orgs.ID, draft ReplayDraft) (Replayed, error) {
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Replayed, error) {
		if draft.SubscriptionID != nil {
			if _, err := subscriptionByID(ctx, tx, *draft.SubscriptionID); err != nil {
				return Replayed{}, at(notFound(err), "subscription_id")
			}
		}
		dead := Dead
		filter := Filter{
			SubscriptionID: draft.SubscriptionID, EventType: draft.EventType, Status: &dead,
			CreatedAfter: draft.CreatedAfter, CreatedBefore: draft.CreatedBefore,
		}
		where, args := filter.where(s.clock.Now())
		matched, err := postgres.One[int](ctx, tx, `
SELECT count(*)
FROM webhook_deliveries d
WHERE `+where+sqlOfEnabled, args)
		if err != nil || matched == 0 || draft.DryRun {
			return Replayed{Matched: matched}, err
		}
		return Replayed{Matched: matched, Replayed: matched}, s.beginReplayTx(ctx, tx, filter)
	})
}

const sqlOfEnabled = `
  AND EXISTS (
      SELECT FROM webhook_subscriptions s
      WHERE s.org_id = @org_id AND s.id = d.subscription_id AND s.status <> 'disabled')`

// at names the field that a refusal is about.
func at(err error, param string) error {
	if refusal, is := err.(*fault.Error); is { //nolint:errorlint // made just above
		return refusal.At(param)
	}
	return err
}
