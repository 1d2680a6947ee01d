package accounts

import (
	"context"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

const (
	// registering is how long a registration locks its number. When the next registration finds
	// one that is older and never finished, it asks the provider for the result.
	registering = time.Minute
	// A number takes pinTries PINs within pinWindow, from all callers together, also if it is disconnected and connected again
	// in between: the row of a disconnected account stays that long.
	pinTries  = 5
	pinWindow = time.Hour
	// callTimeout bounds a call whose outcome must be known, whether or not the caller waits.
	callTimeout   = 8 * time.Second
	finishTimeout = 5 * time.Second
)

// Registration is what became of a registration: the account as it is now or the
// provider's refusal, which used up a try and is the answer to a repeated request too.
type Registration struct {
	Account Account
	Refusal *fault.Error
}

// Register connects a number with its two-step verification PIN, or repairs one that is not
// connected. A connected one is left alone. The PIN is kept nowhere.
//
// A registration that never finished may have succeeded: before another PIN is tried, the
// provider is asked.
func (s *Service) Register(ctx context.Context, org orgs.ID, phoneNumberID string, pin provider.PIN) (Registration, error) {
	account, unfinished, err := s.beginRegistration(ctx, org, phoneNumberID, false)
	if err != nil || account.Status == Connected {
		return Registration{Account: account}, err
	}
	number, err := s.Number(org, account)
	if err != nil {
		return Registration{}, err
	}
	// From here on something may happen at the provider: a caller who goes away does not stop it.
	detached := context.WithoutCancel(ctx)
	if unfinished {
		state, err := s.fetch(detached, number)
		switch {
		case err != nil:
			return s.interrupt(detached, org, phoneNumberID, err)
		case state.Status == provider.NumberConnected:
			return s.registered(detached, org, account, number)
		}
		if account, _, err = s.beginRegistration(ctx, org, phoneNumberID, true); err != nil {
			return Registration{}, err
		}
	}
	if err := s.call(detached, func(ctx context.Context) error { return s.provider.Register(ctx, number, pin) }); err != nil {
		return s.unregistered(detached, org, phoneNumberID, err)
	}
	return s.registered(detached, org, account, number)
}

func (s *Service) call(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return do(ctx)
}

func (s *Service) fetch(ctx context.Context, number provider.Number) (state provider.NumberState, err error) {
	err = s.call(ctx, func(ctx context.Context) error {
		state, err = s.provider.FetchNumber(ctx, number)
		return err
	})
	return state, err
}

// beginRegistration locks the number for a while, and counts the try that follows unless the
// provider must be asked first. Asked is true after that: then the number is locked already.
func (s *Service) beginRegistration(ctx context.Context, org orgs.ID, phoneNumberID string, asked bool) (Account, bool, error) {
	unfinished := false
	// The answer is stored with the end of the registration, not with its begin.
	account, err := postgres.InTx(postgres.Apart(ctx), s.db, org, func(tx *postgres.Tx) (Account, error) {
		account, err := lockByNumber(ctx, tx, phoneNumberID)
		if err != nil || account.Status == Connected {
			return account, notFound(err)
		}
		now := s.clock.Now()
		unfinished = account.RegisteringUntil != nil && !asked
		if unfinished && now.Before(*account.RegisteringUntil) {
			return Account{}, fault.New(fault.RegistrationInProgress,
				"A registration of this number is under way. Wait for its answer, at most a minute.")
		}
		if !unfinished {
			if err := account.countTry(now); err != nil {
				return Account{}, err
			}
		}
		account.RegisteringUntil = new(now.Add(registering))
		return account, updateAccount(ctx, tx, account)
	})
	return account, unfinished, err
}

// countTry counts a try, or refuses it when there were too many.
func (a *Account) countTry(now time.Time) error {
	a.PinTriedAt = slices.DeleteFunc(a.PinTriedAt, func(at time.Time) bool { return !at.After(now.Add(-pinWindow)) })
	if len(a.PinTriedAt) < pinTries {
		a.PinTriedAt = append(a.PinTriedAt, now)
		return nil
	}
	wait := slices.MinFunc(a.PinTriedAt, time.Time.Compare).Add(pinWindow).Sub(now)
	refusal := fault.New(fault.RegistrationFailed,
		"%d PINs were tried for this number in the last hour, the most there may be. Try again in %s.", pinTries, wait.Round(time.Second))
	refusal.RetryAfter = wait
	return refusal
}

// countedUntil is how long the newest PIN that was tried counts; zero if none was.
func (a *Account) countedUntil() time.Time {
	if len(a.PinTriedAt) == 0 {
		return time.Time{}
	}
	return slices.MaxFunc(a.PinTriedAt, time.Time.Compare).Add(pinWindow)
}

// registered ends a registration that the provider accepted. When the provider does not answer the
// question for the state, the number counts as connected until the next refresh.
func (s *Service) registered(ctx context.Context, org orgs.ID, account Account, number provider.Number) (Registration, error) {
	at := s.clock.Now()
	state, err := s.fetch(ctx, number)
	sure := err == nil
	subscribed := account.Subscribed
	if !subscribed {
		subscribed = s.call(ctx, func(ctx context.Context) error {
			return s.provider.Subscribe(ctx, provider.BusinessAccount{ID: account.BusinessAccountID, Token: number.Token})
		}) == nil
	}
	return s.endRegistration(ctx, org, number.ID, func(a *Account, now time.Time) *fault.Error {
		a.note(enrolment, "", now)
		if a.DueAt = now.Add(refreshEvery); !sure {
			a.DueAt = now
			a.ProviderStatus, a.Refusal, a.CheckedAt = text(provider.NumberConnected), nil, at
			return nil
		}
		a.learn(state, subscribed, at)
		return nil
	})
}

// unregistered ends a registration that failed: it was refused, or its result is unknown.
func (s *Service) unregistered(ctx context.Context, org orgs.ID, phoneNumberID string, err error) (Registration, error) {
	failed, is := provider.As(err)
	if !is || failed.Class == provider.Retryable || failed.Delivery == provider.Ambiguous {
		return s.interrupt(ctx, org, phoneNumberID, err)
	}
	refusal, is := provider.RegistrationFault(err).(*fault.Error) //nolint:errorlint // it is made there
	if !is {
		return s.interrupt(ctx, org, phoneNumberID, err)
	}
	return s.endRegistration(ctx, org, phoneNumberID, func(a *Account, now time.Time) *fault.Error {
		if failed.Effect == provider.EffectDisconnected {
			a.refuse(refusalOf(failed), now)
		}
		return refusal
	})
}

// endRegistration stores how the registration ended, and unlocks the number.
func (s *Service) endRegistration(
	ctx context.Context, org orgs.ID, phoneNumberID string, end func(*Account, time.Time) *fault.Error,
) (Registration, error) {
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Registration, error) {
		account, err := lockByNumber(ctx, tx, phoneNumberID)
		if err != nil {
			return Registration{}, notFound(err)
		}
		now := s.clock.Now()
		refusal := end(&account, now)
		account.RegisteringUntil, account.UpdatedAt = nil, now
		account.settle(now)
		return Registration{Account: account, Refusal: refusal}, updateAccount(ctx, tx, account)
	})
}

// interrupt ends an attempt with an unknown result. The next one, which may come at once, asks the
// provider first. A request that was surely not sent does not count as a try.
func (s *Service) interrupt(ctx context.Context, org orgs.ID, phoneNumberID string, cause error) (Registration, error) {
	ctx, cancel := context.WithTimeout(postgres.Apart(ctx), finishTimeout)
	defer cancel()
	failed, is := provider.As(cause)
	_, err := postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Account, error) {
		account, err := lockByNumber(ctx, tx, phoneNumberID)
		if err != nil {
			return Account{}, notFound(err)
		}
		account.RegisteringUntil = new(s.clock.Now())
		if is && failed.Operation == "register" && failed.Delivery == provider.NotSent && failed.HTTPStatus == 0 && len(account.PinTriedAt) > 0 {
			account.RegisteringUntil, account.PinTriedAt = nil, account.PinTriedAt[:len(account.PinTriedAt)-1]
		}
		return account, updateAccount(ctx, tx, account)
	})
	if err != nil {
		return Registration{}, err
	}
	return Registration{}, provider.RegistrationFault(cause)
}
