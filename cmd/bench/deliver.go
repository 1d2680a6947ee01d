package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/webhooks"
)

// deliverFigures are what `deliver` measures.
type deliverFigures struct {
	// BarePost is deliveries against a loop that signs and posts the same bodies, OneJobEach
	// against one River job for each delivery with the same client.
	BarePost   *float64 `json:"bare_post,omitempty"`
	OneJobEach *float64 `json:"one_job_each,omitempty"`
	// From the API's answer to the receiver having the whole POST.
	P50Ms *float64 `json:"p50_ms,omitempty"`
	P99Ms *float64 `json:"p99_ms,omitempty"`
	// Deliveries a second while publishers publish, to one subscription and to twenty.
	PerSecond1  *float64 `json:"per_second_1,omitempty"`
	PerSecond20 *float64 `json:"per_second_20,omitempty"`
	// The healthy endpoint's p99 beside a dead and a slow one, and during a bulk replay,
	// against that without.
	Isolation *float64 `json:"isolation_p99,omitempty"`
	Replay    *float64 `json:"replay_p99,omitempty"`
}

type deliverOptions struct {
	server, redis, only, profile string
	scale                        float64
}

func (o deliverOptions) asked(part string) bool {
	return o.only == "" || slices.Contains(strings.Split(o.only, ","), part)
}

func (o deliverOptions) many(usual int) int { return max(1, int(float64(usual)*o.scale)) }

// deliver measures webhooks, from the change to the receiver, over HTTPS on loopback.
func deliver(ctx context.Context, args []string) (any, error) {
	flags, given := flag.NewFlagSet("deliver", flag.ContinueOnError), deliverOptions{}
	flags.StringVar(&given.server, "postgres", localServer, "a server on which scratch databases may be made")
	flags.StringVar(&given.redis, "redis", "redis://127.0.0.1:6379", "for the token buckets; empty keeps them in the process")
	flags.StringVar(&given.only, "only", "", "measure only these parts, separated by commas: dense, latency, rates, trouble")
	flags.StringVar(&given.profile, "profile", "", "write a CPU profile of the whole run to this file")
	flags.Float64Var(&given.scale, "scale", 1, "how much of everything")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	stop, err := startProfile(given.profile)
	if err != nil {
		return nil, err
	}
	defer stop()
	figures := &deliverFigures{}
	for part, measure := range map[string]func(context.Context, deliverOptions, *deliverFigures) error{
		"dense": benchDense, "latency": benchLatency, "rates": benchRates, "trouble": benchTrouble,
	} {
		if !given.asked(part) {
			continue
		}
		if err := measure(ctx, given, figures); err != nil {
			return nil, fmt.Errorf("%s: %w", part, err)
		}
	}
	return figures, nil
}

// house is a process that serves and works, an endpoint for its webhooks, and one
// organization.
type house struct {
	*target

	cell *app.Cell
	org  orgs.ID
	sink *sink
	url  string
}

// openHouse builds a house; it works once run is called.
func openHouse(ctx context.Context, given deliverOptions) (h *house, err error) {
	h = &house{target: &target{}}
	defer func() {
		if err != nil {
			h.stop()
		}
	}()
	if h.sink, err = openSink(ctx); err != nil {
		return h, err
	}
	h.undo = append(h.undo, h.sink.close)
	database, drop, err := scratchDatabase(ctx, given.server)
	if err != nil {
		return h, err
	}
	h.undo = append(h.undo, drop)
	h.process, err = newProcess(ctx, map[string]string{
		"PARLEY_DATABASE_URL": database, "PARLEY_REDIS_URL": given.redis, "PARLEY_MASTER_KEY": app.DevMasterKey(),
		"PARLEY_LISTEN": "127.0.0.1:0", "PARLEY_OPERATOR_LISTEN": "127.0.0.1:0",
		"PARLEY_PROVIDER_APP_ID": "1", "PARLEY_PROVIDER_APP_SECRET": callbackSecret, "PARLEY_PROVIDER_VERIFY_TOKEN": "bench",
		"PARLEY_WEBHOOK_ALLOW_NETWORKS": "127.0.0.0/8", "PARLEY_WEBHOOK_CA_FILE": h.sink.caFile,
	})
	if err != nil {
		return h, err
	}
	if h.cell, err = h.process.Cells().ForNew(ctx); err != nil {
		return h, err
	}
	key, err := fillCell(ctx, h.cell)
	if err != nil {
		return h, err
	}
	h.keys = []string{key}
	tenants, err := h.cell.Orgs.List(ctx)
	if err == nil {
		h.org = tenants[0].OrgID
	}
	return h, err
}

var errNotReady = errors.New("the process did not get ready")

// run serves and works until it is stopped.
func (h *house) run(ctx context.Context, roles app.Roles) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	ready, ended := make(chan string, 1), make(chan error, 1)
	roles.Ready = func(address string) { ready <- address }
	go func() { ended <- h.process.Run(ctx, roles) }()
	stop = func() {
		cancel()
		if err := <-ended; err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}
	select {
	case h.url = <-ready:
		h.url = "http://" + h.url + "/v1"
		return stop, nil
	case err := <-ended:
		cancel()
		return nil, errors.Join(errNotReady, err)
	}
}

// subscribe adds so many subscriptions to everything.
func (h *house) subscribe(ctx context.Context, org orgs.ID, count int) error {
	for i := range count {
		draft := webhooks.Draft{URL: fmt.Sprintf("%s/%d", h.sink.url, i), Events: []events.Type{events.CustomerCreated, replayedType}}
		if _, err := h.cell.Webhooks.Create(ctx, org, draft); err != nil {
			return err
		}
	}
	return nil
}

// publisher makes customers through the API.
type publisher struct {
	client *http.Client
	url    string
	key    string
	serial *atomic.Int64
}

func (h *house) publisher() publisher {
	transport := &http.Transport{MaxIdleConnsPerHost: publishers}
	return publisher{client: &http.Client{Transport: transport}, url: h.url + "/customers", key: h.keys[0], serial: &atomic.Int64{}}
}

// publish makes one customer and returns its id, and when the answer was there.
func (p publisher) publish(ctx context.Context) (id string, at time.Time, err error) {
	body := fmt.Sprintf(`{"name":"Customer %d","metadata":{"plan":"gold"}}`, p.serial.Add(1))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, strings.NewReader(body))
	if err != nil {
		return "", at, err
	}
	request.Header.Set("Authorization", "Bearer "+p.key)
	request.Header.Set("Content-Type", "application/json")
	response, err := p.client.Do(request)
	if err != nil {
		return "", at, err
	}
	defer response.Body.Close() //nolint:errcheck // read to its end
	var answer struct {
		Data struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	err = json.NewDecoder(response.Body).Decode(&answer)
	at = time.Now()
	if err == nil && response.StatusCode != http.StatusCreated {
		err = fmt.Errorf("answered %s", response.Status)
	}
	return answer.Data.ID, at, err
}
