package customers

import (
	"context"

	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// announcement is the data of customer.created, customer.updated and customer.archived.
type announcement struct {
	Customer Resource `json:"customer"`
}

// announceTx records an event with the customer as it is after the change, at the time of the change.
func (s *Service) announceTx(ctx context.Context, tx *postgres.Tx, what events.Type, customer Customer) error {
	return s.recordTx(ctx, tx, what, customer, announcement{Customer: customer.Resource()})
}

// AnnounceTx records an event of the customer that another package makes. The caller has locked the customer with ChangeTx,
// which stores the time of the event.
func (s *Service) AnnounceTx(ctx context.Context, tx *postgres.Tx, what events.Type, customer *Customer, data any) error {
	customer.advance(s.clock.Now())
	return s.recordTx(ctx, tx, what, *customer, data)
}

func (s *Service) recordTx(ctx context.Context, tx *postgres.Tx, what events.Type, customer Customer, data any) error {
	return s.events.RecordTx(ctx, tx, events.Draft{
		Type: what, At: customer.LastEventAt, Subject: customer.ID.Any(), Resource: customer.ID.Any(), Data: data,
	})
}
