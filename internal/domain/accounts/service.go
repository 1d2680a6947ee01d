package accounts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/hold"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/sealed"
	"github.com/parley-chat/parley/internal/provider"
)

// Provider is what accounts ask the messaging network.
type Provider interface {
	FetchNumber(ctx context.Context, number provider.Number) (provider.NumberState, error)
	Register(ctx context.Context, number provider.Number, pin provider.PIN) error
	Subscribe(ctx context.Context, to provider.BusinessAccount) error
	Unsubscribe(ctx context.Context, from provider.BusinessAccount) error
	Subscribed(ctx context.Context, to provider.BusinessAccount) (bool, error)
}

// Service is the accounts of one cell.
type Service struct {
	db *postgres.DB
	// work is the pool of jobs.
	work      *postgres.DB
	clock     clock.Clock
	orgs      *orgs.Service
	customers *customers.Service
	audit     *audit.Log
	directory *directory.Branch
	jobs      *jobs.Queue
	hold      *hold.Hold
	box       *sealed.Box
	provider  Provider
	logger    *slog.Logger
	purges    []Purge
	equips    []func(ctx context.Context, tx *postgres.Tx, account Account) error
}

// Deps are the dependencies of the service.
type Deps struct {
	DB, Work  *postgres.DB
	Clock     clock.Clock
	Orgs      *orgs.Service
	Customers *customers.Service
	Audit     *audit.Log
	Directory *directory.Branch
	Jobs      *jobs.Queue
	// Hold refuses to connect numbers while the cell is on hold.
	Hold *hold.Hold
	// Ring opens the provider's tokens, and Provider takes them; without either nothing can
	// be asked of it.
	Ring     *sealed.Keyring
	Provider Provider
	Logger   *slog.Logger
}

// New builds the service.
func New(deps Deps) (*Service, error) {
	s := &Service{
		db: deps.DB, work: deps.Work, clock: deps.Clock, orgs: deps.Orgs, customers: deps.Customers, audit: deps.Audit,
		directory: deps.Directory, jobs: deps.Jobs, hold: deps.Hold, provider: deps.Provider, logger: deps.Logger,
	}
	if deps.Ring == nil {
		return s, nil
	}
	var err error
	s.box, err = deps.Ring.Box("provider tokens")
	return s, err
}

// Find returns the organization's account of a number, whatever its status.
func (s *Service) Find(ctx context.Context, org orgs.ID, phoneNumberID string) (Account, error) {
	account, err := accountByNumber(ctx, s.db.Of(org), phoneNumberID)
	return account, notFound(err)
}

// FindTx is Find in a transaction.
func (s *Service) FindTx(ctx context.Context, tx *postgres.Tx, phoneNumberID string) (Account, error) {
	account, err := accountByNumber(ctx, tx, phoneNumberID)
	return account, notFound(err)
}

// Get returns an account by its own id.
func (s *Service) Get(ctx context.Context, org orgs.ID, id ID) (Account, error) {
	account, err := accountByID(ctx, s.db.Of(org), id)
	return account, notFound(err)
}

// GetTx is Get in a transaction.
func (s *Service) GetTx(ctx context.Context, tx *postgres.Tx, id ID) (Account, error) {
	account, err := accountByID(ctx, tx, id)
	return account, notFound(err)
}

// List returns a page of accounts, newest first.
func (s *Service) List(ctx context.Context, org orgs.ID, filter Filter, slice paging.Slice[ID]) (paging.Page[Account, ID], error) {
	return listAccounts(ctx, s.db.Of(org), filter, slice)
}

// OfCustomer returns every number of a customer, newest first.
func (s *Service) OfCustomer(ctx context.Context, org orgs.ID, customer customers.ID) ([]Account, error) {
	const most = 1000
	page, err := listAccounts(ctx, s.db.Of(org), Filter{CustomerID: &customer}, paging.Slice[ID]{Limit: most})
	return page.Items, err
}

// UnknownTx returns the position of the first number that the organization does not have,
// or -1. The others stay its own until the transaction ends.
func (s *Service) UnknownTx(ctx context.Context, tx *postgres.Tx, numbers []string) (int, error) {
	if len(numbers) == 0 {
		return -1, nil
	}
	known, err := knownNumbers(ctx, tx, numbers)
	if err != nil {
		return -1, err
	}
	has := map[string]bool{}
	for _, number := range known {
		has[number] = true
	}
	for i, number := range numbers {
		if !has[number] {
			return i, nil
		}
	}
	return -1, nil
}

// Holds returns whether the organization has the number in that generation.
func (s *Service) Holds(ctx context.Context, org orgs.ID, phoneNumberID string, generation int64) (bool, error) {
	account, err := accountByNumber(ctx, s.db.Of(org), phoneNumberID)
	if errors.Is(err, postgres.ErrNoRow) {
		return false, nil
	}
	return err == nil && account.Generation == generation, err
}

// HoldTx returns whether the organization has the number in that generation of its route, and if so
// keeps it from being disconnected until the transaction ends. A caller with an older route asks
// the directory again.
func (s *Service) HoldTx(ctx context.Context, tx *postgres.Tx, phoneNumberID string, generation int64) (id ID, held bool, err error) {
	id, err = holdNumber(ctx, tx, phoneNumberID, generation)
	if errors.Is(err, postgres.ErrNoRow) {
		return id, false, nil
	}
	return id, err == nil, err
}

// Number is what calls for the account need: the provider's id and the token.
func (s *Service) Number(org orgs.ID, account Account) (provider.Number, error) {
	token, err := s.open(org, account)
	if err != nil || account.PhoneNumberID == nil {
		return provider.Number{}, errors.Join(err, errNoNumber(account))
	}
	return provider.Number{ID: *account.PhoneNumberID, Token: token}, nil
}

// BusinessAccount is what calls for the whole business account need.
func (s *Service) BusinessAccount(org orgs.ID, account Account) (provider.BusinessAccount, error) {
	token, err := s.open(org, account)
	return provider.BusinessAccount{ID: account.BusinessAccountID, Token: token}, err
}

func errNoNumber(account Account) error {
	if account.PhoneNumberID == nil {
		return fmt.Errorf("account %s has no number yet", account.ID)
	}
	return nil
}

func (s *Service) open(org orgs.ID, account Account) (provider.Token, error) {
	if s.box == nil {
		return provider.Token{}, errors.New("tokens cannot be opened without a master key: set PARLEY_MASTER_KEY")
	}
	token, err := s.box.Open(account.Token, placeOf(org, account.ID))
	if err != nil {
		return provider.Token{}, fmt.Errorf("token of account %s: %w", account.ID, err)
	}
	return provider.NewToken(string(token)), nil
}

func (s *Service) seal(org orgs.ID, id ID, token provider.Token) ([]byte, error) {
	if s.box == nil {
		return nil, errors.New("tokens cannot be sealed without a master key: set PARLEY_MASTER_KEY")
	}
	return s.box.Seal([]byte(token.Reveal()), placeOf(org, id))
}

// CheckSeal opens one token that is sealed under another key than the newest. found is false if there is none.
func (s *Service) CheckSeal(ctx context.Context, all postgres.Scope) (found bool, err error) {
	type row struct {
		OrgID orgs.ID
		ID    ID
		Token []byte
	}
	one, err := postgres.One[row](ctx, all, sqlUnderOlderKey,
		postgres.Args{"newest": s.box.NewestPrefix()})
	if errors.Is(err, postgres.ErrNoRow) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if _, err := s.box.Open(one.Token, placeOf(one.OrgID, one.ID)); err != nil {
		return true, fmt.Errorf("token of account %s: %w", one.ID, sealed.ErrOtherKey)
	}
	return true, nil
}

// resealAtOnce is how many tokens one transaction seals again.
const resealAtOnce = 500

// ResealTx seals tokens of the organization under the newest master key, and returns how many. It returns
// 0 when none is sealed under another key.
func (s *Service) ResealTx(ctx context.Context, tx *postgres.Tx) (int, error) {
	type row struct {
		ID    ID
		Token []byte
	}
	rows, err := postgres.Many[row](ctx, tx, sqlToReseal, postgres.Args{"newest": s.box.NewestPrefix(), "limit": resealAtOnce})
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	for i, one := range rows {
		if rows[i].Token, err = s.box.Reseal(one.Token, placeOf(tx.Org(), one.ID)); err != nil {
			return 0, fmt.Errorf("token of account %s: %w", one.ID, err)
		}
	}
	_, err = tx.Exec(ctx, sqlReseal, postgres.Columns(rows,
		postgres.Col("ids", func(r row) ID { return r.ID }), postgres.Col("tokens", func(r row) []byte { return r.Token })))
	return len(rows), err
}

// placeOf is the associated data that binds a sealed token to its row.
func placeOf(org orgs.ID, id ID) []byte {
	return []byte("accounts " + org.String() + " " + id.String())
}

func newID(now clock.Clock) ID { return ids.NewPlain[kind](now.Now()) }

func notFound(err error) error { return postgres.NotFound(err, "account", "") }
