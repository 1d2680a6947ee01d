package webhooks

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Each key is looked up alone, in the order of the ids, so that a limit ends the look-up. With = ANY (@keys) all
// deliveries of all keys would be read and sorted, and bulk replays make any number of them.
const sqlDeliveriesOfKeys = `
SELECT ` + deliveryColumns + `
FROM unnest(@keys::text[]) AS asked (key)
CROSS JOIN LATERAL (
    SELECT ` + deliveryColumns + `
    FROM webhook_deliveries
    WHERE org_id = @org_id AND event_key = asked.key AND id >= @floor
    ORDER BY id
    LIMIT @limit
) AS d
ORDER BY id
LIMIT @limit`

func deliveriesOfKeys(ctx context.Context, scope postgres.Scope, keys []string, since time.Time, limit int) ([]Delivery, error) {
	return postgres.Many[Delivery](ctx, scope, sqlDeliveriesOfKeys,
		postgres.Args{"keys": keys, "floor": ids.Floor[deliveryKind](since), "limit": limit})
}

const (
	// Each delivery is looked up alone. With = ANY (@ids) and the order by id, the planner reads all attempts of the
	// organization in that order.
	sqlAttemptsOfAll = `
SELECT delivery_id, id, attempt, response_status, response_body_snippet, duration_ms, error_code
FROM unnest(@ids::uuid[]) AS asked (delivery)
CROSS JOIN LATERAL (
    SELECT delivery_id, id, attempt, response_status, response_body_snippet, duration_ms, error_code
    FROM webhook_attempts
    WHERE org_id = @org_id AND delivery_id = asked.delivery AND id >= @floor
    ORDER BY attempt
    LIMIT @limit
) AS a
ORDER BY id
LIMIT @limit`
	sqlEndpoints = `
SELECT id, url, status, breaker_until
FROM unnest(@ids::uuid[]) AS asked (subscription)
CROSS JOIN LATERAL (
    SELECT id, url, status, breaker_until FROM webhook_subscriptions WHERE org_id = @org_id AND id = asked.subscription OFFSET 0
) AS s`
)

type endpointRow struct {
	ID           SubscriptionID
	URL          string
	Status       Status
	BreakerUntil *time.Time
}

// attemptsAndEndpoints reads what belongs to deliveries since a time, in one round trip.
func attemptsAndEndpoints(
	ctx context.Context, scope postgres.Scope, of []Delivery, since time.Time, limit int,
) (attempts []DeliveryAttempt, endpoints []endpointRow, err error) {
	troubled, subscriptions := []DeliveryID{}, map[SubscriptionID]bool{}
	for _, delivery := range of {
		subscriptions[delivery.SubscriptionID] = true
		if delivery.AttemptCount > 1 || delivery.AttemptCount == 1 && delivery.Status != Succeeded {
			troubled = append(troubled, delivery.ID)
		}
	}
	err = postgres.Batch(ctx, scope,
		postgres.IntoMany(&attempts, sqlAttemptsOfAll, postgres.Args{
			"ids": troubled, "floor": ids.Floor[attemptKind](since), "limit": limit,
		}),
		postgres.IntoMany(&endpoints, sqlEndpoints, postgres.Args{"ids": slices.Collect(maps.Keys(subscriptions))}))
	return attempts, endpoints, err
}
