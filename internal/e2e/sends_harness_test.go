package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/proc"
	"github.com/parley-chat/parley/internal/testkit/truth"
)

const (
	sendTenants   = 2
	numbersPerOrg = 3
	sendClients   = 16
	sendPlan      = "sends"
	// writesEach is how many messages are sent for each that a person writes.
	writesEach = 4
	// providerLatency is how long the simulator waits before its answers, so that kills meet calls.
	providerLatency = 30 * time.Millisecond
)

// sendsFixture has two processes that serve, two that work, and a simulator as the provider.
type sendsFixture struct {
	*fixture
	simulatorControl

	processes []*sendProcess
	tenants   []*sendTenant
	echoWait  time.Duration
	acked     atomic.Int64
	failed    atomic.Bool // a client failed

	mu      sync.Mutex
	calls   []truth.Call
	written []string // the provider's ids of what people wrote
	logs    []string
	kills   int
}

// sendTenant is an organization with its numbers.
type sendTenant struct {
	org, key, canary string
	numbers          []string
}

// sendProcess is a process that is killed: role is "serve" or "work".
type sendProcess struct {
	*server

	role string
}

func newSendsFixture(t *testing.T, echoWait time.Duration, monthly int) *sendsFixture {
	t.Helper()
	f := &sendsFixture{fixture: newFixture(t), echoWait: echoWait}
	f.exec(t, `INSERT INTO plans VALUES ($1, true, true, $2, 1000, 1000000, 365)`, sendPlan, monthly)
	f.simulatorControl = newSimulatorControl(t)
	api := proc.FreeAddress(t)
	settings := f.settings().With(proc.Settings{
		"PARLEY_CELLS": "main", "PARLEY_PROVIDER_BASE_URL": f.simulator, "PARLEY_PROVIDER_APP_ID": "200000000000001",
		"PARLEY_PROVIDER_APP_SECRET": canary.AppSecret, "PARLEY_PROVIDER_VERIFY_TOKEN": canary.VerifyToken,
		"PARLEY_SEND_ECHO_WAIT": echoWait.String(),
	})
	started := f.startSimulator(t, settings, "http://"+api+"/provider/callbacks")
	f.logs = append(f.logs, started.Files()...)
	for range sendTenants {
		f.tenant(t, settings)
	}
	for i, role := range []string{"serve", "serve", "work", "work"} {
		one := &sendProcess{server: &server{api: proc.FreeAddress(t), operator: proc.FreeAddress(t)}, role: role}
		if i == 0 {
			one.api = api // callbacks go to this process alone, so that they wait while it is dead
		}
		one.settings = settings.With(proc.Settings{"PARLEY_LISTEN": one.api, "PARLEY_OPERATOR_LISTEN": one.operator})
		f.processes = append(f.processes, one)
		f.start(t, one)
	}
	return f
}

// start starts a process and waits until it is ready.
func (f *sendsFixture) start(t *testing.T, one *sendProcess) {
	t.Helper()
	one.Process = proc.Start(t, one.settings, one.role)
	f.logs = append(f.logs, one.Files()...)
	one.waitReady(t)
}

// tenant makes an organization and connects its numbers, as an operator does.
func (f *sendsFixture) tenant(t *testing.T, settings proc.Settings) {
	t.Helper()
	org := f.org(t, sendPlan)
	_, key := f.key(t, org)
	one := &sendTenant{org: org.String(), key: key, canary: "canary-" + truth.Mark()[5:]}
	one.numbers = f.connect(t, settings, one.org, len(f.tenants))
	f.tenants = append(f.tenants, one)
}

// send sends the nth message, to a person of its own, and repeats it with the same key until it has
// an answer.
func (f *sendsFixture) send(ctx context.Context, n int, clients [][]*client) error {
	at := n % len(f.tenants)
	tenant, mark := f.tenants[at], truth.Mark()
	number := tenant.numbers[n/len(f.tenants)%len(tenant.numbers)]
	sent := call{
		method: http.MethodPost, path: "/" + number + "/messages", header: map[string]string{"Idempotency-Key": "send-" + mark},
		body: fmt.Sprintf(`{"messaging_product":"chat","to":"+35191%07d","type":"text","text":{"body":"%s %s"}}`, n, mark, tenant.canary),
	}
	note := truth.Call{Org: tenant.org, Key: "send-" + mark, Mark: mark, Event: "message.sent"}
	ctx, cancel := context.WithTimeout(ctx, 5*proc.Patience)
	defer cancel()
	for {
		got, err := clients[at][rand.IntN(len(clients[at]))].once(ctx, sent)
		retry := got.status == http.StatusServiceUnavailable || got.status == http.StatusTooManyRequests ||
			got.code() == "idempotency_in_progress"
		if err == nil && !retry {
			if got.status != http.StatusAccepted {
				return fmt.Errorf("%s: %d %s", sent.path, got.status, got.body)
			}
			note.Status, note.Body = got.status, got.body
			f.mu.Lock()
			defer f.mu.Unlock()
			f.calls = append(f.calls, note)
			f.acked.Add(1)
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %d %s", sent.path, ctx.Err(), got.status, got.body)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// answer has a person write to the number that sent them the nth message.
func (f *sendsFixture) answer(ctx context.Context, n int) error {
	tenant := f.tenants[n%len(f.tenants)]
	id, err := f.writes(ctx, tenant.numbers[n/len(f.tenants)%len(tenant.numbers)], fmt.Sprintf("35191%07d", n))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.written = append(f.written, id)
	return err
}

// sendAll sends count messages; some of their recipients answer. wait returns when all are acknowledged.
func (f *sendsFixture) sendAll(ctx context.Context, count int) (wait func() error) {
	var group errgroup.Group
	var next atomic.Int64
	clients := make([][]*client, len(f.tenants))
	for i, tenant := range f.tenants {
		for _, one := range f.processes {
			if one.role == "serve" {
				clients[i] = append(clients[i], one.client(tenant.key))
			}
		}
	}
	for range sendClients {
		group.Go(func() error {
			for n := next.Add(1); n <= int64(count); n = next.Add(1) {
				err := f.send(ctx, int(n), clients)
				if err == nil && n%writesEach == 0 {
					err = f.answer(ctx, int(n))
				}
				if err != nil {
					f.failed.Store(true)
					return err
				}
			}
			return nil
		})
	}
	return group.Wait
}

// kill kills a process with SIGKILL and starts it again.
func (f *sendsFixture) kill(t *testing.T, one *sendProcess) {
	t.Helper()
	one.Kill()
	f.kills++
	f.start(t, one)
}

// unsettled counts the messages that wait.
func (f *sendsFixture) unsettled(t *testing.T) int {
	t.Helper()
	return f.count(t, `SELECT count(*) FROM message_states WHERE status IN ('queued', 'pending')`)
}

// awaitApplied waits until every message was sent and every callback posted and applied.
func (f *sendsFixture) awaitApplied(t *testing.T) {
	t.Helper()
	f.awaitQuiet(t, func() int { return f.count(t, `SELECT count(*) FROM lane_rows`) })
}

// readAll lists the messages of all numbers by the API and returns how many have each id.
func (f *sendsFixture) readAll(t *testing.T) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for _, tenant := range f.tenants {
		caller := f.processes[0].client(tenant.key)
		for _, number := range tenant.numbers {
			for path := "/" + number + "/messages?limit=100"; path != ""; {
				page, err := caller.get(t.Context(), path)
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, page.status, "%s", page.body)
				var body struct {
					Data       []struct{ ID string }
					NextCursor string `json:"next_cursor"`
				}
				require.NoError(t, json.Unmarshal(page.body, &body))
				for _, one := range body.Data {
					seen[one.ID]++
				}
				if path = ""; body.NextCursor != "" {
					path = "/" + number + "/messages?limit=100&cursor=" + body.NextCursor
				}
			}
		}
	}
	return seen
}

// run is the input of the checker.
func (f *sendsFixture) run(t *testing.T) truth.Run {
	t.Helper()
	run := truth.Run{
		Cells: map[string]string{"main": f.databaseURL, "second": f.secondURL}, Calls: f.calls, Logs: f.logs,
		Canaries: map[string][]string{}, Sends: truth.SimulatorSends(t, f.simulator), EchoWait: f.echoWait, Kills: f.kills,
		Written: f.written,
	}
	for _, tenant := range f.tenants {
		run.Keys = append(run.Keys, tenant.key)
		run.Canaries[tenant.org] = []string{tenant.canary}
	}
	return run
}

// seedOf returns PARLEY_TEST_SEED, or a random number.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	given := os.Getenv("PARLEY_TEST_SEED")
	if given == "" {
		return rand.Uint64()
	}
	seed, err := strconv.ParseUint(given, 10, 64)
	require.NoError(t, err)
	return seed
}
