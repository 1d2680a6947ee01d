package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/signature"
)

// fixture is the command `webhooks receive`, running until the test ends.
type fixture struct {
	url    string
	stdout *bytes.Buffer // to be read after stop
	stop   func()
}

func receive(t *testing.T, args ...string) fixture {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	notes, stderr := io.Pipe()
	stdout, ended := &bytes.Buffer{}, make(chan error, 1)
	go func() {
		ended <- run(ctx, append([]string{"webhooks", "receive", "--addr", "127.0.0.1:0"}, args...), nil, stdout, stderr)
		_ = stderr.Close()
	}()
	lines := bufio.NewReader(notes)
	first, err := lines.ReadString('\n')
	require.NoError(t, err)
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	url, found := strings.CutPrefix(strings.TrimSpace(first), "receiving on ")
	require.True(t, found)
	stopped := false
	stop := func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(t, <-ended)
		}
	}
	t.Cleanup(stop)
	return fixture{url: url, stdout: stdout, stop: stop}
}

// deliver posts a body as the platform does and returns status, Retry-After and text.
func deliver(t *testing.T, url, body, header string) (int, string, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/hooks?a=b", strings.NewReader(body))
	require.NoError(t, err)
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "", "X-Svc-Event": "contact.created", "X-Svc-Event-Id": "evt_1", "X-Svc-Event-Uid": "evt_1",
		"X-Svc-Delivery-Id": "wbd_1", "X-Svc-Attempt": "2", "X-Svc-Signature": header,
	} {
		request.Header.Set(name, value)
	}
	client := &http.Client{Timeout: time.Minute}
	client.Transport = &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	response, err := client.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, response.Header.Get("Retry-After"), string(text)
}

func TestWebhooksReceive_Delivery_IsVerifiedAndPrinted(t *testing.T) {
	t.Parallel()
	r := receive(t, "--secret-file", file(t, otherSecret+"\n"), "--secret", secret, "--status", "204")
	status, _, _ := deliver(t, r.url, sentBody, signature.Sign(time.Now(), []byte(sentBody), secret))
	require.Equal(t, http.StatusNoContent, status)
	status, _, text := deliver(t, r.url, sentBody+"\x1b[2J", signature.Sign(time.Now(), []byte(sentBody), secret))
	require.Equal(t, http.StatusUnauthorized, status)
	require.Equal(t, "no signature matches\n", text)
	status, _, _ = deliver(t, r.url, sentBody, "")
	require.Equal(t, http.StatusUnauthorized, status)
	r.stop()
	printed := r.stdout.String()
	require.Contains(t, printed, " contact.created evt_1 wbd_1 attempt 2 OK → 204\n  {\n    \"id\": \"evt_1\",\n")
	require.Contains(t, printed, " attempt 2 FAIL no signature matches → 401\n  {\"id\":\"evt_1\"")
	require.Contains(t, printed, " FAIL malformed header: it is empty → 401\n")
	require.NotContains(t, printed, "\x1b", "control characters are removed")
}

func TestWebhooksReceive_JSON_PrintsOneObjectPerDelivery(t *testing.T) {
	t.Parallel()
	r := receive(t, "--json")
	raw := "{\"a\":\"<\xff>\"}\n"
	status, _, _ := deliver(t, r.url, raw, "t=1,v1=2")
	require.Equal(t, http.StatusOK, status, "without a secret nothing is refused")
	deliver(t, r.url, "{}", "")
	r.stop()
	lines := strings.Split(strings.TrimSpace(r.stdout.String()), "\n")
	require.Len(t, lines, 2)
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &got))
	at, err := time.Parse(time.RFC3339, got["received_at"].(string))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), at, time.Minute)
	require.Equal(t, []any{"t=1,v1=2"}, got["headers"].(map[string]any)["X-Svc-Signature"])
	delete(got, "headers")
	delete(got, "received_at")
	require.Equal(t, map[string]any{
		"method": "POST", "path": "/hooks?a=b", "event": "contact.created", "event_id": "evt_1", "event_uid": "evt_1", "delivery_id": "wbd_1",
		"attempt": 2.0, "verified": nil, "status": 200.0, "body": "{\"a\":\"<\uFFFD>\"}\n", "body_base64": "eyJhIjoiPP8+In0K",
	}, got)
}

func TestWebhooksReceive_ForwardTo_RelaysAnswer(t *testing.T) {
	t.Parallel()
	arrived := make(chan *http.Request, 1)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		request.Body = io.NopCloser(bytes.NewReader(body))
		arrived <- request
		w.Header().Set("Retry-After", "9")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "later")
	}))
	t.Cleanup(target.Close)
	r := receive(t, "--json", "--secret", secret, "--forward-to", target.URL+"/inner?x=y")
	header := signature.Sign(time.Now(), []byte(sentBody), secret)
	status, retryAfter, text := deliver(t, r.url, sentBody, header)
	require.Equal(t, []any{http.StatusServiceUnavailable, "9", "later"}, []any{status, retryAfter, text})

	request := <-arrived
	body, err := io.ReadAll(request.Body)
	require.NoError(t, err)
	require.True(t, bytes.Equal([]byte(sentBody), body), "byte for byte")
	require.Equal(t, "/inner?x=y", request.URL.RequestURI())
	require.Equal(t, http.Header{
		"Content-Length": {"62"}, "Content-Type": {"application/json"}, "X-Svc-Event": {"contact.created"}, "X-Svc-Event-Id": {"evt_1"},
		"X-Svc-Event-Uid": {"evt_1"}, "X-Svc-Delivery-Id": {"wbd_1"}, "X-Svc-Attempt": {"2"}, "X-Svc-Signature": {header},
	}, request.Header, "nothing added, nothing lost")

	status, _, _ = deliver(t, r.url, sentBody, "t=1,v1=2")
	require.Equal(t, http.StatusUnauthorized, status)
	require.Empty(t, arrived, "a delivery that does not verify is not forwarded")
	target.Close()
	status, _, _ = deliver(t, r.url, sentBody, header)
	require.Equal(t, http.StatusBadGateway, status)
	r.stop()
	require.Contains(t, r.stdout.String(), `"forward_error":`)
}

func TestWebhooksReceive_ForwardTo_RelaysRedirect(t *testing.T) {
	t.Parallel()
	target := httptest.NewServer(http.RedirectHandler("/elsewhere", http.StatusFound))
	t.Cleanup(target.Close)
	r := receive(t, "--forward-to", target.URL)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url, strings.NewReader("{}"))
	require.NoError(t, err)
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusFound, response.StatusCode, "the platform follows no redirects either")
}

func TestWebhooksReceive_BadFlags_Fails(t *testing.T) {
	t.Parallel()
	for words, args := range map[string][]string{
		"--status: 100":           {"--status", "100"},
		"--secret: the secret is": {"--secret", ""},
		"--forward-to: \"l":       {"--forward-to", "localhost:3000"},
		"--addr":                  {"--addr", "127.0.0.1:http-not"},
	} {
		err := run(t.Context(), append([]string{"webhooks", "receive"}, args...), nil, io.Discard, io.Discard)
		require.ErrorContains(t, err, words)
	}
	r := receive(t)
	response, err := http.Post(r.url, "application/json", io.LimitReader(zeroes{}, maxReceivedBytes+1))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusRequestEntityTooLarge, response.StatusCode)
}

type zeroes struct{}

func (zeroes) Read(into []byte) (int, error) { return len(into), nil }
