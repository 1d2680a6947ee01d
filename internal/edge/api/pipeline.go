package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/parley-chat/parley/internal/domain/apilogs"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clientip"
	"github.com/parley-chat/parley/internal/platform/requestid"
)

// requestTimeout is the deadline of a whole request, and so of its statements.
const requestTimeout = 10 * time.Second

// slowTimeout is the deadline of a request that calls the provider several times. The server's own limits are above it.
const slowTimeout = 25 * time.Second

// listTimeout is the deadline of a list.
const listTimeout = 2 * time.Second

func (r *route) timeout() time.Duration {
	switch {
	case r.upload:
		return uploadTimeout
	case r.slow:
		return slowTimeout
	case r.class == lists:
		return listTimeout
	default:
		return requestTimeout
	}
}

// within is a deadline of this process.
func (a *API) within(timeout time.Duration) time.Duration {
	return timeout * time.Duration(max(1, a.Patience))
}

// serve makes the HTTP handler of a route: it prepares the call, runs the pipeline, and sends and
// records the answer.
func (a *API) serve(route *route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), a.within(route.timeout()))
		defer cancel()
		id := apilogs.NewRequestID(a.Clock.Now())
		ctx, end := a.trace(requestid.With(ctx, id.Any()), route, r.Header)
		defer end()
		a.Metrics.RequestStarted()
		defer a.Metrics.RequestEnded()
		// MaxBytesReader gets the writer, so that it closes the connection of a caller who sends too much.
		r.Body = http.MaxBytesReader(w, r.Body, route.maxBytes())
		if route.upload {
			r.Body = patient(w, r.Body)
		}
		c := &call{
			request: r.WithContext(ctx),
			route:   route,
			id:      id,
			ip:      clientip.Of(r, a.TrustedProxies),
			cursors: a.Cursors,
		}
		elapsed := stopwatch()
		answer, err := a.run(c)
		if c.cell != nil {
			err = a.comebacks[c.cell.Name].count(err)
		}
		a.discard(ctx, c)
		a.record(c, send(w, c, answer, err), elapsed())
	}
}

// run runs the steps of the pipeline in order. The first step that returns an error ends it.
func (a *API) run(c *call) (answer reply, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			answer, err = reply{}, fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	if err := checkHeaderSize(c.request); err != nil {
		return reply{}, err
	}
	if !c.route.public() {
		if err := a.admit(c); err != nil {
			return reply{}, err
		}
	}
	// The body is read before the request enters the gate, so that a slow caller takes no room.
	if err := a.readInput(c); err != nil {
		return reply{}, err
	}
	if c.route.public() {
		return c.route.handler(c)
	}
	// The lists of an organization wait for each other outside of the gate, so that they do not fill it.
	if c.route.class == lists {
		leave, entered := a.lists.enter(c.ctx(), c.org())
		if !entered {
			return reply{}, fault.Unavailable(time.Second, errors.New("other lists of the organization took too long"))
		}
		defer leave()
	}
	leave, err := a.enter(a.handling[c.cell.Name], c, c.org())
	if err != nil {
		return reply{}, err
	}
	defer leave()
	return once(c)
}

// enter lets the request into a gate, or refuses it.
func (a *API) enter(to *gate, c *call, org orgs.ID) (leave func(), err error) {
	leave, full := to.enter(c.route.class, org)
	if full != "" {
		a.Metrics.Shed(full)
		return nil, fault.Unavailable(time.Second, nil)
	}
	return leave, nil
}

// admit finds the caller, and checks rate limit, suspension and plan.
func (a *API) admit(c *call) error {
	if err := a.identify(c); err != nil {
		return err
	}
	if err := a.spendToken(c); err != nil {
		return err
	}
	if c.byKey && !c.caller.APIAccess {
		return fault.New(fault.FeatureNotAvailable, "The plan of this organization has no API access. Choose a plan that includes it.")
	}
	if err := c.caller.Refuses(); err != nil || c.route.refuses == nil {
		return err
	}
	return c.route.refuses(c.caller.Standing)
}

// handle runs the handler. Without an active subscription it refuses routes that change something.
func (c *call) handle() (reply, error) {
	if c.route.operation != nil && c.route.operation.Method != http.MethodGet && !c.route.reads {
		if err := c.caller.RefusesWrites(c.cell.Clock.Now()); err != nil {
			return reply{}, err
		}
	}
	if err := refuseUnwanted(c); err != nil {
		return reply{}, err
	}
	return c.route.handler(c)
}

// faultOf turns any error into one that can be sent. A timeout becomes service_unavailable, and every
// other error that is no fault becomes internal_error.
func faultOf(err error) *fault.Error {
	if presentable, ok := errors.AsType[*fault.Error](err); ok {
		return presentable
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fault.Unavailable(time.Second, err)
	}
	return fault.New(fault.InternalError, "An internal error occurred. Retry the request; if it fails again, send its request id to support.")
}
