package accounts

import (
	"context"
	"errors"
	"time"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// Connect asks the provider about a number, has its callbacks come to us and makes it the
// organization's. A number that the organization has already gets the new token, and is
// asked about afresh.
func (s *Service) Connect(ctx context.Context, org orgs.ID, by audit.Principal, draft Draft) (Account, error) {
	return s.ConnectWith(ctx, org, by, draft, nil)
}

// ConnectWith is Connect with a step of the caller in the transaction that attaches the number.
func (s *Service) ConnectWith(ctx context.Context, org orgs.ID, by audit.Principal, draft Draft, around Around) (Account, error) {
	if err := draft.check(); err != nil {
		return Account{}, err
	}
	if err := s.hold.Refuse(ctx); err != nil {
		return Account{}, err
	}
	at := s.clock.Now()
	state, err := s.provider.FetchNumber(ctx, provider.Number{ID: draft.PhoneNumberID, Token: draft.Token})
	if err != nil {
		return Account{}, connectFault(err)
	}
	if err := s.provider.Subscribe(ctx, provider.BusinessAccount{ID: draft.BusinessAccountID, Token: draft.Token}); err != nil {
		return Account{}, connectFault(err)
	}
	return s.AttachWith(ctx, org, by, draft, state, at, around)
}

func (d Draft) check() error {
	switch {
	case d.PhoneNumberID == "":
		return fault.Missing("phone_number_id")
	case d.BusinessAccountID == "":
		return fault.Missing("business_account_id")
	case d.Token.Empty():
		return fault.Missing("token")
	default:
		return nil
	}
}

// connectFault says what is wrong with what was given, or that the provider is away.
func connectFault(err error) error {
	failed, is := provider.As(err)
	switch {
	case !is:
		return err
	case failed.Class == provider.Retryable || failed.Class == provider.RateLimited:
		return fault.New(fault.ProviderUpstreamError, "%s Try again in a minute.", failed.Trouble())
	default:
		return fault.New(fault.UpstreamError, "The provider does not let this token in to the number or its business account: %s", failed.Words())
	}
}

// Around runs in the transaction that attaches a number, also of a number that the organization has already. It locks what comes
// before accounts in the order of locks, calls attach once, returns its error unchanged, and then writes what needs the account. It returns
// no other postgres.ErrNoRow: that of attach means that the organization does not have the number. The transaction may run more
// than once.
type Around func(ctx context.Context, tx *postgres.Tx, attach func() (Account, error)) (Account, error)

// Attach makes a number the organization's, as the provider described it at a time: claimed
// in the directory, written here. Its callbacks must come to us already.
func (s *Service) Attach(
	ctx context.Context, org orgs.ID, by audit.Principal, draft Draft, state provider.NumberState, at time.Time,
) (Account, error) {
	return s.AttachWith(ctx, org, by, draft, state, at, nil)
}

// AttachWith is Attach with a step of the caller in the same transaction; nil is none.
func (s *Service) AttachWith(
	ctx context.Context, org orgs.ID, by audit.Principal, draft Draft, state provider.NumberState, at time.Time, around Around,
) (Account, error) {
	if around == nil {
		around = func(_ context.Context, _ *postgres.Tx, attach func() (Account, error)) (Account, error) {
			return attach()
		}
	}
	account, err := s.reattach(ctx, org, by, draft, state, at, around)
	if !errors.Is(err, postgres.ErrNoRow) {
		return account, err
	}
	id := newID(s.clock)
	token, err := s.seal(org, id, draft.Token)
	if err != nil {
		return Account{}, err
	}
	err = s.directory.ClaimNumber(ctx, draft.PhoneNumberID, draft.BusinessAccountID, org, func(ctx context.Context, generation int64) error {
		account, err = postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Account, error) {
			made := Account{
				ID: id, BusinessAccountID: draft.BusinessAccountID, PhoneNumberID: &draft.PhoneNumberID, Token: token, Generation: generation,
			}
			return around(ctx, tx, func() (Account, error) { return s.attachTx(ctx, tx, by, draft, made, state, at) })
		})
		return err
	})
	if errors.Is(err, directory.ErrTaken) {
		return Account{}, inUse(draft)
	}
	return account, err
}

// inUse does not say which organization has the number.
func inUse(draft Draft) error {
	return fault.New(fault.AlreadyExists, "The number %s is connected already. Disconnect it where it is first.", draft.PhoneNumberID)
}

// equipTx makes what every account needs and does not have yet.
func (s *Service) equipTx(ctx context.Context, tx *postgres.Tx, account Account) error {
	for _, equip := range s.equips {
		if err := equip(ctx, tx, account); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) attachTx(
	ctx context.Context, tx *postgres.Tx, by audit.Principal, draft Draft, account Account, state provider.NumberState, at time.Time,
) (Account, error) {
	if err := s.ownTx(ctx, tx, draft, &account); err != nil {
		return Account{}, err
	}
	account.note(enrolment, "", at) // a late callback about an earlier connection of the number is older
	account.settleAt(state, at, s.clock.Now())
	var err error
	if account.PinTriedAt, err = pinsTriedBefore(ctx, tx, draft.PhoneNumberID); err != nil {
		return Account{}, err
	}
	if err := insertAccount(ctx, tx, account); err != nil {
		return Account{}, err
	}
	if err := s.equipTx(ctx, tx, account); err != nil {
		return Account{}, err
	}
	return account, s.audit.RecordTx(ctx, tx, by, "account.connected", account.ID.String(), nil)
}

// settleAt takes over an answer of the provider's.
func (a *Account) settleAt(state provider.NumberState, at, now time.Time) {
	a.learn(state, true, at)
	a.DueAt, a.UpdatedAt = now.Add(refreshEvery), now
	a.settle(now)
}

// reattach renews a number that the organization has. A working token connects it again, whatever
// disconnected it before.
func (s *Service) reattach(
	ctx context.Context, org orgs.ID, by audit.Principal, draft Draft, state provider.NumberState, at time.Time, around Around,
) (Account, error) {
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Account, error) {
		return around(ctx, tx, func() (Account, error) { return s.reattachTx(ctx, tx, by, draft, state, at) })
	})
}

func (s *Service) reattachTx(
	ctx context.Context, tx *postgres.Tx, by audit.Principal, draft Draft, state provider.NumberState, at time.Time,
) (Account, error) {
	account, err := lockByNumber(ctx, tx, draft.PhoneNumberID)
	if err != nil {
		return Account{}, err
	}
	same := (account.CustomerID == nil) == (draft.CustomerID == nil) &&
		(account.CustomerID == nil || *account.CustomerID == *draft.CustomerID)
	if !same || account.BusinessAccountID != draft.BusinessAccountID {
		return Account{}, inUse(draft)
	}
	if account.Token, err = s.seal(tx.Org(), account.ID, draft.Token); err != nil {
		return Account{}, err
	}
	account.note(link, "", at)
	account.settleAt(state, at, s.clock.Now())
	if err := updateAccount(ctx, tx, account); err != nil {
		return Account{}, err
	}
	return account, s.audit.RecordTx(ctx, tx, by, "account.reconnected", account.ID.String(), nil)
}

// ownTx says whose the number is: a customer's is in its team, one of the organization's
// own in the team that was named.
func (s *Service) ownTx(ctx context.Context, tx *postgres.Tx, draft Draft, account *Account) (err error) {
	if draft.CustomerID == nil {
		account.TeamID, err = s.orgs.TeamTx(ctx, tx, draft.TeamID)
		return err
	}
	customer, err := s.customers.GetTx(ctx, tx, *draft.CustomerID)
	if fault.Of(err) == fault.ResourceNotFound {
		return fault.NotFound("customer").At("customer_id")
	}
	account.TeamID, account.CustomerID = customer.TeamID, draft.CustomerID
	account.CustomerName, account.CustomerStatus = &customer.Name, &customer.Status
	return err
}
