package parley

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

type seenRequest struct {
	*http.Request
	body []byte
}

// scripted is a server that answers as scripted, and a clock that only sleeping and the server move.
type scripted struct {
	*httptest.Server
	mu     sync.Mutex
	script []step
	seen   []seenRequest
	now    time.Time
	waits  []float64
	closed chan struct{}
}

func serve(t *testing.T, script []step) *scripted {
	t.Helper()
	s := &scripted{script: script, now: time.Unix(1000, 0), closed: make(chan struct{})}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.answer))
	s.Config.SetKeepAlivesEnabled(false)
	s.Start()
	t.Cleanup(func() {
		close(s.closed)
		s.Close()
	})
	return s
}

func (s *scripted) answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.seen = append(s.seen, seenRequest{r, body})
	if len(s.script) == 0 {
		s.mu.Unlock()
		http.Error(w, "more requests than the case expects", 599)
		return
	}
	step := s.script[0]
	s.script = s.script[1:]
	s.now = s.now.Add(toDuration(step.Elapse))
	s.mu.Unlock()
	if step.Hang {
		<-s.closed
	}
	if step.Hang || step.Close {
		panic(http.ErrAbortHandler)
	}
	text := []byte(step.Text)
	if step.Body != nil {
		text = step.Body
	}
	for name, value := range step.Headers {
		w.Header().Set(name, value)
	}
	length := len(text)
	if step.Cut {
		length += 10
	}
	w.Header().Set("Content-Length", strconv.Itoa(length))
	if step.Status == 0 {
		step.Status = http.StatusOK
	}
	w.WriteHeader(step.Status)
	_, _ = w.Write(text)
}

func (s *scripted) client(t *testing.T, c playedCase) *Client {
	t.Helper()
	client, err := New(suite.APIKey, s.URL+"/v1")
	check(t, err == nil, "New: %v", err)
	for name, value := range c.Settings {
		switch name {
		case "timeout":
			client.timeout = toDuration(value)
		case "max_retries":
			client.maxRetries = int(value)
		case "max_elapsed":
			client.maxElapsed = toDuration(value)
		default:
			t.Fatalf("setting %s", name)
		}
	}
	client.now = func() time.Time {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.now
	}
	client.sleep = func(_ context.Context, wait time.Duration) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.now, s.waits = s.now.Add(wait), append(s.waits, wait.Seconds())
		return nil
	}
	client.rand = func() float64 {
		if c.Random != nil {
			return *c.Random
		}
		return suite.Random
	}
	return client
}

func (s *scripted) checkRequests(t *testing.T, c playedCase) {
	t.Helper()
	if c.Expect.Requests == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	check(t, len(*c.Expect.Requests) == len(s.seen), "%d requests, want %d", len(s.seen), len(*c.Expect.Requests))
	check(t, len(s.script) == 0, "%d answers were not asked for", len(s.script))
	for i, wanted := range *c.Expect.Requests {
		s.seen[i].check(t, wanted)
		first := s.seen[0]
		if c.Kind == "request" { // all attempts of one call are the same
			same := first.Method == s.seen[i].Method && first.RequestURI == s.seen[i].RequestURI &&
				string(first.body) == string(s.seen[i].body) &&
				first.Header.Get("Idempotency-Key") == s.seen[i].Header.Get("Idempotency-Key")
			check(t, same, "attempt %d differs from the first", i+1)
		}
	}
}

func (r seenRequest) check(t *testing.T, wanted wantedRequest) {
	t.Helper()
	path, query, _ := strings.Cut(r.RequestURI, "?")
	checkField(t, "method", wanted.Method, r.Method)
	checkField(t, "path", wanted.Path, path)
	check(t, r.Header.Get("Authorization") == "Bearer "+suite.APIKey, "Authorization")
	check(t, strings.HasPrefix(r.UserAgent(), "parley-go/"), "User-Agent %s", r.UserAgent())
	for name, value := range wanted.Headers {
		check(t, r.Header.Get(name) == value, "%s is %s, want %s", name, r.Header.Get(name), value)
	}
	for _, name := range wanted.Absent {
		check(t, r.Header.Get(name) == "", "%s is sent", name)
	}
	if wanted.Query != nil {
		values, err := url.ParseQuery(query)
		check(t, err == nil, "%v", err)
		check(t, len(values) == len(*wanted.Query), "query %s", query)
		for name, value := range *wanted.Query {
			check(t, values.Get(name) == value, "%s is %s, want %s", name, values.Get(name), value)
		}
	}
	if wanted.Body != nil {
		var body any
		check(t, json.Unmarshal(r.body, &body) == nil, "%s", r.body)
		check(t, reflect.DeepEqual(wanted.Body, body), "body %s", r.body)
	}
	for _, text := range wanted.Contains {
		check(t, strings.Contains(string(r.body), text), "the body has no %s", text)
	}
	if r.Method == http.MethodPost {
		check(t, regexp.MustCompile(`^[!-~]{1,255}$`).MatchString(r.Header.Get("Idempotency-Key")), "Idempotency-Key")
	}
}
