package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/domain/messages/content"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/sealed"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/simulator"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

// sendFixture has a process that serves the API and sends, and the simulator, which answers each send
// after 100 ms.
type sendFixture struct {
	*fixture

	home   *cell.Cell
	sim    *arrivals
	server *server
	serial int
}

const sendLatency = 100 * time.Millisecond

func newSendFixture(t *testing.T) *sendFixture {
	t.Helper()
	f := &sendFixture{fixture: newFixture(t), sim: newArrivals(t)}
	db, now := pgtest.Connect(t, f.databaseURL), clock.NewSynced()
	ring, err := sealed.NewKeyring([]string{canary.Master})
	require.NoError(t, err)
	f.home, err = cell.New(cell.Deps{
		Name: "main", DB: db, Clock: now, Directory: directory.New(db, now), Ring: ring, Logger: canary.Logger(t),
	})
	require.NoError(t, err)
	f.server = &server{api: proc.FreeAddress(t), operator: proc.FreeAddress(t), flags: []string{"--work"}}
	f.server.settings = f.settings().With(proc.Settings{
		"PARLEY_LISTEN": f.server.api, "PARLEY_OPERATOR_LISTEN": f.server.operator, "PARLEY_CELLS": "main",
		"PARLEY_PROVIDER_APP_ID": simulator.DefaultAppID, "PARLEY_PROVIDER_APP_SECRET": canary.AppSecret,
		"PARLEY_PROVIDER_VERIFY_TOKEN": canary.VerifyToken, "PARLEY_PROVIDER_BASE_URL": f.sim.url,
	})
	f.server.start(t)
	f.server.waitReady(t)
	return f
}

// sender is a number of an organization.
type sender struct {
	org     orgs.ID
	account accounts.Account
}

// number connects a number that the simulator knows.
func (f *sendFixture) number(t *testing.T, org orgs.ID, customer *customers.ID) sender {
	t.Helper()
	f.serial++
	number, business := fmt.Sprintf("1%014d", f.serial), fmt.Sprintf("2%014d", f.serial)
	phone := fmt.Sprintf("+3512%08d", f.serial)
	f.sim.control(t, "accounts", map[string]any{"id": business})
	f.sim.control(t, "numbers", map[string]any{"id": number, "waba_id": business, "display_phone_number": phone})
	account, err := f.home.Accounts.Attach(t.Context(), org, audit.Operator(), accounts.Draft{
		CustomerID: customer, BusinessAccountID: business, PhoneNumberID: number, Token: provider.NewToken(canary.Token),
	}, provider.NumberState{Phone: phone, Name: number, Status: provider.NumberConnected}, time.Now())
	require.NoError(t, err)
	return sender{org: org, account: account}
}

func plainText(t *testing.T) content.Content {
	t.Helper()
	parsed, err := content.Parse(provider.TypeText, json.RawMessage(`{"body":"Hello"}`))
	require.NoError(t, err)
	return parsed
}

// queue accepts bulk messages of a number, in turn to contacts whose numbers start with prefix.
func (f *sendFixture) queue(t *testing.T, from sender, prefix string, people, count int) {
	t.Helper()
	body := plainText(t)
	for done := 0; done < count; done += people {
		drafts := make([]messages.Draft, min(people, count-done))
		for i := range drafts {
			drafts[i] = messages.Draft{To: fmt.Sprintf("%s%05d", prefix, i), Content: body, Source: messages.FromBroadcast}
		}
		_, err := postgres.InTx(t.Context(), f.home.DB, from.org, func(tx *postgres.Tx) ([]messages.Answer, error) {
			return f.home.Messages.AcceptManyTx(t.Context(), tx, from.account, messages.Terms{}, drafts)
		})
		require.NoError(t, err)
	}
}

// wrote makes a contact that wrote just now, so that messages to it are replies.
func (f *sendFixture) wrote(t *testing.T, to sender, phone string) {
	t.Helper()
	contact, err := f.home.Contacts.Create(t.Context(), to.org, to.account, contacts.Draft{PhoneNumber: &phone})
	require.NoError(t, err)
	_, err = postgres.InTx(t.Context(), f.home.DB, to.org, func(tx *postgres.Tx) ([]conversations.Thread, error) {
		return f.home.Conversations.SaidTx(t.Context(), tx, to.account, []conversations.Message{
			{ContactID: contact.ID, At: time.Now(), Inbound: true},
		})
	})
	require.NoError(t, err)
}

// reply sends a text over the API and returns when the request was sent.
func (f *sendFixture) reply(t *testing.T, from sender, caller *client, phone string) time.Time {
	t.Helper()
	began := time.Now()
	got, err := caller.do(t.Context(), call{
		method: http.MethodPost, path: "/" + *from.account.PhoneNumberID + "/messages",
		body: `{"messaging_product":"chat","to":"` + phone + `","type":"text","text":{"body":"Hello"}}`,
	})
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, got.status, "%s", got.body)
	return began
}

// arrivals is a simulator that keeps when each send arrived.
type arrivals struct {
	url string

	mu   sync.Mutex
	all  []arrival
	byTo map[string]time.Time
}

// arrival is a send that reached the simulator.
type arrival struct {
	number, to, reference string
	at                    time.Time
}

func newArrivals(t *testing.T) *arrivals {
	t.Helper()
	network := simulator.New(simulator.Config{
		AppID: simulator.DefaultAppID, AppSecret: canary.AppSecret, VerifyToken: canary.VerifyToken, Token: canary.Token, Logger: canary.Logger(t),
	})
	a, handler := &arrivals{byTo: map[string]time.Time{}}, network.Handler()
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/messages") {
			a.note(r)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(served.Close)
	a.url = served.URL
	a.control(t, "settings", map[string]any{"silent": true, "throughput_limit": false, "pair_limit": false})
	a.control(t, "script", map[string]any{"match": map[string]any{}, "outcome": map[string]any{"latency_ms": sendLatency.Milliseconds()}})
	return a
}

func (a *arrivals) note(r *http.Request) {
	now := time.Now()
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var sent struct {
		To        string `json:"to"`
		Reference string `json:"biz_opaque_callback_data"`
	}
	_ = json.Unmarshal(body, &sent) // the simulator refuses what is no JSON
	parts := strings.Split(r.URL.Path, "/")
	to := "+" + strings.TrimPrefix(sent.To, "+")
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, arrival{number: parts[len(parts)-2], to: to, reference: sent.Reference, at: now})
	if _, known := a.byTo[to]; !known {
		a.byTo[to] = now
	}
}

// first is when the first send to a number arrived.
func (a *arrivals) first(to string) (at time.Time, arrived bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, arrived = a.byTo[to]
	return at, arrived
}

// of are the sends of a number, in the order of their arrival.
func (a *arrivals) of(from sender) (sent []arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range a.all {
		if one.number == *from.account.PhoneNumberID {
			sent = append(sent, one)
		}
	}
	return sent
}

func (a *arrivals) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.all)
}

func (a *arrivals) control(t *testing.T, path string, body any) {
	t.Helper()
	encoded, err := json.Marshal(body)
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, a.url+"/sim/"+path, bytes.NewReader(encoded))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode, "%s: %s", path, answer)
}
