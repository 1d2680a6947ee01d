package state

import (
	"slices"
	"time"
)

// App is a client of the provider's API that receives callbacks.
type App struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Secret      string   `json:"app_secret"`
	VerifyToken string   `json:"verify_token"`
	CallbackURL string   `json:"callback_url"`
	Fields      []string `json:"fields"` // of callbacks; empty: all
	// Version of callbacks: up to v23 a status has a conversation.
	Version string `json:"version"`
}

// Account is a business account. It owns numbers and templates.
type Account struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Business string `json:"business_id"` // the portfolio
	Parent   string `json:"parent_business_id,omitempty"`
	Currency string `json:"currency"`

	Disabled     bool     `json:"disabled,omitempty"`
	Restrictions []string `json:"restrictions,omitempty"`

	Subscribed map[string]Override `json:"-"` // by app
	Created    []time.Time         `json:"-"` // when the templates of the last hour were created
	Calls      usage               `json:"-"` // of management edges
}

// Override is a callback URL that an app set for an account or a number.
type Override struct{ URL, VerifyToken string }

// AddAccount stores a business account and fills its empty fields.
func (d *Data) AddAccount(added *Account) *Account {
	if added.ID == "" {
		added.ID = d.NextID(accountSeries)
	}
	if added.Business == "" {
		added.Business = d.NextID(BusinessSeries)
	}
	if added.Currency == "" {
		added.Currency = "USD"
	}
	if added.Subscribed == nil {
		added.Subscribed = map[string]Override{}
	}
	d.Accounts[added.ID] = added
	return added
}

func (a *App) wants(field string) bool {
	return len(a.Fields) == 0 || slices.Contains(a.Fields, field)
}
