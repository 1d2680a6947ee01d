package api

import (
	"context"
	"net/http"

	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/paging"
)

func listCustomers(c *call) (reply, error) {
	filter := customers.Filter{Status: customers.Status(c.query.Get("status")), Email: c.query.Get("email"), Q: c.query.Get("q")}
	type page = paging.Page[customers.Customer, customers.ID]
	return list(c, customers.Customer.Resource, func(ctx context.Context, org orgs.ID, slice paging.Slice[customers.ID]) (page, error) {
		return c.cell.Customers.List(ctx, org, filter, slice)
	})
}

func createCustomer(c *call) (reply, error) {
	draft, err := decode[customers.Draft](c)
	if err != nil {
		return reply{}, err
	}
	at := func(made customers.Customer) string { return "/customers/" + made.ID.String() }
	return writeNew(c, at, customers.Customer.Resource, func(ctx context.Context) (customers.Customer, error) {
		return c.cell.Customers.Create(ctx, c.org(), draft)
	})
}

// customerWithAccounts is the answer to GET /customers/{id}. No other answer has the customer's
// numbers.
type customerWithAccounts struct {
	customers.Resource

	WhatsappAccounts []customerAccount `json:"whatsapp_accounts"`
}

func getCustomer(c *call) (reply, error) {
	id, err := pathID[customers.ID](c, "id", "customer")
	if err != nil {
		return reply{}, err
	}
	customer, err := c.cell.Customers.Get(c.ctx(), c.org(), id)
	if err != nil {
		return reply{}, err
	}
	numbers, err := c.cell.Accounts.OfCustomer(c.ctx(), c.org(), id)
	return read(c, func(customer customers.Customer) customerWithAccounts {
		return customerWithAccounts{Resource: customer.Resource(), WhatsappAccounts: customerAccounts(numbers)}
	}, customer, err)
}

func updateCustomer(c *call) (reply, error) {
	change, err := decode[customers.Patch](c)
	if err != nil {
		return reply{}, err
	}
	id, err := pathID[customers.ID](c, "id", "customer")
	if err != nil {
		return reply{}, err
	}
	return write(c, http.StatusOK, customers.Customer.Resource, func(ctx context.Context) (customers.Customer, error) {
		return c.cell.Customers.Update(ctx, c.org(), id, change)
	})
}

func archiveCustomer(c *call) (reply, error) {
	id, err := pathID[customers.ID](c, "id", "customer")
	if err != nil {
		return reply{}, err
	}
	return write(c, http.StatusOK, customers.Customer.Resource, func(ctx context.Context) (customers.Customer, error) {
		return c.cell.Customers.Archive(ctx, c.org(), id)
	})
}
