package accounts

import (
	"context"
	"strconv"
	"time"

	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// NotifiedTx applies a notification about a business account, or one of its numbers, to the
// organization's accounts that it concerns. It reports whether the notification is of that kind.
// Applying a notification again, or late, changes nothing.
func (s *Service) NotifiedTx(ctx context.Context, tx *postgres.Tx, said provider.Notification) (handled bool, err error) {
	apply := s.consequence(said)
	if apply == nil {
		return false, nil
	}
	concerned, err := lockConcerned(ctx, tx, said)
	if err != nil {
		return true, err
	}
	now := s.clock.Now()
	for _, account := range concerned {
		apply(&account)
		account.settle(now)
		// The account is refreshed soon: a notification is a hint, the provider's answer is the truth.
		account.DueAt, account.UpdatedAt = now, now
		if err := updateAccount(ctx, tx, account); err != nil {
			return true, err
		}
	}
	return true, nil
}

// consequence is what a notification changes, or nil when it is not about accounts.
func (s *Service) consequence(said provider.Notification) func(*Account) {
	at := said.At
	if at.IsZero() {
		at = s.clock.Now()
	}
	switch item := said.Item.(type) {
	case provider.AccountUpdate:
		return func(a *Account) { a.update(item, at) }
	case provider.AccountReview:
		return func(a *Account) { a.note(review, item.Decision, at) }
	case provider.Capability:
		return func(a *Account) { a.note(messagingLimit, limitText(item.DailyLimit), at) }
	case provider.NumberQuality:
		return func(a *Account) { a.note(messagingLimit, limitText(item.DailyLimit), at) }
	case provider.NumberName:
		if !item.Approved {
			return func(*Account) {}
		}
		return func(a *Account) { a.note(displayName, item.Name, at) }
	case provider.AccountAlert, provider.NumberSecurity, provider.NumberUsername:
		return func(*Account) {} // nothing is stored, but the account is refreshed
	default:
		return nil
	}
}

// update notes what happened to the business account.
func (a *Account) update(item provider.AccountUpdate, at time.Time) {
	switch item.Change {
	case provider.AccountAdded, provider.AccountConnected:
		a.note(link, "", at)
	case provider.AccountDisconnected:
		a.note(link, item.Reason, at)
	case provider.AccountDisabled:
		a.note(ban, item.Reason, at)
	case provider.AccountReinstated:
		a.note(ban, "", at)
	case provider.AccountRestricted:
		for _, restricted := range item.Restrictions {
			until := forever
			if !restricted.ExpiresAt.IsZero() {
				until = restricted.ExpiresAt.UTC().Format(time.RFC3339)
			}
			a.note(restriction+string(restricted.Scope), until, at)
		}
	case provider.AccountWarned, provider.AccountNoChange:
	}
}

// limitText is a daily limit as it is stored: a number, "unlimited", or empty when not known.
func limitText(limit provider.DailyLimit) string {
	switch {
	case limit == 0:
		return ""
	case limit < 0:
		return "unlimited"
	default:
		return strconv.Itoa(int(limit))
	}
}

// FailedTx notes what a failed call, or a failed callback, says about the number itself: its token is invalid, or it must
// be registered again. At is when the provider said so: what was learnt later stays. The account is refreshed soon.
func (s *Service) FailedTx(ctx context.Context, tx *postgres.Tx, id ID, failed *provider.Error, at time.Time) error {
	if failed.Effect != provider.EffectDisconnected && failed.Effect != provider.EffectDegraded {
		return nil
	}
	account, err := lockByID(ctx, tx, id)
	if err != nil {
		return notFound(err)
	}
	if failed.Effect == provider.EffectDegraded {
		account.note(enrolment, "registration_required", at)
	} else {
		account.refuse(refusalOf(failed), at)
	}
	now := s.clock.Now()
	account.settle(now)
	account.DueAt, account.UpdatedAt = now, now
	return updateAccount(ctx, tx, account)
}

// CoolDownTx notes until when the provider refuses every message of the number.
func (s *Service) CoolDownTx(ctx context.Context, tx *postgres.Tx, id ID, until time.Time) error {
	account, err := lockByID(ctx, tx, id)
	if err != nil {
		return notFound(err)
	}
	account.CooldownUntil, account.UpdatedAt = &until, s.clock.Now()
	return updateAccount(ctx, tx, account)
}

// refusalOf is the status_reason of a number that the provider refuses to show us.
func refusalOf(failed *provider.Error) string {
	switch {
	case failed.Code == provider.AuthExpired:
		return "token_invalid"
	case failed.Missing:
		return "number_missing"
	default:
		return "permission_revoked"
	}
}
