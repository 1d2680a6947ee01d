package webhooks

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// settleTx writes how attempts ended, in the order in which they ended, and updates the
// health of the subscription. It returns until when the lane is to be blocked; zero: not at all.
func (w *sender) settleTx(ctx context.Context, tx *postgres.Tx, made []outcome) (blocked time.Time, err error) {
	if len(made) == 0 {
		return time.Time{}, nil
	}
	if err := settleDeliveries(ctx, tx, made); err != nil {
		return time.Time{}, err
	}
	return w.updateHealthTx(ctx, tx, made)
}

// updateHealthTx writes to the subscription only if its health changes, so that deliveries
// that succeed lock no row of it.
func (w *sender) updateHealthTx(ctx context.Context, tx *postgres.Tx, made []outcome) (blocked time.Time, err error) {
	health := w.known().health
	if health.learn(made, w.s.clock.Now()) == (verdict{}) {
		return time.Time{}, nil
	}
	subscription, err := lockSubscription(ctx, tx, w.id)
	if err != nil {
		return time.Time{}, notFound(err)
	}
	verdict := subscription.learn(made, w.s.clock.Now())
	if verdict.blocked != nil {
		blocked = *verdict.blocked
	}
	if verdict.disable != "" && subscription.Status != Disabled {
		subscription.Status, subscription.DisabledReason = Disabled, &verdict.disable
		subscription.Version++
		blocked = lanes.Forever()
		w.s.logger.WarnContext(ctx, "webhook.disabled", "org", w.org, "subscription", w.id, "reason", verdict.disable)
	}
	if verdict.warn > 0 {
		w.s.logger.WarnContext(ctx, "webhook.failing", "org", w.org, "subscription", w.id,
			"percent_to_disabled", verdict.warn, "consecutive_failures", subscription.ConsecutiveFailures)
	}
	tx.AfterCommit(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.subscription.health = subscription.health
	})
	return blocked, updateSubscription(ctx, tx, subscription)
}
