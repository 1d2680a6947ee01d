package webhooks

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Deliveries are inserted by domain/events/store.go, where events are recorded, and by
// store_replays.go, which also reads dead deliveries. store_timeline.go reads those of a message. All other statements
// on webhook_deliveries and webhook_attempts are in this file.

const deliveryColumns = `id, subscription_id, event_id, event_key, event_type, subject_id, status, attempt_count, last_attempt_at,
    next_attempt_at, response_status, response_body_snippet, duration_ms, error_code, replayed_from`

// floor is the least id that the filter may match.
func (f Filter) floor(now time.Time) DeliveryID {
	oldest := now.Add(-kept)
	if f.CreatedAfter != nil && f.CreatedAfter.After(oldest) {
		oldest = f.CreatedAfter.Add(time.Millisecond)
	}
	return ids.Floor[deliveryKind](oldest)
}

// where lists only the conditions that the filter sets, so that the planner can choose the index of each
// combination. indexed are those that an index serves: on an event, on the deliveries that failed, on a
// subscription, or on all. others are checked on each row. The floor excludes partitions that are past their time.
func (f Filter) where(now time.Time) (indexed, others string, args postgres.Args) {
	indexed, others, args = `org_id = @org_id AND id >= @floor`, `true`, postgres.Args{"floor": f.floor(now)}
	chosen := false
	with := func(index bool, condition, name string, value any) {
		args[name] = value
		if index && !chosen {
			indexed, chosen = indexed+` AND `+condition, true
		} else {
			others += ` AND ` + condition
		}
	}
	if f.CreatedBefore != nil {
		indexed, args["before"] = indexed+` AND id < @before`, ids.Floor[deliveryKind](*f.CreatedBefore)
	}
	if f.EventKey != nil {
		with(true, `event_key = @event_key`, "event_key", *f.EventKey)
	}
	if f.Status != nil && (*f.Status == Failed || *f.Status == Dead) {
		with(true, `troubled`, "status", *f.Status)
	}
	if f.Status != nil {
		with(false, `status = @status`, "status", *f.Status)
	}
	if f.SubscriptionID != nil {
		with(true, `subscription_id = @subscription_id`, argSubscription, *f.SubscriptionID)
	}
	if f.EventType != nil {
		with(false, `event_type = @event_type`, "event_type", *f.EventType)
	}
	return indexed, others, args
}

// walkedDelivery is a delivery that a Walk read.
type walkedDelivery struct {
	Delivery
	paging.Mark
}

func listDeliveries(
	ctx context.Context, scope postgres.Scope, filter Filter, slice paging.Slice[DeliveryID], now time.Time,
) (paging.Page[Delivery, DeliveryID], error) {
	indexed, others, args := filter.where(now)
	walk := paging.Walk{
		Columns: deliveryColumns, Order: `id DESC`, Filter: others,
		Rows: `
    SELECT ` + deliveryColumns + `, troubled
    FROM webhook_deliveries
    WHERE ` + indexed + ` AND id < @after`,
	}
	return paging.ReadWalk(ctx, scope, walk.SQL(), args, slice,
		func(w walkedDelivery) Delivery { return w.Delivery }, func(d Delivery) DeliveryID { return d.ID })
}

// countReplayable counts the deliveries of subscriptions that are not disabled, without those that were discarded.
func countReplayable(ctx context.Context, tx *postgres.Tx, filter Filter, now time.Time) (int, error) {
	indexed, others, args := filter.where(now)
	return postgres.One[int](ctx, tx, `
SELECT count(*)
FROM webhook_deliveries d
WHERE `+indexed+`
  AND `+others+`
  AND `+sqlNotDiscarded+`
  AND EXISTS (
      SELECT FROM webhook_subscriptions s
      WHERE s.org_id = @org_id AND s.id = d.subscription_id AND s.status <> 'disabled')`, args)
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

const sqlBody = `
SELECT body
FROM events
WHERE org_id = @org_id
  AND id = @id`

// bodyOf returns the posted bytes, or nil if the event has expired: a replay is newer than its event
// and is kept longer.
func bodyOf(ctx context.Context, scope postgres.Scope, delivery Delivery) ([]byte, error) {
	body, err := postgres.One[[]byte](ctx, scope, sqlBody, postgres.Args{"id": delivery.EventID})
	if errors.Is(err, postgres.ErrNoRow) {
		return nil, nil
	}
	return body, err
}

const sqlAttempts = `
SELECT id, attempt, response_status, response_body_snippet, duration_ms, error_code
FROM webhook_attempts
WHERE org_id = @org_id
  AND delivery_id = @delivery_id
  AND id >= @floor
ORDER BY attempt, id`

func attemptsOf(ctx context.Context, scope postgres.Scope, id DeliveryID) ([]Attempt, error) {
	return postgres.Many[Attempt](ctx, scope, sqlAttempts,
		postgres.Args{"delivery_id": id, "floor": ids.Floor[attemptKind](id.CreatedAt())})
}

// LATERAL with LIMIT 1 has each row read by its primary key: a plan that joins whole tables
// would scan events while their statistics are old. The subquery of the version runs once.
const sqlOutgoing = `
SELECT d.id, d.attempt_count, d.event_id, d.event_key, d.event_type, e.body,
       (SELECT s.version FROM webhook_subscriptions s WHERE s.org_id = @org_id AND s.id = @subscription_id) AS version
FROM unnest(@ids::uuid[]) AS asked (id)
CROSS JOIN LATERAL (
    SELECT d.id, d.attempt_count, d.event_id, d.event_key, d.event_type
    FROM webhook_deliveries d
    WHERE d.org_id = @org_id AND d.id = asked.id
    LIMIT 1
) d
CROSS JOIN LATERAL (
    SELECT e.body
    FROM events e
    WHERE e.org_id = @org_id AND e.id = d.event_id
    LIMIT 1
) e`

// outgoingDeliveries reads what sending needs, and whether the subscription has changed.
func outgoingDeliveries(ctx context.Context, scope postgres.Scope, of SubscriptionID, asked []ids.Any) ([]outgoing, error) {
	return postgres.Many[outgoing](ctx, scope, sqlOutgoing, postgres.Args{"ids": asked, argSubscription: of})
}

const (
	// LIMIT makes the planner look up each delivery by its primary key (ADR 15). A delivery that was discarded during its attempt has no
	// row in the lane any more: a failure would promise a retry that never comes.
	sqlSettleDeliveries = `
UPDATE webhook_deliveries d
SET status = o.status,
    troubled = o.status IN ('failed', 'dead'),
    attempt_count = o.attempt,
    last_attempt_at = o.at,
    next_attempt_at = o.next_at,
    response_status = o.response_status,
    response_body_snippet = o.snippet,
    duration_ms = o.duration_ms,
    error_code = o.error_code
FROM (
    SELECT @org_id::uuid AS org_id, *
    FROM unnest(
        @ids::uuid[], @statuses::text[], @attempts::smallint[], @ats::timestamptz[], @nexts::timestamptz[], @responses::smallint[],
        @snippets::text[], @durations::integer[], @codes::text[]
    ) AS given (id, status, attempt, at, next_at, response_status, snippet, duration_ms, error_code)
    LIMIT @count
) AS o
WHERE d.org_id = o.org_id
  AND d.id = o.id
  AND d.id BETWEEN @least AND @greatest
  AND (o.status = 'succeeded' OR d.error_code IS DISTINCT FROM 'discarded')`

	// A first attempt that succeeds gets no row in webhook_attempts: the row of the delivery already has
	// all its fields.
	sqlInsertAttempts = `
INSERT INTO webhook_attempts (org_id, id, delivery_id, attempt, response_status, response_body_snippet, duration_ms, error_code)
SELECT @org_id, ulid(o.at), o.id, o.attempt, o.response_status, o.snippet, o.duration_ms, o.error_code
FROM unnest(
    @ids::uuid[], @attempts::smallint[], @ats::timestamptz[], @responses::smallint[], @snippets::text[], @durations::integer[],
    @codes::text[]
) AS o (id, attempt, at, response_status, snippet, duration_ms, error_code)
WHERE o.attempt > 1 OR o.error_code IS NOT NULL`
)

// settleDeliveries writes the outcomes of attempts.
func settleDeliveries(ctx context.Context, tx *postgres.Tx, made []outcome) error {
	args, allAtOnce := columnsOf(made)
	if _, err := tx.Exec(ctx, sqlSettleDeliveries, args); err != nil || allAtOnce {
		return err
	}
	_, err := tx.Exec(ctx, sqlInsertAttempts, args)
	return err
}

// columnsOf turns outcomes into one array for each column, for unnest, and tells whether all
// succeeded at the first attempt. The least and the greatest id bound the partitions to read.
func columnsOf(made []outcome) (_ postgres.Args, allAtOnce bool) {
	count := len(made)
	deliveries, statuses := make([]DeliveryID, count), make([]DeliveryStatus, count)
	attempts, ats, nexts := make([]int16, count), make([]time.Time, count), make([]*time.Time, count)
	responses, snippets, durations, codes := make([]*int16, count), make([]*string, count), make([]int32, count), make([]*string, count)
	allAtOnce = true
	for i, one := range made {
		deliveries[i], statuses[i], ats[i], nexts[i] = one.delivery.ID, one.deliveryStatus(), one.at, one.retryAt
		attempts[i] = int16(min(one.delivery.AttemptCount+1, 1<<15-1)) //nolint:gosec // bounded
		durations[i] = int32(one.took.Milliseconds())                  //nolint:gosec // seconds
		if one.status != 0 {
			responses[i], snippets[i] = new(int16(one.status)), &one.snippet //nolint:gosec // three digits
		}
		if !one.succeeded() {
			codes[i] = &one.code
		}
		allAtOnce = allAtOnce && one.succeeded() && attempts[i] == 1
	}
	byID := func(a, b DeliveryID) int { return a.Any().Compare(b.Any()) }
	return postgres.Args{
		"ids": deliveries, "statuses": statuses, "attempts": attempts, "ats": ats, "nexts": nexts, "responses": responses,
		"snippets": snippets, "durations": durations, "codes": codes, "count": count,
		"least": slices.MinFunc(deliveries, byID), "greatest": slices.MaxFunc(deliveries, byID),
	}, allAtOnce
}

// As sqlSettleDeliveries.
const sqlKill = `
UPDATE webhook_deliveries d
SET status = 'dead', troubled = true, next_attempt_at = NULL, error_code = @code
FROM (SELECT @org_id::uuid AS org_id, id FROM unnest(@ids::uuid[]) AS id LIMIT @count) AS o
WHERE d.org_id = o.org_id
  AND d.id = o.id
  AND d.status IN ('pending', 'failed')`

// killDeliveries makes pending and failed deliveries dead.
func killDeliveries(ctx context.Context, tx *postgres.Tx, deliveries []DeliveryID, code string) error {
	_, err := tx.Exec(ctx, sqlKill, postgres.Args{"ids": deliveries, "code": code, "count": len(deliveries)})
	return err
}

const (
	// A portion of the deliveries of a subscription, of which the pending and failed ones end. No index has the status, so that a
	// portion bounds how many deliveries are read, and not how many end.
	sqlRead = `
WITH walked AS MATERIALIZED (
    SELECT id, status IN ('pending', 'failed') AS waits
    FROM webhook_deliveries
    WHERE org_id = @org_id
      AND subscription_id = @subscription_id
      AND id > @after
      AND id < @before
    ORDER BY id
    LIMIT 10 * @limit
), ended AS (`
	sqlForget = sqlRead + `
    DELETE FROM webhook_deliveries` + sqlWaiting
	sqlDiscard = sqlRead + `
    UPDATE webhook_deliveries
    SET status = 'dead', troubled = true, next_attempt_at = NULL, error_code = '` + codeDiscarded + `'` + sqlWaiting

	// A delivery that is received at this moment stays received: the status is compared again once its lock is free.
	sqlWaiting = `
    WHERE org_id = @org_id
      AND id = ANY (ARRAY (SELECT id FROM walked WHERE waits))
      AND status IN ('pending', 'failed')
)
SELECT id FROM walked ORDER BY id DESC LIMIT 1`
)

func forgetDeliveries(ctx context.Context, db *postgres.DB, args forgetArgs) error {
	sql := sqlForget
	if args.Discard {
		sql = sqlDiscard
	}
	return postgres.DeleteInPortions(ctx, db, args.Org, sql,
		postgres.Args{argSubscription: args.Subscription, "before": args.Before, "after": args.After})
}

// No index serves the number of an event: each portion reads the next events of the organization, whatever
// their number. This does not delete lane rows. When the lane comes to one, `read` finds no delivery and
// answers it, so that it leaves the lane.
const sqlPurge = `-- locks: events, webhook_deliveries, webhook_attempts
WITH walked AS MATERIALIZED (
    SELECT id, key, phone_number_id = @phone_number_id AS ours
    FROM events
    WHERE org_id = @org_id
      AND id > @after
      AND id < @before
    ORDER BY id
    LIMIT 10 * @limit
), doomed AS MATERIALIZED (
    SELECT id, key FROM walked WHERE ours
)` + sqlDeleteEvents + `
SELECT id FROM walked ORDER BY id DESC LIMIT 1`

func purgeNumber(ctx context.Context, db *postgres.DB, org orgs.ID, number string, before DeliveryID, after ids.Any) error {
	return postgres.DeleteInPortions(ctx, db, org, sqlPurge, postgres.Args{"phone_number_id": number, "before": before, "after": after})
}
