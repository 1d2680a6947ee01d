package api

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/go-chi/chi/v5"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/domain/apikeys"
	"github.com/parley-chat/parley/internal/domain/apilogs"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/idempotency"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/ratelimit"
)

// call is one request in the pipeline. Each step adds what it found.
type call struct {
	request *http.Request
	route   *route
	id      apilogs.RequestID
	ip      netip.Addr
	cursors *paging.Cursors

	// caller and cell are set by authentication. A public route has neither.
	caller apikeys.Caller
	cell   *cell.Cell
	// byKey is set for requests with an API key. They need a plan with API access.
	byKey  bool
	bucket *ratelimit.Decision
	// guessed is set for a request without a valid key whose address has no guesses left.
	guessed bool
	// stored is what authentication found under the Idempotency-Key; nil when it did not look.
	stored *idempotency.Stored

	query url.Values
	body  []byte
	// upload is the file of a route that takes one; nil for other routes.
	upload *upload
	// render makes the answer from a verb's result. It may run inside the verb's transaction.
	render   func(result any) (reply, error)
	replayed bool
	// header is sent with every answer, refusals too.
	header http.Header
}

func (c *call) ctx() context.Context { return c.request.Context() }

// org is the organization of the request.
func (c *call) org() orgs.ID { return c.caller.OrgID }

// by is the principal of the request.
func (c *call) by() audit.Principal { return audit.ByKey(c.caller.KeyID) }

// textID is an id that can be parsed from text, as every typed id of the product can.
type textID[T any] interface {
	*T
	UnmarshalText(text []byte) error
}

// pathID reads an id of the path. A malformed id answers 404, like an unknown one.
func pathID[T any, P textID[T]](c *call, parameter, noun string) (T, error) {
	var id T
	text, err := url.PathUnescape(chi.URLParam(c.request, parameter)) // chi matches the path before decoding
	if err != nil || P(&id).UnmarshalText([]byte(text)) != nil {
		return id, fault.NotFound(noun)
	}
	return id, nil
}
