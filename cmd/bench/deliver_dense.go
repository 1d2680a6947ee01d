package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	denseOrgs   = 10
	denseEach   = 10 // subscriptions of one organization
	denseEvents = 100
)

func sorted(delays []time.Duration) []time.Duration {
	slices.Sort(delays)
	return delays
}

// benchDense delivers what waits for 100 subscriptions, beside a loop that only signs and
// posts the same, and beside one River job for each delivery.
func benchDense(ctx context.Context, given deliverOptions, figures *deliverFigures) error {
	each := given.many(denseEvents)
	total := each * denseOrgs * denseEach
	beside := func(run func(*lonely, context.Context, int) (pace, error)) func(context.Context) (pace, error) {
		return func(ctx context.Context) (pace, error) { return besideIt(ctx, given, total, run) }
	}
	shown, err := inTurn(ctx, "dense",
		leg[pace]{ours, func(ctx context.Context) (pace, error) { return drainDeliveries(ctx, given, each, total) }},
		leg[pace]{"bare post", beside((*lonely).postAll)},
		leg[pace]{"one job each", beside((*lonely).jobEach)},
	)
	if err == nil {
		figures.BarePost = ratioOf(shown[0], shown[1], perSecond)
		figures.OneJobEach = ratioOf(shown[0], shown[2], perSecond)
	}
	return err
}

// besideIt runs what is compared on a database and an endpoint of its own.
func besideIt(
	ctx context.Context, given deliverOptions, total int, run func(*lonely, context.Context, int) (pace, error),
) (pace, error) {
	h, err := openHouse(ctx, given)
	if err != nil {
		return 0, err
	}
	defer h.stop()
	alone, err := newLonely(h)
	if err != nil {
		return 0, err
	}
	defer alone.close()
	return run(alone, ctx, total)
}

// benchCustomer is in every body that did not come through the API.
const benchCustomer = "cus_01M5CJXHG0G060EM3SHK18M2XJ"

// bodyOf is about as large as a customer's event.
func bodyOf(serial int) []byte {
	return fmt.Appendf(nil, `{"id":"evt_01M5CJXHG06N4DYQTMB71Q972T","type":"customer.created","created_at":"2026-10-20T12:00:00.000Z",`+
		`"data":{"customer":{"id":"`+benchCustomer+`","object":"customer","name":"Customer %d","email":null,`+
		`"status":"pending","metadata":{"plan":"gold"},"archived_at":null,"team_id":"01a05bfb-73e8-7196-9c08-ce17cdd42c79",`+
		`"created_at":"2026-10-20T12:00:00.000Z","updated_at":"2026-10-20T12:00:00.000Z"}}}`, serial)
}

// record has the deliveries wait.
func (h *house) record(ctx context.Context, org orgs.ID, count int) error {
	_, err := postgres.InTx(ctx, h.cell.DB, org, func(tx *postgres.Tx) (int, error) {
		for i := range count {
			draft := events.Draft{Type: events.CustomerCreated, Subject: ids.NewOrg(time.Now()).Any(), Body: bodyOf(i), Key: "bench"}
			if err := h.cell.Events.RecordTx(tx, draft); err != nil {
				return 0, err
			}
		}
		return count, nil
	})
	return err
}

func drainDeliveries(ctx context.Context, given deliverOptions, each, total int) (pace, error) {
	h, err := openHouse(ctx, given)
	if err != nil {
		return 0, err
	}
	defer h.stop()
	for range denseOrgs {
		made, _, err := h.cell.Orgs.Create(ctx, audit.Operator(), orgs.Draft{Name: "Bench", Plan: "bench"})
		if err != nil {
			return 0, err
		}
		if err := h.subscribe(ctx, made.OrgID, denseEach); err != nil {
			return 0, err
		}
		if err := h.record(ctx, made.OrgID, each); err != nil {
			return 0, err
		}
	}
	if _, err := h.cell.DB.Pool().Exec(ctx, `ANALYZE events, webhook_deliveries, webhook_subscriptions, lanes, lane_rows`); err != nil {
		return 0, err
	}
	stop, err := h.run(ctx, app.Roles{Serve: true, Work: true})
	if err != nil {
		return 0, err
	}
	defer stop()
	if err := h.sink.await(ctx, total); err != nil {
		return 0, err
	}
	return h.sink.pace(), h.settled(ctx)
}

// settled waits until everything that arrived is also written down.
func (h *house) settled(ctx context.Context) error {
	for busy := true; busy; time.Sleep(time.Millisecond) {
		var err error
		busy, err = postgres.One[bool](ctx, h.cell.DB.System("whether all is done"), `SELECT EXISTS (SELECT FROM lane_rows)`, nil)
		if err != nil {
			return err
		}
	}
	return nil
}
