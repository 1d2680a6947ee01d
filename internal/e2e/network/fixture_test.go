// Package network_test runs the adapter against the simulator. Both were written independently from
// the provider's documentation, so that a mistake in one of them fails a test.
package network_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/telemetry"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/provider/cloud"
	"github.com/parley-chat/parley/internal/simulator"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

// Canaries: none of them may ever be printed.
const (
	appSecret   = "canary-app-secret"
	oldSecret   = "canary-old-secret"
	verifyToken = "canary-verify-token"
	token       = "canary-token"
)

const (
	ada   = "+15550100001"
	grace = "+15550100002"
)

type object = map[string]any

// fixture has a simulator, and the adapter that calls it and receives its callbacks.
type fixture struct {
	t      *testing.T
	url    string
	client *cloud.Client
	number provider.Number
	owner  provider.BusinessAccount
	// received are notifications that next has not read yet; early are those that it skipped.
	received chan provider.Notification
	early    []provider.Notification
	log      *syncedBuffer
	http     *http.Client
}

// syncedBuffer is a log that can be read while it is written.
type syncedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncedBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(line)
}

func (b *syncedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func start(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, received: make(chan provider.Notification, 10_000), log: &syncedBuffer{}, http: &http.Client{Transport: &http.Transport{}}}
	app := httptest.NewServer(http.HandlerFunc(f.receive))
	network := simulator.New(simulator.Config{
		AppSecret: appSecret, VerifyToken: verifyToken, Token: token, CallbackURL: app.URL,
		Logger: canary.Logger(t, slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	server := httptest.NewServer(network.Handler())
	f.url = server.URL
	f.client = f.adapter(appSecret)
	f.number = provider.Number{ID: simulator.DefaultPhoneNumberID, Token: provider.NewToken(token)}
	f.owner = provider.BusinessAccount{ID: simulator.DefaultAccountID, Token: provider.NewToken(token)}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- network.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
		f.client.Close()
		f.http.CloseIdleConnections()
		server.Close()
		app.Close()
		requireNoCanary(t, f.log.String())
	})
	f.sim("settings", object{
		"sent_delay_ms": 0, "delivered_delay_ms": 5, "read_delay_ms": 10, "review_delay_ms": 0, "window": "off",
		"throughput_limit": false, "pair_limit": false, "management_limit": false, "fetch_links": false,
	})
	return f
}

// adapter makes a client of this simulator. It has several secrets during a rotation.
func (f *fixture) adapter(secrets ...telemetry.Secret) *cloud.Client {
	f.t.Helper()
	client, err := cloud.New(cloud.Config{
		BaseURL: f.url, AppID: simulator.DefaultAppID, AppSecrets: secrets, VerifyToken: verifyToken, Timeout: time.Minute,
	})
	require.NoError(f.t, err)
	f.t.Cleanup(client.Close)
	return client
}

// receive handles callbacks as the edge does: verify, parse, answer 200.
func (f *fixture) receive(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		if answer, ours := f.client.Challenge(r.URL.Query()); ours {
			_, _ = io.WriteString(w, answer)
			return
		}
		w.WriteHeader(http.StatusForbidden)
		return
	}
	body, _ := io.ReadAll(r.Body)
	if _, err := f.client.Verify(r.Header, body); err != nil {
		f.t.Errorf("a genuine callback is refused: %v", err)
	}
	notifications, err := f.client.Parse(body)
	if err != nil {
		f.t.Errorf("a genuine callback cannot be read: %v", err)
	}
	for _, one := range notifications {
		if unknown, is := one.Item.(provider.Unknown); is && one.Field != "payment_configuration_update" {
			f.t.Errorf("%s is not parsed: %s: %s", one.Field, unknown.Reason, one.Raw)
		}
		f.received <- one
	}
}

// next returns the first notification that fits, and keeps the others for later calls.
func next[T provider.Item](f *fixture, fits func(T) bool) (provider.Notification, T) {
	f.t.Helper()
	for i, one := range f.early {
		if item, is := one.Item.(T); is && fits(item) {
			f.early = append(f.early[:i:i], f.early[i+1:]...)
			return one, item
		}
	}
	deadline := time.After(3 * time.Minute)
	for {
		select {
		case one := <-f.received:
			if item, is := one.Item.(T); is && fits(item) {
				return one, item
			}
			f.early = append(f.early, one)
		case <-deadline:
			var none T
			require.FailNow(f.t, "no such notification", "%T", none)
		}
	}
}

// sim calls the simulator's control API.
func (f *fixture) sim(path string, body any) object {
	f.t.Helper()
	encoded, err := json.Marshal(body)
	require.NoError(f.t, err)
	request, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.url+"/sim/"+path, bytes.NewReader(encoded))
	require.NoError(f.t, err)
	response, err := f.http.Do(request)
	require.NoError(f.t, err)
	defer response.Body.Close()
	answer := object{}
	require.NoError(f.t, json.NewDecoder(response.Body).Decode(&answer))
	require.Equal(f.t, http.StatusOK, response.StatusCode, "%s: %v", path, answer)
	return answer
}

// sent are the messages that the simulator accepted.
func (f *fixture) sent(reference string) []any {
	f.t.Helper()
	request, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, f.url+"/sim/sent?opaque="+url.QueryEscape(reference), http.NoBody)
	require.NoError(f.t, err)
	response, err := f.http.Do(request)
	require.NoError(f.t, err)
	defer response.Body.Close()
	var answer struct {
		Data []any `json:"data"`
	}
	require.NoError(f.t, json.NewDecoder(response.Body).Decode(&answer))
	return answer.Data
}

func text(body string) json.RawMessage { return json.RawMessage(`{"body":"` + body + `"}`) }

func (f *fixture) send(message provider.Outbound) (provider.Accepted, error) {
	if message.Type == "" {
		message.Type, message.Content = provider.TypeText, text("hello")
	}
	return f.client.Send(f.t.Context(), f.number, message)
}

// refused requires an error of the provider, which contains no secret.
func refused(t *testing.T, err error) *provider.Error {
	t.Helper()
	failed, ok := provider.As(err)
	require.True(t, ok, "%v is not the provider's", err)
	requireNoCanary(t, fmt.Sprintf("%v %+v %#v %s %q %s", err, err, err, failed.Title, failed.Details, failed.Words()))
	return failed
}

func requireNoCanary(t *testing.T, printed string) {
	t.Helper()
	require.NotContains(t, printed, "canary", "a secret was printed")
}
