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

// sized is full in a proof, and short in CI.
func sized[T any](short, full T) T { return proof.Sized(short, full) }

// village is organizations that hear of their customers at one receiver, served by two
// processes that also work.
type village struct {
	*world

	receiver *receiver.Receiver
	servers  []*server
	tenants  []*tenant
	changed  atomic.Int64 // changes that were acknowledged
	failed   atomic.Bool  // somebody gave up

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

func newVillage(t *testing.T, tenants int, subscriptions [][]string) *village {
	t.Helper()
	v := &village{world: newWorld(t), receiver: receiver.New(t)}
	for range 2 {
		s := &server{api: proc.FreeAddress(t), operator: proc.FreeAddress(t), flags: []string{"--work"}}
		s.settings = v.settings().With(proc.Settings{
			"PARLEY_LISTEN": s.api, "PARLEY_OPERATOR_LISTEN": s.operator, "PARLEY_CELLS": "main",
			"PARLEY_WEBHOOK_ALLOW_NETWORKS": "127.0.0.0/8", "PARLEY_WEBHOOK_CA_FILE": v.receiver.CAFile,
		})
		v.servers = append(v.servers, s)
		v.restart(t, s)
	}
	for i := range tenants {
		org := v.org(t, unlimited)
		_, key := v.key(t, org)
		one := &tenant{org: org.String(), key: key, canary: "canary-" + truth.Mark()[5:]}
		v.tenants = append(v.tenants, one)
		for j, events := range subscriptions {
			v.subscribe(t, one, fmt.Sprintf("/%d/%d", i, j), events)
		}
	}
	return v
}

// restart starts a process, keeps what it writes and waits until it is ready.
func (v *village) restart(t *testing.T, s *server) {
	t.Helper()
	s.start(t)
	v.logs = append(v.logs, s.Files()...)
	s.waitReady(t)
}

func (v *village) subscribe(t *testing.T, of *tenant, path string, events []string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"url": v.receiver.URL + path, "events": events})
	require.NoError(t, err)
	made, err := v.envoy(of).ask(t.Context(), call{method: http.MethodPost, path: "/webhook_subscriptions", body: string(body)}, truth.Call{})
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, made.status, "%s", made.body)
	data := made.data(t)
	of.subscriptions = append(of.subscriptions, &truth.Subscription{
		Org: of.org, ID: data["id"].(string), Path: path, Events: events, Since: time.Now(),
		Secrets: []truth.Secret{{Text: data["initial_secret"].(string)}},
	})
	of.secretIDs = append(of.secretIDs, data["secrets"].([]any)[0].(map[string]any)["id"].(string))
}

// envoy asks for one tenant, now this process and now the other, until it is answered.
type envoy struct {
	*village

	of      *tenant
	clients []*client
}

func (v *village) envoy(of *tenant) *envoy {
	c := &envoy{village: v, of: of}
	for _, s := range v.servers {
		c.clients = append(c.clients, s.client(of.key))
	}
	return c
}

// ask asks until there is an answer that is more than a request for patience, and notes it.
func (c *envoy) ask(ctx context.Context, sent call, note truth.Call) (answer, error) {
	note.Org = c.of.org
	if note.Key != "" {
		sent.header = map[string]string{"Idempotency-Key": note.Key}
	}
	ctx, cancel := context.WithTimeout(ctx, 3*proc.Patience)
	defer cancel()
	for {
		got, err := c.clients[rand.IntN(len(c.clients))].once(ctx, sent)
		patience := got.status == http.StatusServiceUnavailable || got.status == http.StatusTooManyRequests ||
			got.code() == "idempotency_in_progress"
		if err == nil && !patience {
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

// metadata is hard to carry: whoever decodes and encodes it changes it.
func (c *envoy) metadata(mark string) string {
	return fmt.Sprintf(`{"mark":%q,"canary":%q,"html":"<&> %s","lines":"a%sb\u2028","large":12345678901234567,"exact":1.50}`,
		mark, c.of.canary, "</script>", "\u2028\u2029")
}

const eventsOfACustomer = 4

// customer makes a customer and changes it: so many events as eventsOfACustomer.
func (c *envoy) customer(ctx context.Context, pace <-chan time.Time) error {
	mark := truth.Mark()
	creation := call{method: http.MethodPost, path: "/customers", body: fmt.Sprintf(`{"name":"Customer","metadata":%s}`, c.metadata(mark))}
	asked := truth.Call{Key: "create-" + mark, Mark: mark, Event: "customer.created"}
	created, err := c.ask(ctx, creation, asked)
	if err != nil {
		return err
	}
	c.changed.Add(1)
	if rand.IntN(20) == 0 { // as if the answer had been lost
		if _, err := c.ask(ctx, creation, asked); err != nil {
			return err
		}
	}
	var body struct{ Data struct{ ID string } }
	if err := json.Unmarshal(created.body, &body); err != nil || created.status != http.StatusCreated {
		return fmt.Errorf("%d %s: %w", created.status, created.body, err)
	}
	for range eventsOfACustomer - 1 {
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

const envoysOfATenant = 2

// publish has the tenants make so many events together; wait says when all are acknowledged.
func (v *village) publish(ctx context.Context, events int, pace <-chan time.Time) (wait func() error) {
	var group errgroup.Group
	var begun atomic.Int64
	for i := range len(v.tenants) * envoysOfATenant {
		envoy := v.envoy(v.tenants[i%len(v.tenants)])
		group.Go(func() error {
			for begun.Add(eventsOfACustomer) <= int64(events) {
				if err := envoy.customer(ctx, pace); err != nil {
					v.failed.Store(true)
					return err
				}
			}
			return nil
		})
	}
	return group.Wait
}

// awaitChanges waits until so many changes were acknowledged, or somebody gave up: why is known to the wait of publish.
func (v *village) awaitChanges(t *testing.T, wanted int, within time.Duration) {
	t.Helper()
	proc.Eventually(t, within, fmt.Sprint(wanted, " changes"), func() bool { return v.failed.Load() || v.changed.Load() >= int64(wanted) })
}

const sqlUndelivered = `
SELECT (SELECT count(*) FROM lane_rows) + (SELECT count(*) FROM webhook_deliveries WHERE status <> 'succeeded')`

// awaitSilence waits until nothing waits, and returns how long that took.
func (v *village) awaitSilence(t *testing.T, within time.Duration) time.Duration {
	t.Helper()
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		left := v.count(t, sqlUndelivered)
		if left == 0 {
			return time.Since(began)
		}
		if time.Since(began) > within {
			require.FailNow(t, "waited in vain", "after %s %d wait or are not delivered\n%s", within, left, v.describe(t))
		}
	}
}

// describe shows what waits, for who must find out why.
func (v *village) describe(t *testing.T) (text string) {
	t.Helper()
	require.NoError(t, v.sql.QueryRow(t.Context(), `
SELECT coalesce((SELECT string_agg(to_jsonb(l)::text || ' ' || waiting.rows || ' rows from ' || waiting.due, E'\n')
    FROM lanes l
    JOIN (SELECT lane_id, count(*) AS rows, min(due_at) AS due FROM lane_rows GROUP BY 1) waiting USING (lane_id)), 'no lanes')
    || E'\n' || coalesce((SELECT string_agg(status || ' ' || number, ', ')
    FROM (SELECT status, count(*) AS number FROM webhook_deliveries GROUP BY 1) d), 'no deliveries')`).Scan(&text))
	return text
}

// run is what the checker judges.
func (v *village) run() truth.Run {
	run := truth.Run{
		Cells: map[string]string{"main": v.databaseURL, "second": v.secondURL}, Calls: v.calls, Requests: v.receiver.Requests(),
		Canaries: map[string][]string{}, Logs: v.logs,
	}
	for _, one := range v.tenants {
		run.Keys = append(run.Keys, one.key)
		run.Canaries[one.org] = []string{one.canary}
		for _, subscription := range one.subscriptions {
			run.Subscriptions = append(run.Subscriptions, *subscription)
		}
	}
	return run
}

// requireOrder: of one customer, each endpoint heard in the order in which it happened.
func requireOrder(t *testing.T, requests []receiver.Request) {
	t.Helper()
	type ear struct{ path, customer string }
	last, seen := map[ear]string{}, map[string]bool{}
	for _, one := range requests {
		if seen[one.Path+one.EventUID()] {
			continue // again
		}
		seen[one.Path+one.EventUID()] = true
		var body struct {
			Data struct{ Customer struct{ ID string } }
		}
		require.NoError(t, json.Unmarshal(one.Body, &body))
		require.NotEmpty(t, body.Data.Customer.ID)
		at := ear{one.Path, body.Data.Customer.ID}
		require.Less(t, last[at], one.EventUID(), "%s heard of %s in the wrong order", one.Path, at.customer)
		last[at] = one.EventUID()
	}
}

// oneIn chooses some deliveries, always the same.
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
