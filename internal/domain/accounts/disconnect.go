package accounts

import (
	"context"
	"errors"
	"time"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

const (
	// disconnectTries and disconnectPause are how often, and after which pause, a request looks again for a number that
	// another request is giving back.
	disconnectTries = 20
	disconnectPause = 50 * time.Millisecond
)

// Disconnect removes a number: nothing is sent or received for it from now on, it may be connected
// elsewhere, and a job purges all its data. When a customer is given, the number must be that
// customer's. If another request is removing the number, Disconnect waits for its result.
func (s *Service) Disconnect(
	ctx context.Context, org orgs.ID, by audit.Principal, phoneNumberID string, customer *customers.ID,
) (Account, error) {
	for range disconnectTries {
		account, err := s.disconnect(ctx, org, by, phoneNumberID, customer)
		if !errors.Is(err, directory.ErrChanged) {
			return account, err
		}
		if err := s.awaitOther(ctx, org, phoneNumberID); err != nil {
			return Account{}, err
		}
	}
	return Account{}, fault.Unavailable(time.Second, directory.ErrChanged)
}

func (s *Service) disconnect(
	ctx context.Context, org orgs.ID, by audit.Principal, phoneNumberID string, customer *customers.ID,
) (Account, error) {
	account, err := s.Find(ctx, org, phoneNumberID)
	if err != nil {
		return Account{}, err
	}
	if customer != nil && (account.CustomerID == nil || *account.CustomerID != *customer) {
		return Account{}, fault.NotFound("account")
	}
	err = s.directory.Release(ctx, directory.PhoneNumber, []byte(phoneNumberID), org, account.Generation, func(ctx context.Context) error {
		account, err = postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Account, error) {
			return s.disconnectTx(ctx, tx, by, account.ID)
		})
		return err
	})
	return account, err
}

// awaitOther waits for the request that is giving the number back: for the row that it locks, and for a moment if it has not
// locked it yet. It returns the error of a number that is gone then.
func (s *Service) awaitOther(ctx context.Context, org orgs.ID, phoneNumberID string) error {
	_, err := postgres.InTx(postgres.Apart(ctx), s.db, org, func(tx *postgres.Tx) (Account, error) {
		account, err := lockByNumber(ctx, tx, phoneNumberID)
		return account, notFound(err)
	})
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(disconnectPause):
		return nil
	}
}

func (s *Service) disconnectTx(ctx context.Context, tx *postgres.Tx, by audit.Principal, id ID) (Account, error) {
	account, err := lockByID(ctx, tx, id)
	if err != nil {
		return Account{}, notFound(err)
	}
	now := s.clock.Now()
	account.Status, account.StatusReason = Disconnected, text("disconnected")
	// The job begins at once; should it get lost, the account is found due.
	account.DueAt, account.UpdatedAt, account.DeletedAt = now.Add(refreshEvery), now, &now
	account.RegisteringUntil = nil
	if err := updateAccount(ctx, tx, account); err != nil {
		return Account{}, err
	}
	if _, err := s.jobs.AddTx(ctx, tx, jobs.Job{Queue: jobs.Maintenance, Args: purgeArgs{Org: tx.Org(), Account: id}}); err != nil {
		return Account{}, err
	}
	return account, s.audit.RecordTx(ctx, tx, by, "account.disconnected", id.String(), nil)
}

// Purge removes what belongs to a disconnected account, a part at a time. It may be called again after it
// failed, and once more after it succeeded. A postgres.MoreError means that its time was over: the next call gets
// the id in it as from, which is zero at first. A purge that finds its rows by an index need not read from.
type Purge func(ctx context.Context, org orgs.ID, account Account, from ids.Any) error

// OnPurge adds what else belongs to accounts; what points to other things is added before
// them. Only wiring calls it.
func (s *Service) OnPurge(purges ...Purge) { s.purges = append(s.purges, purges...) }

// Equip adds verbs that make what every account needs, such as its lanes. They are called in the
// transaction that connects a number, and again at every refresh, because a process of an older version
// may have connected it: they must leave alone what exists. Only wiring calls Equip.
func (s *Service) Equip(verbs ...func(ctx context.Context, tx *postgres.Tx, account Account) error) {
	s.equips = append(s.equips, verbs...)
}

// purgeArgs is the job that purges a disconnected account.
type purgeArgs struct {
	Org     orgs.ID `json:"org"`
	Account ID      `json:"account"`
	// Step is the purge to go on with, and From the id that it goes on from.
	Step int     `json:"step,omitempty"`
	From ids.Any `json:"from,omitzero"`
	// Last is true in the round that began when no request could write for the number any more.
	Last bool `json:"last,omitempty"`
}

// Kind names the job.
func (purgeArgs) Kind() string { return "accounts_purge" }

// strayFor is how long a request that began before the number was disconnected may still write
// rows for it; no statement takes as long.
const strayFor = time.Minute

// purge runs the purges one after another. Once its turn is over, another job goes on. A second round deletes
// what was written while the first one began.
func (s *Service) purge(ctx context.Context, args purgeArgs) error {
	account, err := deletedByID(ctx, s.work.Of(args.Org), args.Account)
	if errors.Is(err, postgres.ErrNoRow) {
		return nil
	}
	if err != nil {
		return err
	}
	quietAt := account.DeletedAt.Add(strayFor)
	if args.Step == 0 && args.From.IsZero() {
		args.Last = !s.clock.Now().Before(quietAt)
	}
	ctx = postgres.WithBudget(ctx, jobs.Turn)
	for ; args.Step < len(s.purges); args.Step, args.From = args.Step+1, (ids.Any{}) {
		err := s.purges[args.Step](ctx, args.Org, account, args.From)
		if more, is := errors.AsType[*postgres.MoreError](err); is {
			args.From = more.After
			return s.addPurge(ctx, args, time.Time{})
		}
		if err != nil {
			return err
		}
	}
	if !args.Last {
		return s.addPurge(ctx, purgeArgs{Org: args.Org, Account: args.Account}, quietAt)
	}
	s.unsubscribe(ctx, args.Org, account)
	if until := account.countedUntil(); s.clock.Now().Before(until) {
		return s.addPurge(ctx, args, until) // a number that is connected again keeps its count of PINs
	}
	_, err = postgres.InTx(ctx, s.work, args.Org, func(tx *postgres.Tx) (ID, error) {
		return account.ID, deleteAccount(ctx, tx, account.ID)
	})
	return err
}

func (s *Service) addPurge(ctx context.Context, args purgeArgs, at time.Time) error {
	_, err := postgres.InTx(ctx, s.work, args.Org, func(tx *postgres.Tx) ([]int64, error) {
		return s.jobs.AddTx(ctx, tx, jobs.Job{Queue: jobs.Maintenance, Args: args, At: at})
	})
	return err
}

// unsubscribe ends the callbacks of a business account of which no organization has a number any
// more. A failure is only logged: callbacks that still come have no owner, and a number that is
// connected again is subscribed again.
func (s *Service) unsubscribe(ctx context.Context, org orgs.ID, account Account) {
	others, err := s.directory.OrgsOfBusinessAccount(ctx, account.BusinessAccountID)
	if err != nil || len(others) > 0 {
		return
	}
	business, err := s.BusinessAccount(org, account)
	if err == nil {
		err = s.provider.Unsubscribe(ctx, business)
	}
	if failed, is := provider.As(err); is && (failed.Class == provider.AccountFault || failed.Missing) {
		return // we have no access any more, so there is no subscription either
	}
	if err != nil {
		s.logger.WarnContext(ctx, "accounts.not_unsubscribed", "account", account.ID, "error", err)
	}
}
