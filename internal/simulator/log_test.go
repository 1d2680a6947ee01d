package simulator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/simulator"
)

// logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(line)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestLog_AllOperations_NoSecretIsLogged(t *testing.T) {
	t.Parallel()
	log := &logBuffer{}
	refuse := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	defer refuse.Close()
	sim := simulator.New(simulator.Config{
		AppSecret: "canary-app-secret", VerifyToken: "canary-verify", Token: "canary-token", CallbackURL: refuse.URL + "/?key=canary-query",
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- sim.Run(ctx) }()
	server := httptest.NewServer(sim.Handler())
	client := server.Client()
	call := func(method, path, body string) object {
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer canary-token")
		response, err := client.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		raw, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		answer := object{}
		_ = json.Unmarshal(raw, &answer)
		return answer
	}
	call(http.MethodPost, "/v24.0/100000000000001/messages", `{"messaging_product":"whatsapp","to":"15550100001","type":"text","text":{"body":"canary-body"}}`)
	call(http.MethodPost, "/v24.0/100000000000001/messages", `{"messaging_product":"whatsapp","to":"15554131000","type":"text"}`)
	call(http.MethodGet, "/v24.0/100000000000001?access_token=canary-token", "")
	call(http.MethodGet, "/v24.0/100000000000001?access_token=canary-unknown", "")
	for _, dead := range []string{"http://127.0.0.1:1/canary-path", refuse.URL} {
		call(http.MethodPost, "/v24.0/400000000000001/subscribed_apps", `{"override_callback_uri":"`+dead+`","verify_token":"canary-verify"}`)
	}
	call(http.MethodPost, "/sim/apps", `{"id":"200000000000001","app_secret":"canary-second"}`)
	issued, _ := call(http.MethodPost, "/sim/tokens", `{}`)["access_token"].(string)
	code, _ := call(http.MethodPost, "/sim/signup", `{}`)["code"].(string)
	business, _ := call(http.MethodGet, "/oauth/access_token?client_id=200000000000001&client_secret=canary-second&code="+code, "")["access_token"].(string)
	require.NotEmpty(t, business)
	call(http.MethodGet, "/debug_token?input_token="+business+"&access_token=200000000000001|canary-second", "")
	call(http.MethodPost, "/v24.0/100000000000001/register", `{"messaging_product":"whatsapp","pin":"918273"}`)
	call(http.MethodPost, "/sim/inbound", `{"from":"15550100001","text":{"body":"canary-body"}}`)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "callback.refused") }, 3*time.Minute, 10*time.Millisecond)
	stop()
	require.NoError(t, <-done)
	server.Close()
	for _, secret := range []string{"canary", issued, code, business, "918273"} {
		require.NotContains(t, log.String(), secret)
	}
	require.Contains(t, log.String(), "request.handled", "the log is not empty")
}
