package setuplinks

import (
	"context"
	"errors"
	"strings"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// Provider is what setup links ask the messaging network.
type Provider interface {
	SignupURL(dialog provider.SignupDialog) string
	ExchangeCode(ctx context.Context, code provider.SignupCode) (provider.Grant, error)
	InspectToken(ctx context.Context, token provider.Token) (provider.TokenState, error)
	ListNumbers(ctx context.Context, of provider.BusinessAccount) ([]provider.NumberState, error)
}

// Service is the setup links of one cell.
type Service struct {
	Deps
}

// Deps are the dependencies of the service.
type Deps struct {
	DB        *postgres.DB
	Clock     clock.Clock
	Orgs      *orgs.Service
	Customers *customers.Service
	Accounts  *accounts.Service
	Audit     *audit.Log
	Directory *directory.Branch
	// Provider is nil in commands that never call it.
	Provider Provider
	// PublicURL is where people reach the pages behind the links.
	PublicURL string
}

// New builds the service. Archiving a customer revokes its links.
func New(deps Deps) *Service {
	deps.PublicURL = strings.TrimRight(deps.PublicURL, "/")
	s := &Service{Deps: deps}
	deps.Customers.OnArchive(func(ctx context.Context, tx *postgres.Tx, customer customers.ID) error {
		return revokeAll(ctx, tx, customer, s.Clock.Now())
	})
	return s
}

// Create makes a link for a customer and returns its URL, which is never shown again.
func (s *Service) Create(ctx context.Context, org orgs.ID, by audit.Principal, customer customers.ID, draft Draft) (Created, error) {
	now := s.Clock.Now()
	if err := draft.normalize(now); err != nil {
		return Created{}, err
	}
	// Checked before the claim, so that a refusal leaves no claim in the directory.
	known, err := s.Customers.Get(ctx, org, customer)
	if err != nil {
		return Created{}, err
	}
	if err := refuseArchived(known); err != nil {
		return Created{}, err
	}
	token := newToken()
	hash, _ := Hash(token)
	made := Created{
		Link: Link{
			ID: ids.New[kind](now), CustomerID: customer, Status: Active, TokenLast4: token[len(token)-4:], ExpiresAt: *draft.ExpiresAt,
			SuccessRedirectURL: draft.SuccessRedirectURL, FailureRedirectURL: draft.FailureRedirectURL,
		},
		SetupURL: s.PublicURL + "/setup/" + token,
	}
	err = s.Directory.Claim(ctx, directory.SetupToken, hash, org, func(ctx context.Context, _ int64) error {
		_, err := postgres.InTx(ctx, s.DB, org, func(tx *postgres.Tx) (Created, error) { return made, s.createTx(ctx, tx, by, made.Link, hash) })
		return err
	})
	return made, err
}

func (s *Service) createTx(ctx context.Context, tx *postgres.Tx, by audit.Principal, link Link, hash []byte) error {
	_, err := s.Customers.ChangeTx(ctx, tx, link.CustomerID, func(customer *customers.Customer) error {
		if err := refuseArchived(*customer); err != nil {
			return err
		}
		if err := insertLink(ctx, tx, link, hash); err != nil {
			return err
		}
		return s.Customers.AnnounceTx(ctx, tx, events.SetupLinkCreated, customer, created{CustomerID: customer.ID, SetupLink: link.Resource()})
	})
	if err != nil {
		return err
	}
	return s.Audit.RecordTx(ctx, tx, by, "setup_link.created", link.ID.String(), map[string]any{forCustomer: link.CustomerID.String()})
}

func refuseArchived(customer customers.Customer) error {
	if customer.Status != customers.Archived {
		return nil
	}
	return fault.New(fault.CustomerArchived, "The customer is archived: restore it before you create a setup link for it.")
}

// Get returns one link of a customer.
func (s *Service) Get(ctx context.Context, org orgs.ID, customer customers.ID, id ID) (Link, error) {
	link, err := linkOfCustomer(ctx, s.DB.Of(org), customer, id, s.Clock.Now())
	return link, notFound(err)
}

// List returns a page of a customer's links, newest first.
func (s *Service) List(ctx context.Context, org orgs.ID, customer customers.ID, slice paging.Slice[ID]) (paging.Page[Link, ID], error) {
	if _, err := s.Customers.Get(ctx, org, customer); err != nil {
		return paging.Page[Link, ID]{}, err
	}
	return listLinks(ctx, s.DB.Of(org), customer, slice, s.Clock.Now())
}

// Update changes the redirects of an active link.
func (s *Service) Update(ctx context.Context, org orgs.ID, customer customers.ID, id ID, change Patch) (Link, error) {
	if err := change.check(); err != nil {
		return Link{}, err
	}
	return s.change(ctx, org, customer, id, func(_ *postgres.Tx, link *Link) error {
		link.apply(change)
		return nil
	})
}

// Revoke ends an active link. No event follows.
func (s *Service) Revoke(ctx context.Context, org orgs.ID, by audit.Principal, customer customers.ID, id ID) (Link, error) {
	return s.change(ctx, org, customer, id, func(tx *postgres.Tx, link *Link) error {
		link.Status, link.RevokedAt = Revoked, new(s.Clock.Now())
		return s.Audit.RecordTx(ctx, tx, by, "setup_link.revoked", id.String(), map[string]any{forCustomer: customer.String()})
	})
}

// change locks an active link, runs the verb and stores the link.
func (s *Service) change(
	ctx context.Context, org orgs.ID, customer customers.ID, id ID, verb func(*postgres.Tx, *Link) error,
) (Link, error) {
	return postgres.InTx(ctx, s.DB, org, func(tx *postgres.Tx) (Link, error) {
		link, err := lockLink(ctx, tx, customer, id, s.Clock.Now())
		if err != nil {
			return Link{}, notFound(err)
		}
		if err := link.requireActive(); err != nil {
			return Link{}, err
		}
		if err := verb(tx, &link); err != nil {
			return Link{}, err
		}
		return link, updateLink(ctx, tx, link)
	})
}

// Holds tells whether the organization has a link whose token has that hash.
func (s *Service) Holds(ctx context.Context, org orgs.ID, hash []byte) (bool, error) {
	_, err := linkByHash(ctx, s.DB.Of(org), hash, s.Clock.Now())
	if errors.Is(err, postgres.ErrNoRow) {
		return false, nil
	}
	return err == nil, err
}

func notFound(err error) error { return postgres.NotFound(err, "setup link", "") }
