package customers

import (
	"context"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Service is the customers of one cell.
type Service struct {
	db     *postgres.DB
	clock  clock.Clock
	orgs   *orgs.Service
	events *events.Log
	audit  *audit.Log
	// onArchive are functions that run in the transaction that archives a customer.
	onArchive []func(ctx context.Context, tx *postgres.Tx, id ID) error
}

// New builds the service.
func New(db *postgres.DB, clock clock.Clock, orgs *orgs.Service, events *events.Log, audit *audit.Log) *Service {
	return &Service{db: db, clock: clock, orgs: orgs, events: events, audit: audit}
}

// OnArchive adds a function that runs in the transaction that archives a customer. Only wiring calls it.
func (s *Service) OnArchive(do func(ctx context.Context, tx *postgres.Tx, id ID) error) {
	s.onArchive = append(s.onArchive, do)
}

// Create adds a customer to a team. It is pending until it connects a number.
func (s *Service) Create(ctx context.Context, org orgs.ID, draft Draft) (Customer, error) {
	if err := draft.check(); err != nil {
		return Customer{}, err
	}
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Customer, error) {
		team, err := s.orgs.TeamTx(ctx, tx, draft.TeamID)
		if err != nil {
			return Customer{}, err
		}
		now := s.clock.Now()
		customer := Customer{
			ID: ids.New[kind](now), TeamID: team, Name: draft.Name, Email: draft.Email,
			Status: Pending, Metadata: draft.Metadata, UpdatedAt: now, LastEventAt: now,
		}
		if err := insertCustomer(ctx, tx, customer); err != nil {
			return Customer{}, err
		}
		return customer, s.announceTx(ctx, tx, events.CustomerCreated, customer)
	})
}

// Get returns one customer.
func (s *Service) Get(ctx context.Context, org orgs.ID, id ID) (Customer, error) {
	customer, err := customerByID(ctx, s.db.Of(org), id)
	return customer, notFound(err)
}

// GetTx is Get in a transaction. The customer cannot change until the transaction ends.
func (s *Service) GetTx(ctx context.Context, tx *postgres.Tx, id ID) (Customer, error) {
	customer, err := holdCustomer(ctx, tx, id)
	return customer, notFound(err)
}

// List returns a page of customers, newest first, archived ones included.
func (s *Service) List(ctx context.Context, org orgs.ID, filter Filter, slice paging.Slice[ID]) (paging.Page[Customer, ID], error) {
	return listCustomers(ctx, s.db.Of(org), filter, slice)
}

// Update changes a customer; a patch that changes nothing records no event. A patch that also
// archives makes two changes with an event each: customer.updated shows the former status,
// customer.archived follows a millisecond later.
func (s *Service) Update(ctx context.Context, org orgs.ID, id ID, change Patch) (Customer, error) {
	if err := change.check(); err != nil {
		return Customer{}, err
	}
	return s.change(ctx, org, id, func(tx *postgres.Tx, customer *Customer) error {
		if err := customer.refuses(change); err != nil {
			return err
		}
		if customer.apply(change, s.clock.Now()) {
			if err := s.announceTx(ctx, tx, events.CustomerUpdated, *customer); err != nil {
				return err
			}
		}
		if !change.archives() {
			return nil
		}
		return s.archiveTx(ctx, tx, customer)
	})
}

// Archive ends a customer: nothing is sent for it any more, its data stays. Archiving again
// records no event.
func (s *Service) Archive(ctx context.Context, org orgs.ID, id ID) (Customer, error) {
	return s.change(ctx, org, id, func(tx *postgres.Tx, customer *Customer) error { return s.archiveTx(ctx, tx, customer) })
}

func (s *Service) archiveTx(ctx context.Context, tx *postgres.Tx, customer *Customer) error {
	if !customer.archive(s.clock.Now()) {
		return nil
	}
	for _, do := range s.onArchive {
		if err := do(ctx, tx, customer.ID); err != nil {
			return err
		}
	}
	return s.announceTx(ctx, tx, events.CustomerArchived, *customer)
}

// Restore gives an archived customer the status that it had before; a customer that is not
// archived stays as it is.
func (s *Service) Restore(ctx context.Context, org orgs.ID, by audit.Principal, id ID) (Customer, error) {
	return s.change(ctx, org, id, func(tx *postgres.Tx, customer *Customer) error {
		if !customer.restore(s.clock.Now()) {
			return nil
		}
		if err := s.announceTx(ctx, tx, events.CustomerUpdated, *customer); err != nil {
			return err
		}
		return s.audit.RecordTx(ctx, tx, by, "customer.restored", id.String(), map[string]any{"status": customer.Status})
	})
}

func (s *Service) change(ctx context.Context, org orgs.ID, id ID, verb func(*postgres.Tx, *Customer) error) (Customer, error) {
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Customer, error) {
		return s.ChangeTx(ctx, tx, id, func(customer *Customer) error { return verb(tx, customer) })
	})
}

// ChangeTx locks a customer, runs the verb and stores the customer if the verb announced something. Every change is
// announced.
func (s *Service) ChangeTx(ctx context.Context, tx *postgres.Tx, id ID, verb func(*Customer) error) (Customer, error) {
	customer, err := lockCustomer(ctx, tx, id)
	if err != nil {
		return Customer{}, notFound(err)
	}
	before := customer.LastEventAt
	if err := verb(&customer); err != nil {
		return Customer{}, err
	}
	if customer.LastEventAt.Equal(before) {
		return customer, nil
	}
	return customer, updateCustomer(ctx, tx, customer)
}

func notFound(err error) error { return postgres.NotFound(err, "customer", "") }
