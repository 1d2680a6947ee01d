package setuplinks

import (
	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/customers"
)

// created is the data of customer.setup_link.created.
type created struct {
	CustomerID customers.ID `json:"customer_id"`
	SetupLink  Resource     `json:"setup_link"`
}

// consumed is the data of customer.setup_link.consumed.
type consumed struct {
	CustomerID customers.ID `json:"customer_id"`
	SetupLink  Resource     `json:"setup_link"`
	AccountID  accounts.ID  `json:"account_id"`
}

// onboarded is the data of customer.onboarded.
type onboarded struct {
	CustomerID    customers.ID `json:"customer_id"`
	AccountID     accounts.ID  `json:"account_id"`
	PhoneNumberID *string      `json:"phone_number_id"`
	// PhoneNumber is as the provider prints it: +1 555 010 0101.
	PhoneNumber string `json:"phone_number"`
}
