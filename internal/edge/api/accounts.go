package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/telemetry"
	"github.com/parley-chat/parley/internal/provider"
)

func pathNumber(c *call) string { return chi.URLParam(c.request, "phone_number_id") }

// longestPath is the number of segments from which on noSuchNumber does not try the segments.
const longestPath = 12

// noSuchNumber handles paths without a route. When the path would have a route if one of its segments
// were a number, the answer is that the account does not exist: a malformed number answers like an
// unknown one.
func (a *API) noSuchNumber(c *call) (reply, error) {
	segments := strings.Split(c.request.URL.EscapedPath(), "/")
	if len(segments) > longestPath {
		return notFound(c) // bounds the work, because each segment is tried
	}
	for i, given := range segments {
		segments[i] = "000000"
		if given != "" && a.router.Match(chi.NewRouteContext(), c.request.Method, strings.Join(segments, "/")) {
			return reply{}, fault.NotFound("account")
		}
		segments[i] = given
	}
	return notFound(c)
}

func listAccounts(c *call) (reply, error) {
	filter := accounts.Filter{Status: accounts.Connected}
	if c.query.Get("status") == "all" {
		filter.Status = ""
	}
	if given := c.query.Get("customer_id"); given != "" {
		id := customers.ID{}
		if err := id.UnmarshalText([]byte(given)); err != nil {
			return reply{}, fault.Invalid("customer_id", "must be the id of a customer")
		}
		filter.CustomerID = &id
	}
	type page = paging.Page[accounts.Account, accounts.ID]
	return list(c, accounts.Account.Resource, func(ctx context.Context, org orgs.ID, slice paging.Slice[accounts.ID]) (page, error) {
		return c.cell.Accounts.List(ctx, org, filter, slice)
	})
}

// registrationDraft has the PIN in a type that never prints it.
type registrationDraft struct {
	PIN telemetry.Secret `json:"pin"`
}

type numberRegistration struct {
	Object         string          `json:"object"`
	PhoneNumberID  *string         `json:"phone_number_id"`
	Registered     bool            `json:"registered"`
	Status         accounts.Status `json:"status"`
	ProviderStatus *string         `json:"provider_status"`
}

func registerNumber(c *call) (reply, error) {
	draft, err := decode[registrationDraft](c)
	if err != nil {
		return reply{}, err
	}
	registered := func(r accounts.Registration) (numberRegistration, *fault.Error) {
		return numberRegistration{
			Object: "phone_number_registration", PhoneNumberID: r.Account.PhoneNumberID, Registered: true,
			Status: r.Account.Status, ProviderStatus: r.Account.ProviderStatus,
		}, r.Refusal
	}
	return writeOrRefuse(c, http.StatusOK, registered, func(ctx context.Context) (accounts.Registration, error) {
		return c.cell.Accounts.Register(ctx, c.org(), pathNumber(c), provider.PIN{Secret: draft.PIN})
	})
}

type disconnection struct {
	PhoneNumberID *string `json:"phone_number_id"`
	Object        string  `json:"object"`
	Disconnected  bool    `json:"disconnected"`
}

func disconnectAccount(c *call) (reply, error) {
	customer, err := pathID[customers.ID](c, "id", "account")
	if err != nil {
		return reply{}, err
	}
	gone := func(a accounts.Account) disconnection {
		return disconnection{PhoneNumberID: a.PhoneNumberID, Object: "whatsapp_account", Disconnected: true}
	}
	return write(c, http.StatusOK, gone, func(ctx context.Context) (accounts.Account, error) {
		by := c.by()
		return c.cell.Accounts.Disconnect(ctx, c.org(), by, pathNumber(c), &customer)
	})
}

// customerAccount is one of the numbers in the answer to GET /customers/{id}.
type customerAccount struct {
	ID             accounts.ID     `json:"id"`
	PhoneNumberID  *string         `json:"phone_number_id"`
	PhoneNumber    *string         `json:"phone_number"`
	Name           *string         `json:"name"`
	Status         accounts.Status `json:"status"`
	ProviderStatus *string         `json:"provider_status"`
}

func customerAccounts(all []accounts.Account) []customerAccount {
	shown := make([]customerAccount, len(all))
	for i, a := range all {
		shown[i] = customerAccount{
			ID: a.ID, PhoneNumberID: a.PhoneNumberID, PhoneNumber: a.PhoneNumber, Name: a.Name,
			Status: a.Status, ProviderStatus: a.ProviderStatus,
		}
	}
	return shown
}
