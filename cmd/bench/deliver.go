package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	publishers  = 32
	changesRate = 200
	latencySpan = 8 * time.Second
	latencyWarm = time.Second
	eventsTo1   = 10_000
	eventsTo20  = 1_000
	// replayedType is what the healthy endpoint of benchTrouble gets beside the changes that are measured.
	replayedType = events.MessageSent
)

// benchLatency publishes at a steady rate and measures from the API's answer to the receiver
// having the whole POST: p50_ms, p99_ms.
func benchLatency(ctx context.Context, b *bench) figures {
	p := newProcess(ctx, b, 1, 1)
	p.subscribe(ctx, p.orgs[0], 1)
	p.run(ctx, b, app.Roles{Serve: true, Work: true})
	shown := b.inTurn(ctx, "latency", side{ours, func(ctx context.Context, b *bench) sample {
		return p.latency(ctx, b, b.lasting(latencySpan))
	}})
	return figures{"p50_ms": shown.median(ours, p50), "p99_ms": shown.median(ours, p99)}
}

// latency measures changes at a steady rate, after a second of them that is left out.
func (p *process) latency(ctx context.Context, b *bench, span time.Duration) sample {
	seen := newMeter[string](0)
	watched := p.sink.watch(func(body []byte, at time.Time) {
		var event struct {
			Data struct {
				Customer struct {
					ID string `json:"id"`
				} `json:"customer"`
			} `json:"data"`
		}
		if json.Unmarshal(body, &event) == nil && event.Data.Customer.ID != benchCustomer {
			seen.reach(event.Data.Customer.ID, at)
		}
	})
	from, publish := time.Now().Add(latencyWarm), p.publisher(ctx, b)
	var made atomic.Int64
	feed(ctx, changesRate, latencyWarm+span, func() error {
		id, err := publish()
		seen.add(id, time.Now())
		made.Add(1)
		return err
	})
	watched.await(ctx, int(made.Load()))
	return seen.shows(from, time.Now())
}

// benchRates publishes as fast as the publishers can, and measures deliveries per second until
// the last delivery, to one subscription (per_second_1) and to twenty (per_second_20).
func benchRates(ctx context.Context, b *bench) figures {
	to := func(subscriptions, usual int) side {
		return side{fmt.Sprintf("to %d", subscriptions), func(ctx context.Context, b *bench) sample {
			p, changes := newProcess(ctx, b, 1, 1), b.many(usual)
			p.subscribe(ctx, p.orgs[0], subscriptions)
			p.run(ctx, b, app.Roles{Serve: true, Work: true})
			p.warm(ctx, b, subscriptions)
			watched, publish, started := p.sink.watch(nil), p.publisher(ctx, b), time.Now()
			check(times(publishers, changes, func(int) error {
				_, err := publish()
				return err
			}))
			fmt.Fprintf(os.Stdout, "rates: %.0f changes/s accepted\n", float64(changes)/time.Since(started).Seconds())
			watched.await(ctx, changes*subscriptions)
			return sample{rate: float64(changes*subscriptions) / time.Since(started).Seconds()}
		}}
	}
	one, twenty := to(1, eventsTo1), to(20, eventsTo20)
	shown := b.inTurn(ctx, "rates", one, twenty)
	return figures{"per_second_1": shown.median(one.name, rate), "per_second_20": shown.median(twenty.name, rate)}
}

// warm makes connections and prepares statements before anything is measured.
func (p *process) warm(ctx context.Context, b *bench, subscriptions int) {
	const changes = 50
	watched, publish := p.sink.watch(nil), p.publisher(ctx, b)
	for range changes {
		must(publish())
	}
	watched.await(ctx, changes*subscriptions)
	must(p.cell.DB.Pool().Exec(ctx, `ANALYZE events, webhook_deliveries, webhook_subscriptions, customers, lanes, lane_rows`))
}

// subscribe adds subscriptions to everything that is measured.
func (p *process) subscribe(ctx context.Context, org orgs.ID, count int) {
	for i := range count {
		draft := webhooks.Draft{URL: fmt.Sprintf("%s/%d", p.sink.url, i), Events: []events.Type{events.CustomerCreated, replayedType}}
		must(p.cell.Webhooks.Create(ctx, org, audit.Operator(), draft))
	}
}

// publisher returns a function that creates a customer through the API and returns its id.
func (p *process) publisher(ctx context.Context, b *bench) func() (id string, err error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: publishers}}
	b.later(client.CloseIdleConnections)
	var serial atomic.Int64
	return func() (string, error) {
		body := fmt.Appendf(nil, `{"name":"Customer %d","metadata":{"plan":"gold"}}`, serial.Add(1))
		answer, err := p.post(ctx, client, "/v1/customers", body, http.StatusCreated)
		if err != nil {
			return "", err
		}
		var made struct {
			Data struct {
				ID string `json:"id"`
			} `json:"data"`
		}
		err = json.Unmarshal(answer, &made)
		return made.Data.ID, err
	}
}

func (p *process) post(ctx context.Context, client *http.Client, path string, body []byte, want int) ([]byte, error) {
	return post(ctx, client, p.url+path, http.Header{"Authorization": {"Bearer " + p.keys[0]}}, body, want)
}

// recordAtOnce is how many events one transaction records.
const recordAtOnce = 1_000

// record has events wait for their delivery.
func (p *process) record(ctx context.Context, org orgs.ID, of events.Type, count int) {
	for ; count > 0; count -= recordAtOnce {
		must(postgres.InTx(ctx, p.cell.DB, org, func(tx *postgres.Tx) (int, error) {
			drafts := make([]events.Draft, min(count, recordAtOnce))
			for i := range drafts {
				drafts[i] = events.Draft{Type: of, Subject: ids.NewOrg(time.Now()).Any(), Body: bodyOf(i), Key: "bench"}
			}
			return 0, p.cell.Events.RecordTx(ctx, tx, drafts...)
		}))
	}
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
