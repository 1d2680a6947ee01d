package api

import (
	"context"
	"net/http"
	"net/url"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/paging"
)

// contactIn prints the contacts of an account.
func contactIn(account accounts.Account) func(contacts.Contact) contacts.Resource {
	return func(contact contacts.Contact) contacts.Resource { return contact.Resource(account) }
}

func listContacts(c *call) (reply, error) {
	filter, err := contactFilter(c.query)
	if err != nil {
		return reply{}, err
	}
	account, err := c.account()
	if err != nil {
		return reply{}, err
	}
	type page = paging.Page[contacts.Contact, contacts.ID]
	return list(c, contactIn(account), func(ctx context.Context, org orgs.ID, slice paging.Slice[contacts.ID]) (page, error) {
		return c.cell.Contacts.List(ctx, org, account, filter, slice)
	})
}

// contactFilter reads the filter from a query that the contract has checked.
func contactFilter(query url.Values) (filter contacts.Filter, err error) {
	filter = contacts.Filter{
		PhoneNumber: query.Get("phone_number"), BSUID: query.Get("bsuid"), Username: query.Get("username"),
		Email: query.Get("email"), Q: query.Get("q"),
	}
	if filter.LabelID, err = queryID[labels.ID](query, "label_id"); err != nil {
		return filter, err
	}
	filter.UpdatedSince, err = queryTime(query, "updated_since")
	return filter, err
}

// queryID reads an id of the query; nil when the query has none.
func queryID[T any, P textID[T]](query url.Values, name string) (*T, error) {
	given := query.Get(name)
	if given == "" {
		return nil, nil //nolint:nilnil // not given
	}
	id := new(T)
	if P(id).UnmarshalText([]byte(given)) != nil {
		return nil, fault.Invalid(name, "is not an id")
	}
	return id, nil
}

func createContact(c *call) (reply, error) {
	draft, err := decode[contacts.Draft](c)
	if err != nil {
		return reply{}, err
	}
	account, err := c.account()
	if err != nil {
		return reply{}, err
	}
	at := func(made contacts.Contact) string { return "/" + pathNumber(c) + "/contacts/" + made.ID.String() }
	return writeNew(c, at, contactIn(account), func(ctx context.Context) (contacts.Contact, error) {
		return c.cell.Contacts.Create(ctx, c.org(), account, draft)
	})
}

func getContact(c *call) (reply, error) {
	account, id, err := accountItem[contacts.ID](c, "contact")
	if err != nil {
		return reply{}, err
	}
	contact, err := c.cell.Contacts.Get(c.ctx(), c.org(), account, id)
	return read(c, contactIn(account), contact, err)
}

func updateContact(c *call) (reply, error) {
	change, err := decode[contacts.Patch](c)
	if err != nil {
		return reply{}, err
	}
	account, id, err := accountItem[contacts.ID](c, "contact")
	if err != nil {
		return reply{}, err
	}
	return write(c, http.StatusOK, contactIn(account), func(ctx context.Context) (contacts.Contact, error) {
		return c.cell.Contacts.Update(ctx, c.org(), account, id, change)
	})
}

func deleteContact(c *call) (reply, error) {
	account, id, err := accountItem[contacts.ID](c, "contact")
	if err != nil {
		return reply{}, err
	}
	gone := func(id contacts.ID) deleted { return deletedOf("contact", id) }
	return write(c, http.StatusOK, gone, func(ctx context.Context) (contacts.ID, error) {
		return c.cell.Contacts.Delete(ctx, c.org(), account, id)
	})
}

// attachment is the body of a request that attaches a label.
type attachment struct {
	LabelID labels.ID `json:"label_id"`
}

func attachContactLabel(c *call) (reply, error) {
	body, err := decode[attachment](c)
	if err != nil {
		return reply{}, err
	}
	return labelContact(c, body.LabelID, contacts.Attach)
}

func detachContactLabel(c *call) (reply, error) {
	label, err := pathID[labels.ID](c, "label_id", "label")
	if err != nil {
		return reply{}, err
	}
	return labelContact(c, label, contacts.Detach)
}

func labelContact(c *call, label labels.ID, operation contacts.Operation) (reply, error) {
	account, id, err := accountItem[contacts.ID](c, "contact")
	if err != nil {
		return reply{}, err
	}
	return write(c, http.StatusOK, asIs[contacts.LabelResource], func(ctx context.Context) (contacts.LabelResource, error) {
		return c.cell.Contacts.Label(ctx, c.org(), account, id, label, operation)
	})
}

func bulkLabelContacts(c *call) (reply, error) {
	bulk, err := decode[contacts.Bulk](c)
	if err != nil {
		return reply{}, err
	}
	account, err := c.account()
	if err != nil {
		return reply{}, err
	}
	return write(c, http.StatusOK, contacts.BulkOutcome.Resource, func(ctx context.Context) (contacts.BulkOutcome, error) {
		return c.cell.Contacts.BulkLabel(ctx, c.org(), account, bulk)
	})
}

// asIs is the resource function of results that already are resources.
func asIs[T any](result T) T { return result }
