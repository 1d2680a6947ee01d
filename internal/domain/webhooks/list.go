package webhooks

import (
	"context"
	"errors"
	"time"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const deliveryColumns = `id, subscription_id, event_id, event_key, event_type, subject_id, status, attempt_count, last_attempt_at,
    next_attempt_at, response_status, response_body_snippet, duration_ms, error_code, replayed_from`

// Deliveries returns a page of deliveries, newest first.
func (s *Service) Deliveries(
	ctx context.Context, org orgs.ID, filter Filter, slice paging.Slice[DeliveryID],
) (paging.Page[Delivery, DeliveryID], error) {
	where, args := filter.where(s.clock.Now())
	if slice.After != nil {
		where, args["after"] = where+` AND id < @after`, *slice.After
	}
	args["limit"] = slice.Limit + 1
	rows, err := postgres.Many[Delivery](ctx, s.db.Of(org), `
SELECT `+deliveryColumns+`
FROM webhook_deliveries
WHERE `+where+`
ORDER BY id DESC
LIMIT @limit`, args)
	return paging.Cut(rows, slice.Limit, func(d Delivery) DeliveryID { return d.ID }), err
}

// kept is how long deliveries are listed.
const kept = 30 * 24 * time.Hour

// where names the conditions that were asked for and no others, so that each combination
// finds its index. The floor keeps partitions out that are past their time.
func (f Filter) where(now time.Time) (string, postgres.Args) {
	where, args := `org_id = @org_id AND id >= @floor`, postgres.Args{}
	floor := now.Add(-kept)
	if f.CreatedAfter != nil && f.CreatedAfter.After(floor) {
		floor = f.CreatedAfter.Add(time.Millisecond)
	}
	args["floor"] = ids.Floor[deliveryKind](floor)
	if f.CreatedBefore != nil {
		where, args["before"] = where+` AND id < @before`, ids.Floor[deliveryKind](*f.CreatedBefore)
	}
	if f.SubscriptionID != nil {
		where, args["subscription_id"] = where+` AND subscription_id = @subscription_id`, *f.SubscriptionID
	}
	if f.EventType != nil {
		where, args["event_type"] = where+` AND event_type = @event_type`, *f.EventType
	}
	if f.EventKey != nil {
		where, args["event_key"] = where+` AND event_key = @event_key`, *f.EventKey
	}
	if f.Status != nil {
		where, args["status"] = where+` AND status = @status`, *f.Status
		if *f.Status == Failed || *f.Status == Dead {
			where += ` AND troubled`
		}
	}
	return where, args
}

const sqlDeliveryByID = `
SELECT ` + deliveryColumns + `
FROM webhook_deliveries
WHERE org_id = @org_id
  AND id = @id`

func deliveryByID(ctx context.Context, scope postgres.Scope, id DeliveryID) (Delivery, error) {
	delivery, err := postgres.One[Delivery](ctx, scope, sqlDeliveryByID, postgres.Args{"id": id})
	if errors.Is(err, postgres.ErrNoRow) {
		return delivery, fault.NotFound("webhook delivery")
	}
	return delivery, err
}

const (
	sqlBody = `
SELECT body
FROM events
WHERE org_id = @org_id
  AND id = @id`
	sqlAttempts = `
SELECT id, attempt, response_status, response_body_snippet, duration_ms, error_code
FROM webhook_attempts
WHERE org_id = @org_id
  AND delivery_id = @delivery_id
  AND id >= @floor
ORDER BY attempt, id`
)

// Delivery returns one delivery with its payload and its attempts.
func (s *Service) Delivery(ctx context.Context, org orgs.ID, id DeliveryID) (Detail, error) {
	scope := s.db.Of(org)
	delivery, err := deliveryByID(ctx, scope, id)
	if err != nil {
		return Detail{}, err
	}
	detail := Detail{Delivery: delivery}
	detail.Body, err = postgres.One[[]byte](ctx, scope, sqlBody, postgres.Args{"id": delivery.EventID})
	if err != nil && !errors.Is(err, postgres.ErrNoRow) { // a replay may outlive its event
		return Detail{}, err
	}
	detail.Attempts, err = postgres.Many[Attempt](ctx, scope, sqlAttempts,
		postgres.Args{"delivery_id": id, "floor": ids.Floor[attemptKind](id.CreatedAt())})
	if err == nil && len(detail.Attempts) == 0 && delivery.LastAttemptAt != nil {
		only := Attempt{ID: ids.New[attemptKind](*delivery.LastAttemptAt), Attempt: delivery.AttemptCount, answered: delivery.answered}
		detail.Attempts = []Attempt{only} // it went well at once
	}
	return detail, err
}
