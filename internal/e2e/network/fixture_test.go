// Package network_test holds the adapter against the simulator: two readings of the same
// wire, written apart. What one sends the other takes, for every operation and every error.
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

// stage is a network, and the adapter that calls it and is called back.
type stage struct {
	t      *testing.T
	url    string
	client *cloud.Client
	number provider.Number
	owner  provider.BusinessAccount
	heard  chan provider.Notification
	early  []provider.Notification // heard before they were asked for
	log    *journal
	http   *http.Client
}

// journal is a log that is written and read at once.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(line)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func start(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, heard: make(chan provider.Notification, 10_000), log: &journal{}, http: &http.Client{Transport: &http.Transport{}}}
	app := httptest.NewServer(http.HandlerFunc(s.hear))
	network := simulator.New(simulator.Config{
		AppSecret: appSecret, VerifyToken: verifyToken, Token: token, CallbackURL: app.URL,
		Logger: canary.Logger(t, slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	server := httptest.NewServer(network.Handler())
	s.url = server.URL
	s.client = s.adapter(appSecret)
	s.number = provider.Number{ID: simulator.DefaultPhoneNumberID, Token: provider.NewToken(token)}
	s.owner = provider.BusinessAccount{ID: simulator.DefaultAccountID, Token: provider.NewToken(token)}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- network.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
		s.client.Close()
		s.http.CloseIdleConnections()
		server.Close()
		app.Close()
		requireNoCanary(t, s.log.String())
	})
	s.sim("settings", object{
		"sent_delay_ms": 0, "delivered_delay_ms": 5, "read_delay_ms": 10, "review_delay_ms": 0, "window": "off",
		"throughput_limit": false, "pair_limit": false, "management_limit": false, "fetch_links": false,
	})
	return s
}

// adapter is a client of this network; secrets as during a rotation.
func (s *stage) adapter(secrets ...telemetry.Secret) *cloud.Client {
	s.t.Helper()
	client, err := cloud.New(cloud.Config{
		BaseURL: s.url, AppID: simulator.DefaultAppID, AppSecrets: secrets, VerifyToken: verifyToken, Timeout: time.Minute,
	})
	require.NoError(s.t, err)
	s.t.Cleanup(client.Close)
	return client
}

// hear takes callbacks as the edge will: verify, parse, 200.
func (s *stage) hear(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		if answer, ours := s.client.Challenge(r.URL.Query()); ours {
			_, _ = io.WriteString(w, answer)
			return
		}
		w.WriteHeader(http.StatusForbidden)
		return
	}
	body, _ := io.ReadAll(r.Body)
	if _, err := s.client.Verify(r.Header, body); err != nil {
		s.t.Errorf("a genuine callback is refused: %v", err)
	}
	notifications, err := s.client.Parse(body)
	if err != nil {
		s.t.Errorf("a genuine callback cannot be read: %v", err)
	}
	for _, one := range notifications {
		if unknown, is := one.Item.(provider.Unknown); is && one.Field != "payment_configuration_update" {
			s.t.Errorf("%s is not understood: %s: %s", one.Field, unknown.Reason, one.Raw)
		}
		s.heard <- one
	}
}

// next is the first notification that fits; the others wait for their turn.
func next[T provider.Item](s *stage, fits func(T) bool) (provider.Notification, T) {
	s.t.Helper()
	for i, one := range s.early {
		if item, is := one.Item.(T); is && fits(item) {
			s.early = append(s.early[:i:i], s.early[i+1:]...)
			return one, item
		}
	}
	deadline := time.After(time.Minute)
	for {
		select {
		case one := <-s.heard:
			if item, is := one.Item.(T); is && fits(item) {
				return one, item
			}
			s.early = append(s.early, one)
		case <-deadline:
			var none T
			require.FailNow(s.t, "waited in vain", "%T", none)
		}
	}
}

// sim steers the network.
func (s *stage) sim(path string, body any) object {
	s.t.Helper()
	encoded, err := json.Marshal(body)
	require.NoError(s.t, err)
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+"/sim/"+path, bytes.NewReader(encoded))
	require.NoError(s.t, err)
	response, err := s.http.Do(request)
	require.NoError(s.t, err)
	defer response.Body.Close()
	answer := object{}
	require.NoError(s.t, json.NewDecoder(response.Body).Decode(&answer))
	require.Equal(s.t, http.StatusOK, response.StatusCode, "%s: %v", path, answer)
	return answer
}

// sent are the network's own records of what it accepted.
func (s *stage) sent(reference string) []any {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+"/sim/sent?opaque="+url.QueryEscape(reference), http.NoBody)
	require.NoError(s.t, err)
	response, err := s.http.Do(request)
	require.NoError(s.t, err)
	defer response.Body.Close()
	var answer struct {
		Data []any `json:"data"`
	}
	require.NoError(s.t, json.NewDecoder(response.Body).Decode(&answer))
	return answer.Data
}

func text(body string) json.RawMessage { return json.RawMessage(`{"body":"` + body + `"}`) }

func (s *stage) send(message provider.Outbound) (provider.Accepted, error) {
	if message.Type == "" {
		message.Type, message.Content = provider.TypeText, text("hello")
	}
	return s.client.Send(s.t.Context(), s.number, message)
}

// refused wants an error of the provider's, and that it gives no secret away.
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
