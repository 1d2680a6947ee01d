package api

import (
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/openapi"
)

// prefix is the version, which every path of the contract starts with.
const prefix = "/v1"

// route is one operation of the contract with its handler.
type route struct {
	method, path string
	class        class
	handler      handler
	// refuses returns an error when the plan does not include the route. Nil: every plan includes it.
	refuses func(orgs.Standing) error
	// reads is set for routes that change nothing although their method is not GET: they need no active subscription.
	reads bool
	// leased is set for routes that call the provider before they answer.
	leased bool
	// slow is set for routes that call the provider several times.
	slow bool
	// upload is set for routes that take a file instead of JSON.
	upload bool
	// operation is the route's operation in the contract; nil for unknown paths and methods.
	operation *openapi.Operation
	// allowed are the methods of the path. It is set on routes that refuse the other methods.
	allowed []string
}

// public tells whether the contract lets the route be called without a key.
func (r *route) public() bool { return r.operation != nil && r.operation.Public }

// handler answers a call. It cannot write to the connection, so it can neither write twice nor go on
// after an error.
type handler func(*call) (reply, error)

// routes are all routes of the API. The class says which are refused first under load.
func (a *API) routes() []*route {
	all := []*route{
		{method: "GET", path: "/health", class: urgent, handler: a.getHealth},
		{method: "GET", path: "/openapi.json", class: single, handler: a.getOpenAPI},
		{method: "GET", path: "/me", class: single, handler: getMe},

		{method: "GET", path: "/accounts", class: lists, handler: listAccounts},
		{method: "POST", path: "/{phone_number_id}/register", class: urgent, handler: registerNumber, leased: true},
		{method: "GET", path: "/{phone_number_id}/templates", class: lists, handler: listTemplates},
		{method: "POST", path: "/{phone_number_id}/templates", class: urgent, handler: createTemplate, leased: true, slow: true},
		{method: "POST", path: "/{phone_number_id}/templates/sync", class: urgent, handler: syncTemplates, leased: true, slow: true},
		{method: "GET", path: "/{phone_number_id}/templates/{name}", class: single, handler: getTemplate},
		{method: "PATCH", path: "/{phone_number_id}/templates/{name}", class: urgent, handler: updateTemplate, leased: true, slow: true},

		{method: "GET", path: "/{phone_number_id}/messages", class: lists, handler: listMessages},
		{method: "POST", path: "/{phone_number_id}/messages", class: urgent, handler: a.sendMessage},
		{method: "POST", path: "/{phone_number_id}/messages/validate", class: single, handler: a.validateMessage, reads: true},
		{method: "GET", path: "/{phone_number_id}/messages/{id}", class: single, handler: getMessage},
		{method: "GET", path: "/{phone_number_id}/messages/{id}/media", class: single, handler: getMessageMedia},
		{method: "GET", path: "/{phone_number_id}/messages/{id}/timeline", class: lists, handler: getMessageTimeline},

		{method: "GET", path: "/media", class: lists, handler: listMedia},
		{method: "POST", path: "/media", class: urgent, handler: createMedia, upload: true},
		{method: "GET", path: "/media/{id}", class: single, handler: getMedia},
		{method: "DELETE", path: "/media/{id}", class: urgent, handler: deleteMedia},

		{method: "GET", path: "/labels", class: lists, handler: listLabels},
		{method: "POST", path: "/labels", class: urgent, handler: createLabel},
		{method: "GET", path: "/labels/{id}", class: single, handler: getLabel},
		{method: "PATCH", path: "/labels/{id}", class: urgent, handler: updateLabel},
		{method: "DELETE", path: "/labels/{id}", class: urgent, handler: deleteLabel},

		{method: "GET", path: "/customers", class: lists, handler: listCustomers, refuses: orgs.Standing.RefusesCustomers},
		{method: "POST", path: "/customers", class: urgent, handler: createCustomer, refuses: orgs.Standing.RefusesCustomers},
		{method: "GET", path: "/customers/{id}", class: single, handler: getCustomer, refuses: orgs.Standing.RefusesCustomers},
		{method: "PATCH", path: "/customers/{id}", class: urgent, handler: updateCustomer, refuses: orgs.Standing.RefusesCustomers},
		{method: "DELETE", path: "/customers/{id}", class: urgent, handler: archiveCustomer, refuses: orgs.Standing.RefusesCustomers},
		{
			method: "DELETE", path: "/customers/{id}/whatsapp_accounts/{phone_number_id}", class: urgent, handler: disconnectAccount,
			refuses: orgs.Standing.RefusesCustomers,
		},
	}
	return slices.Concat(all, setupLinkRoutes(), a.webhookRoutes())
}

func setupLinkRoutes() []*route {
	all := []*route{
		{method: "GET", path: "/customers/{id}/setup_links", class: lists, handler: listSetupLinks},
		{method: "POST", path: "/customers/{id}/setup_links", class: urgent, handler: createSetupLink},
		{method: "GET", path: "/customers/{id}/setup_links/{link_id}", class: single, handler: getSetupLink},
		{method: "PATCH", path: "/customers/{id}/setup_links/{link_id}", class: urgent, handler: updateSetupLink},
		{method: "DELETE", path: "/customers/{id}/setup_links/{link_id}", class: urgent, handler: revokeSetupLink},
	}
	for _, route := range all {
		route.refuses = orgs.Standing.RefusesCustomers
	}
	return all
}

func (a *API) webhookRoutes() []*route {
	return []*route{
		{method: "GET", path: "/webhook_subscriptions", class: lists, handler: listSubscriptions},
		{method: "POST", path: "/webhook_subscriptions", class: urgent, handler: createSubscription},
		{method: "GET", path: "/webhook_subscriptions/{id}", class: single, handler: getSubscription},
		{method: "PATCH", path: "/webhook_subscriptions/{id}", class: urgent, handler: updateSubscription},
		{method: "DELETE", path: "/webhook_subscriptions/{id}", class: urgent, handler: deleteSubscription},
		{method: "POST", path: "/webhook_subscriptions/{id}/secrets", class: urgent, handler: mintSecret},
		{method: "DELETE", path: "/webhook_subscriptions/{id}/secrets/{secret_id}", class: urgent, handler: revokeSecret},
		{method: "POST", path: "/webhook_subscriptions/{id}/test", class: urgent, handler: a.testSubscription},

		{method: "GET", path: "/{phone_number_id}/conversations", class: lists, handler: listConversations},
		{method: "GET", path: "/{phone_number_id}/conversations/{id}", class: single, handler: getConversation},
		{method: "PATCH", path: "/{phone_number_id}/conversations/{id}", class: urgent, handler: updateConversation},
		{method: "POST", path: "/{phone_number_id}/conversations/{id}/labels", class: urgent, handler: attachConversationLabel},
		{method: "DELETE", path: "/{phone_number_id}/conversations/{id}/labels/{label_id}", class: urgent, handler: detachConversationLabel},

		{method: "GET", path: "/{phone_number_id}/contacts", class: lists, handler: listContacts},
		{method: "POST", path: "/{phone_number_id}/contacts", class: urgent, handler: createContact},
		{method: "POST", path: "/{phone_number_id}/contacts/bulk_label", class: urgent, handler: bulkLabelContacts},
		{method: "GET", path: "/{phone_number_id}/contacts/{id}", class: single, handler: getContact},
		{method: "PATCH", path: "/{phone_number_id}/contacts/{id}", class: urgent, handler: updateContact},
		{method: "DELETE", path: "/{phone_number_id}/contacts/{id}", class: urgent, handler: deleteContact},
		{method: "POST", path: "/{phone_number_id}/contacts/{id}/labels", class: urgent, handler: attachContactLabel},
		{method: "DELETE", path: "/{phone_number_id}/contacts/{id}/labels/{label_id}", class: urgent, handler: detachContactLabel},

		{method: "GET", path: "/webhook_deliveries", class: lists, handler: listDeliveries},
		{method: "POST", path: "/webhook_deliveries/replay", class: urgent, handler: replayDeliveries},
		{method: "GET", path: "/webhook_deliveries/{id}", class: single, handler: getDelivery},
		{method: "POST", path: "/webhook_deliveries/{id}/replay", class: urgent, handler: replayDelivery},
	}
}

// chiPath makes the parameter of a number match digits only, so that it does not match the static
// segments in the same place.
func chiPath(path string) string {
	return strings.ReplaceAll(path, "{phone_number_id}", "{phone_number_id:[0-9]{6,20}}")
}

func notFound(*call) (reply, error) {
	return reply{}, fault.New(fault.ResourceNotFound, "There is no such route. The routes are listed in /v1/openapi.json.")
}

// unserved are the operations of the contract that have no handler yet.
func (a *API) unserved() (routes []*route) {
	for _, operation := range a.Contract.Operations() {
		if !slices.Contains(a.served, operation) {
			routes = append(routes, &route{method: operation.Method, path: operation.Path, class: single, handler: notServed})
		}
	}
	return routes
}

func notServed(*call) (reply, error) {
	return reply{}, fault.New(fault.NotImplemented,
		"This version does not serve this operation yet. In /v1/openapi.json it is marked with `x-served: false`.")
}

// methods are the HTTP methods that the contract uses, and HEAD, which works where GET does.
func methods() []string {
	return []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPatch, http.MethodDelete}
}

// refusePlain makes paths that do not end in a parameter refuse other methods. Otherwise such a method
// would match the path with a parameter: GET /webhook_deliveries/replay would look for the id `replay`.
// Paths whose parameter is a name keep their methods, because a template may be called `sync`.
func (a *API) refusePlain(named map[string][]string) {
	for pattern, own := range a.plain {
		own = slices.Concat(named[path.Dir(pattern)], own)
		own = slices.DeleteFunc(methods(), func(method string) bool { return !slices.Contains(own, method) })
		for _, method := range methods() {
			if !slices.Contains(own, method) {
				a.router.Method(method, pattern, a.serve(&route{class: single, handler: a.methodNotAllowed, allowed: own}))
			}
		}
	}
}

// methodNotAllowed answers 405 with the methods that the path has.
func (a *API) methodNotAllowed(c *call) (reply, error) {
	allowed := c.route.allowed
	for _, method := range methods() {
		found := chi.NewRouteContext()
		if c.route.allowed != nil || !a.router.Match(found, method, c.request.URL.Path) {
			continue
		}
		// The routes of refusePlain match methods that their path does not have.
		if own, plain := a.plain[found.RoutePattern()]; !plain || slices.Contains(own, method) {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		return notFound(c) // no method has a route with this path
	}
	allow := strings.Join(allowed, ", ")
	c.header = http.Header{"Allow": {allow}}
	return reply{}, fault.New(fault.MethodNotAllowed, "This path does not support that method. It supports %s.", allow)
}
