package conformance_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/simulator"
	"github.com/parley-chat/parley/internal/testkit/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

const (
	secret   = "the-app-secret"
	verify   = "the-verify-token"
	token    = "the-token"
	phoneID  = "100000000000001"
	wabaID   = "400000000000001"
	appID    = "200000000000001"
	ada      = "15550100001"
	sendPath = phoneID + "/messages"
)

// fixture is a simulator and an app that receives its callbacks.
type fixture struct {
	t         *testing.T
	url       string
	client    *http.Client
	app       string
	callbacks chan object // bodies whose signature was checked
	unread    []object    // received, and not returned by change yet
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, callbacks: make(chan object, 1000), client: &http.Client{Transport: &http.Transport{}}}
	app := httptest.NewServer(http.HandlerFunc(f.receive))
	f.app = app.URL
	network := simulator.New(simulator.Config{AppSecret: secret, VerifyToken: verify, Token: token, CallbackURL: app.URL})
	server := httptest.NewServer(network.Handler())
	f.url = server.URL
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- network.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
		f.client.CloseIdleConnections()
		server.Close()
		app.Close()
	})
	f.control("settings", object{
		"sent_delay_ms": 0, "delivered_delay_ms": 10, "read_delay_ms": 20, "review_delay_ms": 0, "window": "off", "throughput_limit": false,
	})
	return f
}

func (f *fixture) receive(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		if query := r.URL.Query(); query.Get("hub.mode") == "subscribe" && query.Get("hub.verify_token") == verify {
			_, _ = io.WriteString(w, query.Get("hub.challenge"))
			return
		}
		w.WriteHeader(http.StatusForbidden)
		return
	}
	raw, _ := io.ReadAll(r.Body)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(raw)
	if r.Header.Get("X-Hub-Signature-256") != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
		f.t.Errorf("a callback has a wrong signature")
	}
	for _, c := range raw {
		if c > 127 {
			f.t.Errorf("a callback contains a byte that is not ASCII")
			break
		}
	}
	body := object{}
	if err := json.Unmarshal(raw, &body); err != nil {
		f.t.Errorf("a callback is not JSON: %v", err)
	}
	f.callbacks <- body
}

// call makes a request and decodes the answer.
func (f *fixture) call(method, path string, body any) (*reply, object) {
	f.t.Helper()
	encoded, err := json.Marshal(body)
	require.NoError(f.t, err)
	if body == nil {
		encoded = nil
	}
	return f.raw(method, path, "application/json", encoded)
}

func (f *fixture) raw(method, path, contentType string, body []byte, headers ...string) (*reply, object) {
	f.t.Helper()
	request, err := http.NewRequestWithContext(f.t.Context(), method, f.url+path, bytes.NewReader(body))
	require.NoError(f.t, err)
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := f.client.Do(request)
	require.NoError(f.t, err)
	defer response.Body.Close()
	answer := object{}
	_ = json.NewDecoder(response.Body).Decode(&answer)
	return &reply{StatusCode: response.StatusCode, Header: response.Header}, answer
}

// reply is an answer without its body.
type reply struct {
	StatusCode int
	Header     http.Header
}

// graph calls the provider's API; the answer must have a shape.
func (f *fixture) graph(method, path string, body any, want shape) object {
	f.t.Helper()
	response, answer := f.call(method, "/v24.0/"+path, body)
	require.Equal(f.t, http.StatusOK, response.StatusCode, "%s %s: %v", method, path, answer)
	require.Equal(f.t, "v24.0", response.Header.Get("facebook-api-version"))
	require.NotEmpty(f.t, response.Header.Get("x-fb-trace-id"))
	f.check(method+" "+path, answer, want)
	return answer
}

// refused calls the provider's API; the answer must be an error with a code.
func (f *fixture) refused(method, path string, body any, code int) (*reply, object) {
	f.t.Helper()
	response, answer := f.call(method, "/v24.0/"+path, body)
	f.check(method+" "+path, answer, failure(code))
	return response, answer
}

func (f *fixture) check(what string, value any, want shape) {
	f.t.Helper()
	for _, found := range want("", value) {
		f.t.Errorf("%s%s", what, found)
	}
}

func (f *fixture) control(path string, body object) object {
	f.t.Helper()
	response, answer := f.call(http.MethodPost, "/sim/"+path, body)
	require.Equal(f.t, http.StatusOK, response.StatusCode, "%s: %v", path, answer)
	return answer
}

// change returns the next callback about a field. Callbacks about other fields are kept,
// because callbacks arrive in any order.
func (f *fixture) change(field string, want shape) (value, entry object) {
	f.t.Helper()
	next := func() object {
		select {
		case body := <-f.callbacks:
			f.check("callback", body, envelope)
			return body
		case <-time.After(3 * time.Minute):
			f.t.Fatalf("no callback about %s", field)
			return nil
		}
	}
	for i := 0; ; i++ {
		if i == len(f.unread) {
			f.unread = append(f.unread, next())
		}
		entry, _ = f.unread[i]["entry"].([]any)[0].(object)
		change, _ := entry["changes"].([]any)[0].(object)
		if change["field"] != field {
			continue
		}
		f.unread = append(f.unread[:i:i], f.unread[i+1:]...)
		value, _ = change["value"].(object)
		f.check(field, value, want)
		_, timed := entry["time"]
		require.Equal(f.t, field != "messages", timed, "only callbacks about messages have no time")
		return value, entry
	}
}

// statuses returns the next callbacks about a message by status, one for each name.
func (f *fixture) statuses(want shape, names ...string) map[string]object {
	f.t.Helper()
	reported := map[string]object{}
	for range names {
		value, _ := f.change("messages", want)
		status, _ := value["statuses"].([]any)[0].(object)
		name, _ := status["status"].(string)
		require.Contains(f.t, names, name)
		reported[name] = status
	}
	require.Len(f.t, reported, len(names))
	return reported
}
