package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/app"
)

const (
	publishers    = 32
	changesRate   = 200
	latencySpan   = 8 * time.Second
	latencyWarm   = time.Second
	eventsTo1     = 10_000
	eventsTo20    = 1_000
	deliverRounds = 3
)

// benchLatency publishes at a steady rate and measures from the API's answer to the
// receiver having the whole POST.
func benchLatency(ctx context.Context, given deliverOptions, figures *deliverFigures) error {
	h, err := openHouse(ctx, given)
	if err != nil {
		return err
	}
	defer h.stop()
	if err := h.subscribe(ctx, h.org, 1); err != nil {
		return err
	}
	stop, err := h.run(ctx, app.Roles{Serve: true, Work: true})
	if err != nil {
		return err
	}
	defer stop()
	var p50s, p99s []float64
	for round := range deliverRounds {
		shown, err := h.latency(ctx, time.Duration(float64(latencySpan)*given.scale))
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stdout, "latency, round %d: %s\n", round+1, shown)
		p50s, p99s = append(p50s, shown.p50), append(p99s, shown.p99)
	}
	p50, p99 := rounded(median(p50s)), rounded(median(p99s))
	figures.P50Ms, figures.P99Ms = &p50, &p99
	return nil
}

// changed is when a change was answered and when it arrived.
type changed struct{ answered, arrived time.Time }

func (h *house) latency(ctx context.Context, span time.Duration) (spread, error) {
	var mu sync.Mutex
	changes := map[string]*changed{}
	note := func(id string, set func(*changed)) {
		mu.Lock()
		defer mu.Unlock()
		if changes[id] == nil {
			changes[id] = &changed{}
		}
		set(changes[id])
	}
	h.sink.watch(func(body []byte, at time.Time) {
		var event struct {
			Data struct {
				Customer struct {
					ID string `json:"id"`
				} `json:"customer"`
			} `json:"data"`
		}
		if json.Unmarshal(body, &event) == nil && event.Data.Customer.ID != benchCustomer {
			note(event.Data.Customer.ID, func(c *changed) { c.arrived = at })
		}
	})
	from, publisher := time.Now().Add(latencyWarm), h.publisher()
	var made atomic.Int64
	err := feed(ctx, changesRate, latencyWarm+span, func() error {
		id, at, err := publisher.publish(ctx)
		if err == nil {
			made.Add(1)
			note(id, func(c *changed) { c.answered = at })
		}
		return err
	})
	if err != nil {
		return spread{}, err
	}
	if err := h.sink.await(ctx, int(made.Load())); err != nil {
		return spread{}, err
	}
	mu.Lock()
	defer mu.Unlock()
	var delays []time.Duration
	for _, one := range changes {
		if one.answered.After(from) {
			delays = append(delays, max(0, one.arrived.Sub(one.answered)))
		}
	}
	return spreadOf(sorted(delays))
}

// benchRates publishes as fast as the publishers can, and counts until the last delivery.
func benchRates(ctx context.Context, given deliverOptions, figures *deliverFigures) error {
	for _, one := range []struct {
		subscriptions, events int
		figure                **float64
	}{{1, eventsTo1, &figures.PerSecond1}, {20, eventsTo20, &figures.PerSecond20}} {
		var rates []float64
		for round := range deliverRounds {
			rate, accepted, err := rateTo(ctx, given, one.subscriptions, given.many(one.events))
			if err != nil {
				return err
			}
			fmt.Fprintf(os.Stdout, "rates, %d subscriptions, round %d: %.0f deliveries/s, %.0f changes/s accepted\n",
				one.subscriptions, round+1, rate, accepted)
			rates = append(rates, rate)
		}
		rate := rounded(median(rates))
		*one.figure = &rate
	}
	return nil
}

func rateTo(ctx context.Context, given deliverOptions, subscriptions, changes int) (delivered, accepted float64, err error) {
	h, err := openHouse(ctx, given)
	if err != nil {
		return 0, 0, err
	}
	defer h.stop()
	if err := h.subscribe(ctx, h.org, subscriptions); err != nil {
		return 0, 0, err
	}
	stop, err := h.run(ctx, app.Roles{Serve: true, Work: true})
	if err != nil {
		return 0, 0, err
	}
	defer stop()
	if err := h.warm(ctx, subscriptions); err != nil {
		return 0, 0, err
	}
	h.sink.watch(nil)
	publisher, started := h.publisher(), time.Now()
	var begun atomic.Int64
	err = clients(publishers, func(int) (bool, error) {
		if begun.Add(1) > int64(changes) {
			return false, nil
		}
		_, _, err := publisher.publish(ctx)
		return true, err
	})
	if err != nil {
		return 0, 0, err
	}
	accepted = float64(changes) / time.Since(started).Seconds()
	err = h.sink.await(ctx, changes*subscriptions)
	return float64(changes*subscriptions) / time.Since(started).Seconds(), accepted, err
}

// warm lets connections and statements be there before anything is measured.
func (h *house) warm(ctx context.Context, subscriptions int) error {
	const changes = 50
	h.sink.watch(nil)
	for range changes {
		if _, _, err := h.publisher().publish(ctx); err != nil {
			return err
		}
	}
	if err := h.sink.await(ctx, changes*subscriptions); err != nil {
		return err
	}
	_, err := h.cell.DB.Pool().Exec(ctx, `ANALYZE events, webhook_deliveries, webhook_subscriptions, customers, lanes, lane_rows`)
	return err
}
