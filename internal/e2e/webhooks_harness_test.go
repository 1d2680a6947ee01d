package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/parley-chat/parley/internal/testkit/proc"
	"github.com/parley-chat/parley/internal/testkit/proof"
	"github.com/parley-chat/parley/internal/testkit/receiver"
	"github.com/parley-chat/parley/internal/testkit/truth"
)

// sized returns full in a proof and short in CI.
func sized[T any](short, full T) T { return proof.Sized(short, full) }

// webhookFixture has organizations with subscriptions to one receiver, and two processes that serve
// and do background work.
type webhookFixture struct {
	*fixture

	receiver *receiver.Receiver
	servers  []*server
	tenants  []*tenant
	changed  atomic.Int64 // changes that were acknowledged
	failed   atomic.Bool  // a client of publish failed

	mu    sync.Mutex
	calls []truth.Call
	logs  []string
}

// tenant is an organization with its subscriptions.
type tenant struct {
	org, key, canary string
	subscriptions    []*truth.Subscription
	secretIDs        []string
}

func newWebhookFixture(t *testing.T, tenants int, subscriptions [][]string) *webhookFixture {
	t.Helper()
	f := &webhookFixture{fixture: newFixture(t), receiver: receiver.New(t)}
	for range 2 {
		s := &server{api: proc.FreeAddress(t), operator: proc.FreeAddress(t), flags: []string{"--work"}}
		s.settings = f.settings().With(proc.Settings{
			"PARLEY_LISTEN": s.api, "PARLEY_OPERATOR_LISTEN": s.operator, "PARLEY_CELLS": "main",
			"PARLEY_WEBHOOK_ALLOW_NETWORKS": "127.0.0.0/8", "PARLEY_WEBHOOK_CA_FILE": f.receiver.CAFile,
		})
		f.servers = append(f.servers, s)
		f.restart(t, s)
	}
	for i := range tenants {
		org := f.org(t, unlimited)
		_, key := f.key(t, org)
		one := &tenant{org: org.String(), key: key, canary: "canary-" + truth.Mark()[5:]}
		f.tenants = append(f.tenants, one)
		for j, events := range subscriptions {
			f.subscribe(t, one, fmt.Sprintf("/%d/%d", i, j), events)
		}
	}
	return f
}

// restart starts a process, keeps its log files and waits until it is ready.
func (f *webhookFixture) restart(t *testing.T, s *server) {
	t.Helper()
	s.start(t)
	f.logs = append(f.logs, s.Files()...)
	s.waitReady(t)
}

func (f *webhookFixture) subscribe(t *testing.T, of *tenant, path string, events []string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"url": f.receiver.URL + path, "events": events})
	require.NoError(t, err)
	made, err := f.clientOf(of).ask(t.Context(), call{method: http.MethodPost, path: "/webhook_subscriptions", body: string(body)}, truth.Call{})
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, made.status, "%s", made.body)
	data := made.data(t)
	of.subscriptions = append(of.subscriptions, &truth.Subscription{
		Org: of.org, ID: data["id"].(string), Path: path, Events: events, Since: time.Now(),
		Secrets: []truth.Secret{{Text: data["initial_secret"].(string)}},
	})
	of.secretIDs = append(of.secretIDs, data["secrets"].([]any)[0].(map[string]any)["id"].(string))
}

// tenantClient calls the API for one tenant. It picks one of the processes for each request.
type tenantClient struct {
	*webhookFixture

	of      *tenant
	clients []*client
}

func (f *webhookFixture) clientOf(of *tenant) *tenantClient {
	c := &tenantClient{webhookFixture: f, of: of}
	for _, s := range f.servers {
		c.clients = append(c.clients, s.client(of.key))
	}
	return c
}

// ask repeats a request until the answer is neither 503, 429 nor idempotency_in_progress, and
// records the call.
func (c *tenantClient) ask(ctx context.Context, sent call, note truth.Call) (answer, error) {
	note.Org = c.of.org
	if note.Key != "" {
		sent.header = map[string]string{"Idempotency-Key": note.Key}
	}
	ctx, cancel := context.WithTimeout(ctx, 3*proc.Patience)
	defer cancel()
	for {
		got, err := c.clients[rand.IntN(len(c.clients))].once(ctx, sent)
		retry := got.status == http.StatusServiceUnavailable || got.status == http.StatusTooManyRequests ||
			got.code() == "idempotency_in_progress"
		if err == nil && !retry {
			note.Status, note.Body = got.status, got.body
			c.mu.Lock()
			defer c.mu.Unlock()
			c.calls = append(c.calls, note)
			return got, nil
		}
		select {
		case <-ctx.Done():
			return got, fmt.Errorf("%s %s: %w: %d %s", sent.method, sent.path, ctx.Err(), got.status, got.body)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// metadata is JSON that changes when it is decoded and encoded again.
func (c *tenantClient) metadata(mark string) string {
	return fmt.Sprintf(`{"mark":%q,"canary":%q,"html":"<&> %s","lines":"a%sb\u2028","large":12345678901234567,"exact":1.50}`,
		mark, c.of.canary, "</script>", "\u2028\u2029")
}

const eventsPerCustomer = 4

// customer creates a customer and updates it, which makes eventsPerCustomer events.
func (c *tenantClient) customer(ctx context.Context, pace <-chan time.Time) error {
	mark := truth.Mark()
	creation := call{method: http.MethodPost, path: "/customers", body: fmt.Sprintf(`{"name":"Customer","metadata":%s}`, c.metadata(mark))}
	asked := truth.Call{Key: "create-" + mark, Mark: mark, Event: "customer.created"}
	created, err := c.ask(ctx, creation, asked)
	if err != nil {
		return err
	}
	c.changed.Add(1)
	if rand.IntN(20) == 0 { // repeats the request, as after a lost answer
		if _, err := c.ask(ctx, creation, asked); err != nil {
			return err
		}
	}
	var body struct{ Data struct{ ID string } }
	if err := json.Unmarshal(created.body, &body); err != nil || created.status != http.StatusCreated {
		return fmt.Errorf("%d %s: %w", created.status, created.body, err)
	}
	for range eventsPerCustomer - 1 {
		if pace != nil {
			<-pace
		}
		mark := truth.Mark()
		change := call{method: http.MethodPatch, path: "/customers/" + body.Data.ID, body: fmt.Sprintf(`{"metadata":%s}`, c.metadata(mark))}
		changed, err := c.ask(ctx, change, truth.Call{Mark: mark, Event: "customer.updated"})
		if err != nil {
			return err
		}
		if changed.status != http.StatusOK {
			return fmt.Errorf("%d %s", changed.status, changed.body)
		}
		c.changed.Add(1)
	}
	return nil
}

const clientsPerTenant = 2

// publish makes that many events in all tenants together. wait returns when all are acknowledged.
func (f *webhookFixture) publish(ctx context.Context, events int, pace <-chan time.Time) (wait func() error) {
	var group errgroup.Group
	var begun atomic.Int64
	for i := range len(f.tenants) * clientsPerTenant {
		caller := f.clientOf(f.tenants[i%len(f.tenants)])
		group.Go(func() error {
			for begun.Add(eventsPerCustomer) <= int64(events) {
				if err := caller.customer(ctx, pace); err != nil {
					f.failed.Store(true)
					return err
				}
			}
			return nil
		})
	}
	return group.Wait
}

// awaitChanges waits until that many changes were acknowledged, or a client failed. The wait of
// publish returns the error of that client.
func (f *webhookFixture) awaitChanges(t *testing.T, wanted int, within time.Duration) {
	t.Helper()
	proc.Eventually(t, within, fmt.Sprint(wanted, " changes"), func() bool { return f.failed.Load() || f.changed.Load() >= int64(wanted) })
}

const sqlUndelivered = `
SELECT (SELECT count(*) FROM lane_rows) + (SELECT count(*) FROM webhook_deliveries WHERE status <> 'succeeded')`

// awaitDelivered waits until all deliveries succeeded, and returns how long that took.
func (f *webhookFixture) awaitDelivered(t *testing.T, within time.Duration) time.Duration {
	t.Helper()
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		left := f.count(t, sqlUndelivered)
		if left == 0 {
			return time.Since(began)
		}
		if time.Since(began) > within {
			require.FailNow(t, "waited in vain", "after %s %d wait or are not delivered\n%s", within, left, f.describe(t))
		}
	}
}

// describe lists the lanes with waiting rows and counts deliveries by status, for the failure message.
func (f *webhookFixture) describe(t *testing.T) (text string) {
	t.Helper()
	require.NoError(t, f.sql.QueryRow(t.Context(), `
SELECT coalesce((SELECT string_agg(to_jsonb(l)::text || ' ' || waiting.rows || ' rows from ' || waiting.due, E'\n')
    FROM lanes l
    JOIN (SELECT lane_id, count(*) AS rows, min(due_at) AS due FROM lane_rows GROUP BY 1) waiting USING (lane_id)), 'no lanes')
    || E'\n' || coalesce((SELECT string_agg(status || ' ' || number, ', ')
    FROM (SELECT status, count(*) AS number FROM webhook_deliveries GROUP BY 1) d), 'no deliveries')`).Scan(&text))
	return text
}

// run is the input of the checker.
func (f *webhookFixture) run() truth.Run {
	run := truth.Run{
		Cells: map[string]string{"main": f.databaseURL, "second": f.secondURL}, Calls: f.calls, Requests: f.receiver.Requests(),
		Canaries: map[string][]string{}, Logs: f.logs,
	}
	for _, one := range f.tenants {
		run.Keys = append(run.Keys, one.key)
		run.Canaries[one.org] = []string{one.canary}
		for _, subscription := range one.subscriptions {
			run.Subscriptions = append(run.Subscriptions, *subscription)
		}
	}
	return run
}

// requireOrder checks that each endpoint received the events of a customer in the order in which
// they happened.
func requireOrder(t *testing.T, requests []receiver.Request) {
	t.Helper()
	type key struct{ path, customer string }
	last, seen := map[key]string{}, map[string]bool{}
	for _, one := range requests {
		if seen[one.Path+one.EventUID()] {
			continue // a repeated delivery
		}
		seen[one.Path+one.EventUID()] = true
		var body struct {
			Data struct{ Customer struct{ ID string } }
		}
		require.NoError(t, json.Unmarshal(one.Body, &body))
		require.NotEmpty(t, body.Data.Customer.ID)
		at := key{one.Path, body.Data.Customer.ID}
		require.Less(t, last[at], one.EventUID(), "%s received events of %s in the wrong order", one.Path, at.customer)
		last[at] = one.EventUID()
	}
}

// oneIn chooses about one in n deliveries, by a hash of the id.
func oneIn(n uint32, delivery string) bool {
	digest := fnv.New32a()
	_, _ = digest.Write([]byte(delivery))
	return digest.Sum32()%n == 0
}

// repeats is how many requests were not the first of their delivery.
func repeats(requests []receiver.Request) int {
	seen := map[string]bool{}
	for _, one := range requests {
		seen[one.DeliveryID()] = true
	}
	return len(requests) - len(seen)
}

func rateOf(n int, took time.Duration) string {
	return fmt.Sprintf("%.0f/s", float64(n)/took.Seconds())
}
