package setuplinks

import (
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/platform/clock"
)

// Resource is the JSON of a setup link, in answers and in events.
type Resource struct {
	ID                 ID           `json:"id"`
	Object             string       `json:"object"`
	CustomerID         customers.ID `json:"customer_id"`
	Status             Status       `json:"status"`
	TokenLast4         string       `json:"token_last4"`
	ExpiresAt          clock.Stamp  `json:"expires_at"`
	ConsumedAt         *clock.Stamp `json:"consumed_at"`
	SuccessRedirectURL *string      `json:"success_redirect_url"`
	FailureRedirectURL *string      `json:"failure_redirect_url"`
	CreatedAt          clock.Stamp  `json:"created_at"`
}

// Resource prints the link.
func (l Link) Resource() Resource {
	return Resource{
		ID: l.ID, Object: "customer_setup_link", CustomerID: l.CustomerID, Status: l.Status, TokenLast4: l.TokenLast4,
		ExpiresAt: clock.Stamp(l.ExpiresAt), ConsumedAt: clock.StampOrNil(l.ConsumedAt),
		SuccessRedirectURL: l.SuccessRedirectURL, FailureRedirectURL: l.FailureRedirectURL,
		CreatedAt: clock.Stamp(l.ID.CreatedAt()),
	}
}

// CreatedResource is the JSON of a new link. No other answer has its URL.
type CreatedResource struct {
	Resource

	SetupURL string `json:"setup_url"`
}

// Resource prints the link with its URL.
func (c Created) Resource() CreatedResource {
	return CreatedResource{Resource: c.Link.Resource(), SetupURL: c.SetupURL}
}
