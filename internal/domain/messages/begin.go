package messages

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

type task = lanes.Task[*outgoing, outcome]

// begin writes that attempts begin, before any of them is called. The same statement reads
// everything that may have changed since a message was accepted. A message whose last attempt has
// no known result gets no new attempt from it: resendTx decides about such messages.
func (w *sender) begin(ctx context.Context, tx *postgres.Tx, tasks []*task) error {
	now := w.s.clock.Now()
	rows, err := beginAttempts(ctx, tx, w.id, lanes.RowIDs(tasks), now)
	if err != nil {
		return err
	}
	found := make(map[ids.Any]*begun, len(rows))
	for i := range rows {
		found[rows[i].ID.Any()] = &rows[i]
	}
	if err := w.beginReceipts(ctx, tx, tasks, found, now); err != nil {
		return err
	}
	if err := w.findUploads(ctx, tx, rows); err != nil {
		return err
	}
	for _, task := range tasks {
		row := found[task.Row.ID]
		if row == nil {
			continue // a receipt, or gone: beginReceipts has handled it
		}
		task.Value = &row.outgoing
		if err := w.judge(ctx, tx, task, row, now); err != nil {
			return err
		}
	}
	return nil
}

// judge answers a message that is not to be called now.
func (w *sender) judge(ctx context.Context, tx *postgres.Tx, task *task, row *begun, now time.Time) error {
	switch {
	case row.ContactLeft, row.Status != Queued && row.Status != Pending:
		task.Answer(lanes.Answer[outcome]{}) // it is being erased, or a callback has proved it
		return nil
	case !row.Begun:
		wait, err := w.resendTx(ctx, tx, row, now)
		if err != nil {
			return err
		}
		if !wait.IsZero() {
			task.Answer(lanes.Answer[outcome]{RetryAt: wait})
			return nil
		}
	default:
		row.Attempt, row.BegunAt, row.Status = row.Attempt+1, &now, Pending
	}
	if row.refusal == nil {
		account, err := w.currentTx(ctx, tx, row.Version)
		if err != nil {
			return err
		}
		row.refusal, row.number = row.refused(account, now), w.called()
	}
	if row.refusal != nil {
		task.Answer(lanes.Answer[outcome]{})
	}
	return nil
}

// currentTx is the account as it is now: it is read again when its row has another version.
func (w *sender) currentTx(ctx context.Context, tx *postgres.Tx, version string) (accounts.Account, error) {
	account, known := w.known()
	if known == version {
		return account, nil
	}
	account, err := w.s.accounts.GetTx(ctx, tx, w.id)
	if err != nil {
		return account, err
	}
	return account, w.learn(account, version)
}

// begun is a message as beginAttempts found it: with the state before its update.
type begun struct {
	outgoing

	// Begun says that the attempt was written. False: the previous attempt still has an unknown result.
	Begun bool
	// ContactLeft says that the contact is being erased.
	ContactLeft bool
	Marketing   contacts.Marketing
	// Wrote says that the contact wrote to the number before.
	Wrote bool
	// Version changes with the row of the account.
	Version            string
	CooldownUntil      *time.Time
	CustomerStatus     *customers.Status
	SubscriptionStatus orgs.Subscription
	TrialEndsAt        *time.Time
	SuspendedAt        *time.Time
	RequireOptIn       bool
}

// refused says why a message that was accepted may not be sent now, or nil.
func (b *begun) refused(from accounts.Account, now time.Time) *fault.Error {
	standing := orgs.Standing{SubscriptionStatus: b.SubscriptionStatus, TrialEndsAt: b.TrialEndsAt, SuspendedAt: b.SuspendedAt}
	if err := standing.Refuses(); err != nil {
		return fault.As(err)
	}
	if err := standing.RefusesWrites(now); err != nil {
		return fault.As(err)
	}
	from.CustomerStatus = b.CustomerStatus
	if refusal := first(refusedByNumber(from, b.Type, b.Category, now)); refusal != nil {
		return refusal
	}
	if refusal := refusedByCoolDown(b.CooldownUntil, now); refusal != nil {
		return refusal
	}
	if refusal := b.refusedByFile(); refusal != nil || !isMarketing(b.Type, b.Category) {
		return refusal
	}
	return first(refusedByRecipient(recipient{Marketing: b.Marketing, Wrote: b.Wrote}, b.RequireOptIn))
}
