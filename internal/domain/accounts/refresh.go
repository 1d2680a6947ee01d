package accounts

import (
	"context"
	"errors"
	"time"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

const (
	// refreshEvery is how often the provider is asked about a number without a notification of it.
	refreshEvery = time.Hour
	dueAtOnce    = 200
)

// Handle registers the jobs.
func (s *Service) Handle(set *jobs.Set) {
	jobs.Handle(set, func(ctx context.Context, _ int64, args refreshArgs) error {
		_, err := s.Refresh(ctx, args.Org, args.Account)
		return err
	})
	jobs.Handle(set, func(ctx context.Context, _ int64, args purgeArgs) error { return s.purge(ctx, args) })
}

// refreshArgs is the job that asks the provider about a number.
type refreshArgs struct {
	Org     orgs.ID `json:"org"`
	Account ID      `json:"account"`
}

// Kind names the job.
func (refreshArgs) Kind() string { return "accounts_refresh" }

// LookAfter adds a job for each account that is due to be refreshed or purged. Every process may
// call it at any time.
func (s *Service) LookAfter(ctx context.Context) (begun int, err error) {
	return postgres.InSystemTx(ctx, s.work, "accounts that are due", func(tx *postgres.Tx) (int, error) {
		return dueAccounts().AddTx(ctx, tx, s.jobs, s.clock.Now())
	})
}

// Refresh asks the provider about a number and subscribes to its callbacks again if the
// subscription is missing. When the provider does not answer, nothing changes.
func (s *Service) Refresh(ctx context.Context, org orgs.ID, id ID) (Account, error) {
	account, err := accountByID(ctx, s.work.Of(org), id)
	if errors.Is(err, postgres.ErrNoRow) || err == nil && account.PhoneNumberID == nil {
		return account, nil
	}
	if err != nil {
		return Account{}, err
	}
	number, err := s.Number(org, account)
	if err != nil {
		return Account{}, err
	}
	at := s.clock.Now()
	state, subscribed, asked := s.ask(ctx, account, number)
	failed, _ := provider.As(asked)
	if asked != nil && (failed == nil || failed.Class != provider.AccountFault && !failed.Missing) {
		return Account{}, asked
	}
	refreshed, err := postgres.InTx(ctx, s.work, org, func(tx *postgres.Tx) (Account, error) {
		if err := s.equipTx(ctx, tx, account); err != nil { // lanes are locked before accounts
			return Account{}, err
		}
		account, err := lockByID(ctx, tx, id)
		if err != nil {
			return Account{}, err // without an account, the lanes are not made either
		}
		if asked != nil {
			account.refuse(refusalOf(failed), at)
		} else {
			account.learn(state, subscribed, at)
		}
		now := s.clock.Now()
		account.settle(now)
		account.DueAt, account.UpdatedAt = now.Add(refreshEvery), now
		return account, updateAccount(ctx, tx, account)
	})
	if errors.Is(err, postgres.ErrNoRow) {
		return Account{}, nil // it was disconnected meanwhile
	}
	return refreshed, err
}

// ask reads the state of a number, and subscribes to its callbacks if need be.
func (s *Service) ask(
	ctx context.Context, account Account, number provider.Number,
) (state provider.NumberState, subscribed bool, err error) {
	if state, err = s.provider.FetchNumber(ctx, number); err != nil {
		return state, false, err
	}
	business := provider.BusinessAccount{ID: account.BusinessAccountID, Token: number.Token}
	subscribed, err = s.provider.Subscribed(ctx, business)
	if err != nil || subscribed || account.Notices.of(link) != "" { // the business removed our access: do not subscribe again
		return state, subscribed, err
	}
	if err := s.provider.Subscribe(ctx, business); err != nil {
		s.logger.WarnContext(ctx, "accounts.not_subscribed", "account", account.ID, "error", err)
		return state, false, nil
	}
	return state, true, nil
}
