package api

import (
	"context"
	"net/http"

	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/setuplinks"
	"github.com/parley-chat/parley/internal/platform/paging"
)

func listSetupLinks(c *call) (reply, error) {
	customer, err := pathID[customers.ID](c, "id", "customer")
	if err != nil {
		return reply{}, err
	}
	type page = paging.Page[setuplinks.Link, setuplinks.ID]
	return list(c, setuplinks.Link.Resource, func(ctx context.Context, org orgs.ID, slice paging.Slice[setuplinks.ID]) (page, error) {
		return c.cell.SetupLinks.List(ctx, org, customer, slice)
	})
}

func createSetupLink(c *call) (reply, error) {
	draft, err := decode[setuplinks.Draft](c)
	if err != nil {
		return reply{}, err
	}
	customer, err := pathID[customers.ID](c, "id", "customer")
	if err != nil {
		return reply{}, err
	}
	at := func(made setuplinks.Created) string {
		return "/customers/" + customer.String() + "/setup_links/" + made.ID.String()
	}
	return writeNew(c, at, setuplinks.Created.Resource, func(ctx context.Context) (setuplinks.Created, error) {
		return c.cell.SetupLinks.Create(ctx, c.org(), c.by(), customer, draft)
	})
}

// pathSetupLink reads both ids of the path.
func pathSetupLink(c *call) (customer customers.ID, link setuplinks.ID, err error) {
	if customer, err = pathID[customers.ID](c, "id", "setup link"); err == nil {
		link, err = pathID[setuplinks.ID](c, "link_id", "setup link")
	}
	return customer, link, err
}

func getSetupLink(c *call) (reply, error) {
	customer, id, err := pathSetupLink(c)
	if err != nil {
		return reply{}, err
	}
	link, err := c.cell.SetupLinks.Get(c.ctx(), c.org(), customer, id)
	return read(c, setuplinks.Link.Resource, link, err)
}

func updateSetupLink(c *call) (reply, error) {
	change, err := decode[setuplinks.Patch](c)
	if err != nil {
		return reply{}, err
	}
	customer, id, err := pathSetupLink(c)
	if err != nil {
		return reply{}, err
	}
	return write(c, http.StatusOK, setuplinks.Link.Resource, func(ctx context.Context) (setuplinks.Link, error) {
		return c.cell.SetupLinks.Update(ctx, c.org(), customer, id, change)
	})
}

func revokeSetupLink(c *call) (reply, error) {
	customer, id, err := pathSetupLink(c)
	if err != nil {
		return reply{}, err
	}
	return write(c, http.StatusOK, setuplinks.Link.Resource, func(ctx context.Context) (setuplinks.Link, error) {
		return c.cell.SetupLinks.Revoke(ctx, c.org(), c.by(), customer, id)
	})
}
