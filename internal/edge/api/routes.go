package api

import (
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/openapi"
)

// prefix is the version segment that every path of the contract stands behind.
const prefix = "/v1"

// route is one operation of the contract with its handler.
type route struct {
	method, path string
	class        class
	handler      handler
	// operation is nil for paths that are not in the contract.
	operation *openapi.Operation
}

// public routes need no key, by the contract.
func (r *route) public() bool { return r.operation != nil && r.operation.Public }

// handler answers a call. It cannot write to the socket, so it can neither write twice
// nor forget to stop after an error.
type handler func(*call) (reply, error)

// routes is the whole surface. The class says what is shed first under load.
func (a *API) routes() []*route {
	return []*route{
		{method: "GET", path: "/health", class: urgent, handler: a.getHealth},
		{method: "GET", path: "/openapi.json", class: single, handler: a.getOpenAPI},
		{method: "GET", path: "/me", class: single, handler: getMe},

		{method: "GET", path: "/labels", class: lists, handler: listLabels},
		{method: "POST", path: "/labels", class: urgent, handler: createLabel},
		{method: "GET", path: "/labels/{id}", class: single, handler: getLabel},
		{method: "PATCH", path: "/labels/{id}", class: urgent, handler: updateLabel},
		{method: "DELETE", path: "/labels/{id}", class: urgent, handler: deleteLabel},
	}
}

// chiPath keeps a number apart from the static segments it stands beside.
func chiPath(path string) string {
	return strings.ReplaceAll(path, "{phone_number_id}", "{phone_number_id:[0-9]{6,20}}")
}

func notFound(*call) (reply, error) {
	return reply{}, fault.New(fault.ResourceNotFound, "There is no such route. The routes are listed in /v1/openapi.json.")
}

// methodNotAllowed names the verbs that the path does have.
func (a *API) methodNotAllowed(c *call) (reply, error) {
	allowed := []string{}
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete} {
		if a.router.Match(chi.NewRouteContext(), method, c.request.URL.Path) {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		return notFound(c) // the router knows neither the path nor the verb
	}
	allow := strings.Join(allowed, ", ")
	c.header = http.Header{"Allow": {allow}}
	return reply{}, fault.New(fault.MethodNotAllowed, "This path does not answer to that method. It answers to %s.", allow)
}
