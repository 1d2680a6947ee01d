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

// stage is a network and an app that it calls back.
type stage struct {
	t      *testing.T
	url    string
	client *http.Client
	app    string
	heard  chan object // bodies of callbacks, signed as they must be
	early  []object    // heard before they were asked for
}

func start(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, heard: make(chan object, 1000), client: &http.Client{Transport: &http.Transport{}}}
	app := httptest.NewServer(http.HandlerFunc(s.hear))
	s.app = app.URL
	network := simulator.New(simulator.Config{AppSecret: secret, VerifyToken: verify, Token: token, CallbackURL: app.URL})
	server := httptest.NewServer(network.Handler())
	s.url = server.URL
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- network.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
		s.client.CloseIdleConnections()
		server.Close()
		app.Close()
	})
	s.sim("settings", object{
		"sent_delay_ms": 0, "delivered_delay_ms": 10, "read_delay_ms": 20, "review_delay_ms": 0, "window": "off", "throughput_limit": false,
	})
	return s
}

func (s *stage) hear(w http.ResponseWriter, r *http.Request) {
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
		s.t.Errorf("a callback is not signed as it must be")
	}
	for _, c := range raw {
		if c > 127 {
			s.t.Errorf("a callback carries a byte that is not ASCII")
			break
		}
	}
	body := object{}
	if err := json.Unmarshal(raw, &body); err != nil {
		s.t.Errorf("a callback is not JSON: %v", err)
	}
	s.heard <- body
}

// call makes a request and reads its JSON.
func (s *stage) call(method, path string, body any) (*reply, object) {
	s.t.Helper()
	encoded, err := json.Marshal(body)
	require.NoError(s.t, err)
	if body == nil {
		encoded = nil
	}
	return s.raw(method, path, "application/json", encoded)
}

func (s *stage) raw(method, path, contentType string, body []byte, headers ...string) (*reply, object) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, bytes.NewReader(body))
	require.NoError(s.t, err)
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.client.Do(request)
	require.NoError(s.t, err)
	defer response.Body.Close()
	answer := object{}
	_ = json.NewDecoder(response.Body).Decode(&answer)
	return &reply{StatusCode: response.StatusCode, Header: response.Header}, answer
}

// reply is an answer without its body, which was read.
type reply struct {
	StatusCode int
	Header     http.Header
}

// graph wants an answer of a shape.
func (s *stage) graph(method, path string, body any, want shape) object {
	s.t.Helper()
	response, answer := s.call(method, "/v24.0/"+path, body)
	require.Equal(s.t, http.StatusOK, response.StatusCode, "%s %s: %v", method, path, answer)
	require.Equal(s.t, "v24.0", response.Header.Get("facebook-api-version"))
	require.NotEmpty(s.t, response.Header.Get("x-fb-trace-id"))
	s.check(method+" "+path, answer, want)
	return answer
}

// refused wants an error body with a code.
func (s *stage) refused(method, path string, body any, code int) (*reply, object) {
	s.t.Helper()
	response, answer := s.call(method, "/v24.0/"+path, body)
	s.check(method+" "+path, answer, failure(code))
	return response, answer
}

func (s *stage) check(what string, value any, want shape) {
	s.t.Helper()
	for _, found := range want("", value) {
		s.t.Errorf("%s%s", what, found)
	}
}

func (s *stage) sim(path string, body object) object {
	s.t.Helper()
	response, answer := s.call(http.MethodPost, "/sim/"+path, body)
	require.Equal(s.t, http.StatusOK, response.StatusCode, "%s: %v", path, answer)
	return answer
}

// change is the next callback about a field; what came before it is kept for later,
// because callbacks come in any order.
func (s *stage) change(field string, want shape) (value, entry object) {
	s.t.Helper()
	next := func() object {
		select {
		case body := <-s.heard:
			s.check("callback", body, envelope)
			return body
		case <-time.After(time.Minute):
			s.t.Fatalf("no callback about %s", field)
			return nil
		}
	}
	for i := 0; ; i++ {
		if i == len(s.early) {
			s.early = append(s.early, next())
		}
		entry, _ = s.early[i]["entry"].([]any)[0].(object)
		change, _ := entry["changes"].([]any)[0].(object)
		if change["field"] != field {
			continue
		}
		s.early = append(s.early[:i:i], s.early[i+1:]...)
		value, _ = change["value"].(object)
		s.check(field, value, want)
		_, timed := entry["time"]
		require.Equal(s.t, field != "messages", timed, "messages have no time, all else has")
		return value, entry
	}
}

// statuses are the next callbacks about a message, as many as are wanted, by status.
func (s *stage) statuses(want shape, names ...string) map[string]object {
	s.t.Helper()
	told := map[string]object{}
	for range names {
		value, _ := s.change("messages", want)
		status, _ := value["statuses"].([]any)[0].(object)
		name, _ := status["status"].(string)
		require.Contains(s.t, names, name)
		told[name] = status
	}
	require.Len(s.t, told, len(names))
	return told
}
