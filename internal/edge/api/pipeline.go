package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/parley-chat/parley/internal/domain/apilogs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/jsonin"
	"github.com/parley-chat/parley/internal/platform/requestid"
)

// requestTimeout is the deadline of a whole request, carried into every statement.
const requestTimeout = 10 * time.Second

// serve runs a route: what happens before and after, and the pipeline between.
func (a *API) serve(route *route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		id := apilogs.NewRequestID(a.Clock.Now())
		ctx, end := a.trace(requestid.With(ctx, id.Any()), route, r.Header)
		defer end()
		a.Metrics.RequestStarted()
		defer a.Metrics.RequestEnded()
		// With the writer, a caller who sends too much is cut off instead of read to the end.
		r.Body = http.MaxBytesReader(w, r.Body, jsonin.MaxBodyBytes)
		c := &call{
			request: r.WithContext(ctx),
			route:   route,
			id:      id,
			ip:      clientIP(r, a.TrustedProxies),
			cursors: a.Cursors,
		}
		elapsed := stopwatch()
		answer, err := a.run(c)
		a.record(c, send(w, c, answer, err), elapsed())
	}
}

// run is the pipeline, in order. The first step that refuses ends it.
func (a *API) run(c *call) (answer reply, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			answer, err = reply{}, fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	if !c.route.public() {
		if err := a.admit(c); err != nil {
			return reply{}, err
		}
	}
	// A caller may take its time with the body: no room is kept for it meanwhile.
	if err := readInput(c); err != nil {
		return reply{}, err
	}
	if c.route.public() {
		return c.route.handler(c)
	}
	leave, err := a.enter(c)
	if err != nil {
		return reply{}, err
	}
	defer leave()
	leave, err = a.gates[c.cell.Name].share(c.org())
	if err != nil {
		a.Metrics.Shed("organization")
		return reply{}, err
	}
	defer leave()
	return once(c)
}

// enter finds room in the cell, or sheds the request.
func (a *API) enter(c *call) (leave func(), err error) {
	leave, err = a.gates[c.cell.Name].enter(c.route.class)
	if err != nil {
		a.Metrics.Shed(c.route.class.String())
	}
	return leave, err
}

// admit finds out who calls and whether they may.
func (a *API) admit(c *call) error {
	if err := a.identify(c); err != nil {
		return err
	}
	if err := a.takeToken(c); err != nil {
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

// handle runs the handler, unless it would change something and the subscription does
// not allow that.
func (c *call) handle() (reply, error) {
	if c.route.operation != nil && c.request.Method != http.MethodGet {
		if err := c.caller.RefusesWrites(c.cell.Clock.Now()); err != nil {
			return reply{}, err
		}
	}
	return c.route.handler(c)
}

// faultOf makes an error presentable: what is no fault of the caller's becomes one of ours.
func faultOf(err error) *fault.Error {
	if presentable, ok := errors.AsType[*fault.Error](err); ok {
		return presentable
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fault.Unavailable(time.Second, err)
	}
	return fault.New(fault.InternalError, "Something went wrong on our side. Retry, and tell support the request id if it persists.")
}
