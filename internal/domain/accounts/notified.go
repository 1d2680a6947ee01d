package accounts

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// NotifiedTx applies what the provider said of a business account or of one of its numbers
// to the organization's accounts that it concerns. It tells whether that is what the
// notification is about; applying it again, or late, changes nothing.
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
		// The provider is asked soon: a notification is a hint, its answer is the truth.
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
		return func(a *Account) { a.note(review, strings.ToLower(item.Decision), at) }
	case provider.Capability:
		return func(a *Account) { a.note(messagingLimit, tier(item.DailyConversations), at) }
	case provider.NumberQuality:
		return func(a *Account) { a.note(messagingLimit, item.Limit, at) }
	case provider.NumberName:
		if item.Decision != "APPROVED" {
			return func(*Account) {}
		}
		return func(a *Account) { a.note(displayName, item.Name, at) }
	case provider.AccountAlert, provider.NumberSecurity, provider.NumberUsername:
		return func(*Account) {} // nothing that is kept, but worth a look
	default:
		return nil
	}
}

// update follows the fate of the business account.
func (a *Account) update(item provider.AccountUpdate, at time.Time) {
	disables := item.Event == "DISABLED_UPDATE"
	switch item.Change {
	case provider.AccountAdded, provider.AccountConnected:
		a.note(link, "", at)
	case provider.AccountDisconnected:
		if disables {
			a.note(ban, "account_disabled", at)
		} else {
			a.note(link, wordOf(item), at)
		}
	case provider.AccountReinstated:
		a.note(ban, "", at)
	case provider.AccountRestricted:
		for _, restricted := range item.Restrictions {
			until := forever
			if !restricted.ExpiresAt.IsZero() {
				until = restricted.ExpiresAt.UTC().Format(time.RFC3339)
			}
			a.note(restriction+restricted.Type+"/"+string(restricted.Covers), until, at)
		}
	case provider.AccountWarned, provider.AccountNoChange:
	}
}

// wordOf is an event as a reason: PARTNER_REMOVED is partner_removed, and with its own
// reason partner_removed_companion_inactivity.
func wordOf(item provider.AccountUpdate) string {
	word := strings.ToLower(item.Event)
	if item.InitiatedBy != "" && item.Reason != "" {
		word += "_" + strings.ToLower(item.Reason)
	}
	return word
}

// tier is a daily limit in the words that the provider has for it elsewhere.
func tier(daily int) string {
	const thousand = 1000
	switch {
	case daily == 0:
		return ""
	case daily < 0:
		return "TIER_UNLIMITED"
	case daily >= thousand && daily%thousand == 0:
		return "TIER_" + strconv.Itoa(daily/thousand) + "K"
	default:
		return "TIER_" + strconv.Itoa(daily)
	}
}

// FailedTx notes what a failed call said of the number itself: that its token is of no use
// any more, or that it must be registered again. The provider is asked soon.
func (s *Service) FailedTx(ctx context.Context, tx *postgres.Tx, id ID, failed *provider.Error) error {
	if failed.Effect != provider.EffectDisconnected && failed.Effect != provider.EffectDegraded {
		return nil
	}
	account, err := lockByID(ctx, tx, id)
	if err != nil {
		return notFound(err)
	}
	now := s.clock.Now()
	if failed.Effect == provider.EffectDegraded {
		account.note(enrolment, "registration_required", now)
	} else {
		account.refuse(refusalOf(failed), now)
	}
	account.settle(now)
	account.DueAt, account.UpdatedAt = now, now
	return updateAccount(ctx, tx, account)
}

// refusalOf is why the provider does not let us in, in a word.
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
