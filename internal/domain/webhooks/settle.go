package webhooks

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const sqlSettleDeliveries = `
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
FROM unnest(
    @ids::uuid[], @statuses::text[], @attempts::smallint[], @ats::timestamptz[], @nexts::timestamptz[], @responses::smallint[],
    @snippets::text[], @durations::integer[], @codes::text[]
) AS o (id, status, attempt, at, next_at, response_status, snippet, duration_ms, error_code)
WHERE d.org_id = @org_id
  AND d.id = o.id
  AND d.id BETWEEN @least AND @greatest`

// An attempt that went well at once needs no row of its own.
const sqlInsertAttempts = `
INSERT INTO webhook_attempts (org_id, id, delivery_id, attempt, response_status, response_body_snippet, duration_ms, error_code)
SELECT @org_id, ulid(o.at), o.id, o.attempt, o.response_status, o.snippet, o.duration_ms, o.error_code
FROM unnest(
    @ids::uuid[], @attempts::smallint[], @ats::timestamptz[], @responses::smallint[], @snippets::text[], @durations::integer[],
    @codes::text[]
) AS o (id, attempt, at, response_status, snippet, duration_ms, error_code)
WHERE o.attempt > 1 OR o.error_code IS NOT NULL`

// settle writes down how attempts ended, and what that means for the subscription.
func (c *courier) settle(ctx context.Context, tx *postgres.Tx, batch *lanes.Batch) error {
	var made []outcome
	var nexts []*time.Time
	for _, result := range batch.Results {
		if one, carried := result.Value.(outcome); carried {
			made = append(made, one)
			var at *time.Time
			if !result.RetryAt.IsZero() {
				at = &result.RetryAt
			}
			nexts = append(nexts, at)
		}
	}
	if len(made) == 0 {
		return nil
	}
	args, plain := columnsOf(made, nexts)
	if _, err := tx.Exec(ctx, sqlSettleDeliveries, args); err != nil {
		return err
	}
	if !plain {
		if _, err := tx.Exec(ctx, sqlInsertAttempts, args); err != nil {
			return err
		}
	}
	return c.judgeTx(ctx, tx, batch, made)
}

// columnsOf turns outcomes on their side, and tells whether all went well at once.
func columnsOf(made []outcome, nexts []*time.Time) (_ postgres.Args, plain bool) {
	count := len(made)
	deliveries, statuses := make([]DeliveryID, count), make([]DeliveryStatus, count)
	attempts, ats := make([]int16, count), make([]time.Time, count)
	responses, snippets, durations, codes := make([]*int16, count), make([]*string, count), make([]int32, count), make([]*string, count)
	plain = true
	least, greatest := ids.Ceiling[deliveryKind](), DeliveryID{}
	for i, one := range made {
		deliveries[i], ats[i] = one.parcel.ID, one.at
		attempts[i] = int16(min(one.parcel.AttemptCount+1, 1<<15-1)) //nolint:gosec // bounded
		durations[i] = int32(one.took.Milliseconds())                //nolint:gosec // seconds
		if one.status != 0 {
			responses[i], snippets[i] = new(int16(one.status)), &one.snippet //nolint:gosec // three digits
		}
		switch {
		case one.succeeded():
			statuses[i] = Succeeded
		case nexts[i] == nil:
			statuses[i] = Dead
		default:
			statuses[i] = Failed
		}
		if !one.succeeded() {
			codes[i] = &one.code
		}
		plain = plain && one.succeeded() && attempts[i] == 1
		if one.parcel.ID.Any().Compare(least.Any()) < 0 {
			least = one.parcel.ID
		}
		if one.parcel.ID.Any().Compare(greatest.Any()) > 0 {
			greatest = one.parcel.ID
		}
	}
	return postgres.Args{
		"ids": deliveries, "statuses": statuses, "attempts": attempts, "ats": ats, "nexts": nexts, "responses": responses,
		"snippets": snippets, "durations": durations, "codes": codes, "least": least, "greatest": greatest,
	}, plain
}

// judgeTx lets the subscription learn from its attempts. One that is well and stays well
// is not touched.
func (c *courier) judgeTx(ctx context.Context, tx *postgres.Tx, batch *lanes.Batch, made []outcome) error {
	known := c.known().health
	if known.learn(made, c.s.clock.Now()) == (verdict{}) {
		return nil
	}
	subscription, err := lockSubscription(ctx, tx, c.id)
	if err != nil {
		return notFound(err)
	}
	now := c.s.clock.Now()
	verdict := subscription.learn(made, now)
	if verdict.disable != "" && subscription.Status != Disabled {
		subscription.Status, subscription.DisabledReason = Disabled, &verdict.disable
		subscription.Version++
		batch.Block(lanes.Forever())
		c.s.logger.WarnContext(ctx, "webhook.disabled", "org", c.org, "subscription", c.id, "reason", verdict.disable)
	} else if verdict.blocked != nil {
		batch.Block(*verdict.blocked)
	}
	if verdict.warn > 0 {
		c.s.logger.WarnContext(ctx, "webhook.failing", "org", c.org, "subscription", c.id,
			"percent_to_disabled", verdict.warn, "consecutive_failures", subscription.ConsecutiveFailures)
	}
	tx.AfterCommit(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.subscription.health = subscription.health
	})
	return updateSubscription(ctx, tx, subscription)
}
