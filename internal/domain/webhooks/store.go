package webhooks

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// argSubscription is the name of an argument of statements.
const argSubscription = "subscription_id"

const columns = `id, url, description, events, phone_number_ids, status, disabled_reason, backlog_from, version,
    consecutive_failures, failing_since, breaker_step, breaker_until, warned, updated_at`

const sqlInsertSubscription = `
INSERT INTO webhook_subscriptions (org_id, id, url, description, events, phone_number_ids, status, backlog_from, version, updated_at)
VALUES (@org_id, @id, @url, @description, @events, @phone_number_ids, @status, @backlog_from, 0, @updated_at)`

func insertSubscription(ctx context.Context, tx *postgres.Tx, s Subscription) error {
	_, err := tx.Exec(ctx, sqlInsertSubscription, postgres.Args{
		"id": s.ID, "url": s.URL, "description": s.Description, "events": s.Events, "phone_number_ids": s.PhoneNumberIDs,
		"status": s.Status, "backlog_from": s.BacklogFrom, "updated_at": s.UpdatedAt,
	})
	return err
}

const sqlCountSubscriptions = `
SELECT count(*)
FROM webhook_subscriptions
WHERE org_id = @org_id`

const sqlLockSubscriptions = `-- locks: webhook_subscriptions
SELECT pg_advisory_xact_lock(hashtextextended('webhook_subscriptions ' || @org_id::uuid, 0))`

// countSubscriptions takes a lock first, so that two subscriptions that are created at once
// cannot both be the last that is allowed.
func countSubscriptions(ctx context.Context, tx *postgres.Tx) (int, error) {
	if _, err := tx.Exec(ctx, sqlLockSubscriptions, nil); err != nil {
		return 0, err
	}
	return postgres.One[int](ctx, tx, sqlCountSubscriptions, nil)
}

const sqlSubscriptionByID = `
SELECT ` + columns + `
FROM webhook_subscriptions
WHERE org_id = @org_id
  AND id = @id`

func subscriptionByID(ctx context.Context, scope postgres.Scope, id SubscriptionID) (Subscription, error) {
	return postgres.One[Subscription](ctx, scope, sqlSubscriptionByID, postgres.Args{"id": id})
}

func lockSubscription(ctx context.Context, tx *postgres.Tx, id SubscriptionID) (Subscription, error) {
	return postgres.One[Subscription](ctx, tx, sqlSubscriptionByID+` FOR UPDATE`, postgres.Args{"id": id})
}

const sqlListSubscriptions = `
SELECT ` + columns + `
FROM webhook_subscriptions
WHERE org_id = @org_id
  AND id < @after
ORDER BY id DESC
LIMIT @limit`

func listSubscriptions(ctx context.Context, scope postgres.Scope, slice paging.Slice[SubscriptionID]) ([]Subscription, error) {
	after := ids.Ceiling[subscriptionKind]()
	if slice.After != nil {
		after = *slice.After
	}
	return postgres.Many[Subscription](ctx, scope, sqlListSubscriptions, postgres.Args{"after": after, "limit": slice.Limit + 1})
}

const sqlUpdateSubscription = `
UPDATE webhook_subscriptions
SET url = @url,
    description = @description,
    events = @events,
    phone_number_ids = @phone_number_ids,
    status = @status,
    disabled_reason = @disabled_reason,
    backlog_from = @backlog_from,
    version = @version,
    consecutive_failures = @consecutive_failures,
    failing_since = @failing_since,
    breaker_step = @breaker_step,
    breaker_until = @breaker_until,
    warned = @warned,
    updated_at = @updated_at
WHERE org_id = @org_id
  AND id = @id`

func updateSubscription(ctx context.Context, tx *postgres.Tx, s Subscription) error {
	_, err := tx.Exec(ctx, sqlUpdateSubscription, postgres.Args{
		"id": s.ID, "url": s.URL, "description": s.Description, "events": s.Events, "phone_number_ids": s.PhoneNumberIDs,
		"status": s.Status, "disabled_reason": s.DisabledReason, "backlog_from": s.BacklogFrom, "version": s.Version,
		"consecutive_failures": s.ConsecutiveFailures, "failing_since": s.FailingSince, "breaker_step": s.BreakerStep,
		"breaker_until": s.BreakerUntil, "warned": s.Warned, "updated_at": s.UpdatedAt,
	})
	return err
}

const sqlDeleteSubscription = `
DELETE FROM webhook_subscriptions
WHERE org_id = @org_id
  AND id = @id
RETURNING ` + columns

func deleteSubscription(ctx context.Context, tx *postgres.Tx, id SubscriptionID) (Subscription, error) {
	return postgres.One[Subscription](ctx, tx, sqlDeleteSubscription, postgres.Args{"id": id})
}

//nolint:gosec // a statement, no secret
const sqlInsertSecret = `
INSERT INTO webhook_secrets (org_id, subscription_id, id, sealed)
VALUES (@org_id, @of, @id, @sealed)`

func insertSecret(ctx context.Context, tx *postgres.Tx, s Secret) error {
	_, err := tx.Exec(ctx, sqlInsertSecret, postgres.Args{"of": s.SubscriptionID, "id": s.ID, "sealed": s.Sealed})
	return err
}

//nolint:gosec // a statement, no secret
const sqlSecretsOf = `
SELECT subscription_id, id, sealed, expires_at
FROM webhook_secrets
WHERE org_id = @org_id
  AND subscription_id = ANY (@subscriptions)
  AND (expires_at IS NULL OR expires_at > @now)
ORDER BY subscription_id, id`

// secretsOf returns the active secrets of subscriptions, oldest first.
func secretsOf(ctx context.Context, scope postgres.Scope, of []Subscription, now time.Time) (map[SubscriptionID][]Secret, error) {
	asked := make([]SubscriptionID, len(of))
	for i, subscription := range of {
		asked[i] = subscription.ID
	}
	secrets, err := postgres.Many[Secret](ctx, scope, sqlSecretsOf, postgres.Args{"subscriptions": asked, "now": now})
	found := map[SubscriptionID][]Secret{}
	for _, secret := range secrets {
		found[secret.SubscriptionID] = append(found[secret.SubscriptionID], secret)
	}
	return found, err
}

const sqlDeleteExpired = `
DELETE FROM webhook_secrets
WHERE org_id = @org_id
  AND subscription_id = @of
  AND expires_at <= @now`

// deleteExpired deletes the secrets of a subscription that have expired.
func deleteExpired(ctx context.Context, tx *postgres.Tx, id SubscriptionID, now time.Time) error {
	_, err := tx.Exec(ctx, sqlDeleteExpired, postgres.Args{"of": id, "now": now})
	return err
}

//nolint:gosec // a statement, no secret
const sqlExpireSecrets = `
UPDATE webhook_secrets
SET expires_at = least(expires_at, @at)
WHERE org_id = @org_id
  AND subscription_id = @of`

func expireSecrets(ctx context.Context, tx *postgres.Tx, id SubscriptionID, at time.Time) error {
	_, err := tx.Exec(ctx, sqlExpireSecrets, postgres.Args{"of": id, "at": at})
	return err
}

//nolint:gosec // statements, no secrets
const (
	sqlSecretsToReseal = `
SELECT subscription_id, id, sealed, expires_at
FROM webhook_secrets
WHERE org_id = @org_id
  AND substring(sealed FOR length(@newest::bytea)) <> @newest
ORDER BY subscription_id, id
FOR NO KEY UPDATE`
	// Of an organization that moved away, a frozen copy is left for an hour: it does not count.
	sqlUnderOlderKey = `
SELECT s.org_id, s.subscription_id, s.id, s.sealed
FROM webhook_secrets s
JOIN organizations o ON o.org_id = s.org_id AND o.frozen_at IS NULL
WHERE substring(s.sealed FOR length(@newest::bytea)) <> @newest
  AND (s.expires_at IS NULL OR s.expires_at > @now)
LIMIT 1`
	sqlDeleteAllExpired = `
DELETE FROM webhook_secrets
WHERE org_id = @org_id
  AND expires_at <= @now`
	sqlResealSecrets = `
UPDATE webhook_secrets s
SET sealed = given.sealed
FROM unnest(@subscriptions::uuid[], @ids::uuid[], @sealed::bytea[]) AS given (subscription_id, id, sealed)
WHERE s.org_id = @org_id
  AND s.subscription_id = given.subscription_id
  AND s.id = given.id`
)

//nolint:gosec // a statement, no secret
const sqlDeleteSecret = `
DELETE FROM webhook_secrets
WHERE org_id = @org_id
  AND subscription_id = @of
  AND id = @id`

func deleteSecret(ctx context.Context, tx *postgres.Tx, id SubscriptionID, secret SecretID) error {
	_, err := tx.Exec(ctx, sqlDeleteSecret, postgres.Args{"of": id, "id": secret})
	return err
}
