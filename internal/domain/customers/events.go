package customers

import (
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// announcement is the data of customer.created, customer.updated and customer.archived.
type announcement struct {
	Customer Resource `json:"customer"`
}

// announceTx records what the customer has become, at the time of that change.
func (s *Service) announceTx(tx *postgres.Tx, what events.Type, customer Customer) error {
	return s.events.RecordTx(tx, events.Draft{
		Type: what, At: customer.UpdatedAt, Subject: customer.ID.Any(), Data: announcement{Customer: customer.Resource()},
	})
}
