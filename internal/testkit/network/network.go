// Package network is the messaging network of a test: the simulator behind an HTTP server, and
// the adapter that calls it. The calls are recorded, and a test can intercept them.
package network

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/telemetry"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/provider/cloud"
	"github.com/parley-chat/parley/internal/simulator"
	"github.com/parley-chat/parley/internal/testkit/canary"
)

// Network is a simulator and the adapter that calls it.
type Network struct {
	provider.Port

	URL       string
	Simulator *simulator.Simulator

	mu    sync.Mutex
	calls []string
	twist Twist
}

// Twist intercepts a call: it may pass the call on to the network, or answer it itself.
type Twist func(w http.ResponseWriter, r *http.Request, network http.Handler)

// New returns a network that is closed with the test. Callbacks are posted once Simulator.Run runs.
func New(t testing.TB, now clock.Clock) *Network {
	t.Helper()
	n := &Network{Simulator: simulator.New(simulator.Config{
		AppSecret: canary.AppSecret, VerifyToken: canary.VerifyToken, Token: canary.Token, Clock: now, Logger: canary.Logger(t),
	})}
	handler := n.Simulator.Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/sim/") {
			handler.ServeHTTP(w, r)
			return
		}
		n.mu.Lock()
		n.calls = append(n.calls, r.Method+" "+r.URL.Path)
		twist := n.twist
		n.mu.Unlock()
		if twist == nil {
			handler.ServeHTTP(w, r)
			return
		}
		twist(w, r, handler)
	}))
	t.Cleanup(server.Close)
	n.URL = server.URL
	client, err := cloud.New(cloud.Config{
		BaseURL: n.URL, AppID: simulator.DefaultAppID, AppSecrets: []telemetry.Secret{canary.AppSecret},
		VerifyToken: canary.VerifyToken, Clock: now,
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	n.Port = client
	return n
}

// Twist sets the interceptor of later calls; nil removes it.
func (n *Network) Twist(twist Twist) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.twist = twist
}

// Calls counts the calls of a method to paths with an ending.
func (n *Network) Calls(method, ending string) (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, call := range n.calls {
		if strings.HasPrefix(call, method+" ") && strings.HasSuffix(call, ending) {
			count++
		}
	}
	return count
}

// Control posts to the simulator's control API; the path is that after /sim/.
func (n *Network) Control(t testing.TB, path string, body any) map[string]any {
	t.Helper()
	encoded, err := json.Marshal(body)
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.URL+"/sim/"+path, bytes.NewReader(encoded))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Less(t, response.StatusCode, http.StatusMultipleChoices, "%s: %s", path, answer)
	var decoded map[string]any
	require.NoError(t, json.Unmarshal(answer, &decoded), "%s: %s", path, answer)
	return decoded
}

// Number creates a business account with one number, or changes the number.
func (n *Network) Number(t testing.TB, businessAccount, number string, with map[string]any) {
	t.Helper()
	n.Control(t, "accounts", map[string]any{"id": businessAccount})
	body := map[string]any{"id": number, "waba_id": businessAccount}
	maps.Copy(body, with)
	n.Control(t, "numbers", body)
}

// SignUp does what the provider's dialog does when a person signs up, and returns the code that the dialog comes back with. The
// choice is the body of /sim/signup.
func (n *Network) SignUp(t testing.TB, choice map[string]any) (code, number, businessAccount string) {
	t.Helper()
	done := n.Control(t, "signup", choice)
	data, _ := done["data"].(map[string]any)
	code, _ = done["code"].(string)
	number, _ = data["phone_number_id"].(string)
	businessAccount, _ = data["waba_id"].(string)
	require.NotEmpty(t, code)
	return code, number, businessAccount
}

// Token returns a token that is valid for every business account.
func Token() provider.Token { return provider.NewToken(canary.Token) }
