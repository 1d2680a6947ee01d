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
	return s.events.RecordTx(ctx, tx, events.Draft{
		Type: what, At: customer.UpdatedAt, Subject: customer.ID.Any(), Resource: customer.ID.Any(),
		Data: announcement{Customer: customer.Resource()},
	})
}
