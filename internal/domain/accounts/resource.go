package accounts

import (
	"github.com/parley-chat/parley/internal/domain/customers"
)

// Resource is the JSON of an account.
type Resource struct {
	ID             ID            `json:"id"`
	Object         string        `json:"object"`
	PhoneNumberID  *string       `json:"phone_number_id"`
	PhoneNumber    *string       `json:"phone_number"`
	Name           *string       `json:"name"`
	Status         Status        `json:"status"`
	ProviderStatus *string       `json:"provider_status"`
	CustomerID     *customers.ID `json:"customer_id"`
	StatusReason   *string       `json:"status_reason"`
}

// Resource prints the account.
func (a Account) Resource() Resource {
	return Resource{
		ID:             a.ID,
		Object:         "account",
		PhoneNumberID:  a.PhoneNumberID,
		PhoneNumber:    a.PhoneNumber,
		Name:           a.Name,
		Status:         a.Status,
		ProviderStatus: a.ProviderStatus,
		CustomerID:     a.CustomerID,
		StatusReason:   a.StatusReason,
	}
}

// Embedded is the field `chat_account` of what belongs to a number.
type Embedded struct {
	PhoneNumber   *string   `json:"phone_number"`
	PhoneNumberID *string   `json:"phone_number_id"`
	Customer      *Customer `json:"customer"`
}

// Customer is whose a number is, in a few words.
type Customer struct {
	ID   customers.ID `json:"id"`
	Name string       `json:"name"`
}

// Embedded prints the account inside of another resource.
func (a Account) Embedded() Embedded {
	embedded := Embedded{PhoneNumber: a.PhoneNumber, PhoneNumberID: a.PhoneNumberID}
	if a.CustomerID != nil && a.CustomerName != nil {
		embedded.Customer = &Customer{ID: *a.CustomerID, Name: *a.CustomerName}
	}
	return embedded
}
