package simulator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/simulator"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

type object = map[string]any

const (
	callbackURL = "http://app.test/callbacks"
	ada         = "15550100001"
	stranger    = "15550109999"
)

// scene is a simulator whose callbacks end in memory and whose time is the bubble's.
type scene struct {
	t   *testing.T
	sim *simulator.Simulator

	mu     sync.Mutex
	posts  []post
	status func(post) int // what the app answers
	hosts  map[string]http.Handler
}

type post struct {
	at        time.Time
	url       string
	signature string
	raw       []byte
	body      object
}

// play runs a test in a bubble in which time passes only when everybody waits.
func play(t *testing.T, test func(s *scene), settings ...object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{t: t, hosts: map[string]http.Handler{}}
		s.sim = simulator.New(simulator.Config{
			BaseURL: "http://network.test", CallbackURL: callbackURL, Transport: s, Logger: canary.Logger(t), Seed: 7,
			AppSecret: canary.AppSecret, VerifyToken: canary.VerifyToken, Token: canary.Token,
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.sim.Run(ctx) }()
		defer func() {
			stop()
			require.NoError(t, <-done)
		}()
		for _, one := range settings {
			s.sim1("settings", one)
		}
		test(s)
	})
}

// RoundTrip is the outside world.
func (s *scene) RoundTrip(r *http.Request) (*http.Response, error) {
	if host := s.hosts[r.URL.Host]; host != nil {
		recorder := httptest.NewRecorder()
		host.ServeHTTP(recorder, r)
		return recorder.Result(), nil
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	p := post{at: time.Now(), url: r.URL.String(), signature: r.Header.Get("X-Hub-Signature-256"), raw: raw}
	_ = json.Unmarshal(raw, &p.body)
	s.mu.Lock()
	s.posts = append(s.posts, p)
	answer := s.status
	s.mu.Unlock()
	status := http.StatusOK
	if answer != nil {
		status = answer(p)
	}
	return &http.Response{StatusCode: status, Body: http.NoBody, Request: r}, nil
}

// call makes a request as a client of the network would.
func (s *scene) call(method, path, token string, body any) (int, object) {
	s.t.Helper()
	recorder := s.serve(method, path, token, body)
	answer := object{}
	require.NoError(s.t, json.Unmarshal(recorder.Body.Bytes(), &answer), recorder.Body.String())
	return recorder.Code, answer
}

func (s *scene) serve(method, path, token string, body any) *httptest.ResponseRecorder {
	encoded, err := json.Marshal(body)
	require.NoError(s.t, err)
	var reader io.Reader = http.NoBody
	if body != nil {
		reader = bytes.NewReader(encoded)
	}
	r := httptest.NewRequestWithContext(s.t.Context(), method, path, reader)
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	recorder := httptest.NewRecorder()
	s.sim.Handler().ServeHTTP(recorder, r)
	return recorder
}

// graph calls with the fixture's token.
func (s *scene) graph(method, path string, body any) (int, object) {
	s.t.Helper()
	return s.call(method, "/v24.0/"+path, canary.Token, body)
}

// sim1 steers, and wants it to work.
func (s *scene) sim1(path string, body object) object {
	s.t.Helper()
	status, answer := s.call(http.MethodPost, "/sim/"+path, "", body)
	require.Equal(s.t, http.StatusOK, status, answer)
	return answer
}

func message(to string, more ...object) object {
	m := object{"messaging_product": "whatsapp", "to": "+" + to, "type": "text", "text": object{"body": "Hi"}}
	for _, one := range more {
		maps.Copy(m, one)
	}
	return m
}

func template(to, name string, components ...any) object {
	return object{"messaging_product": "whatsapp", "to": "+" + to, "type": "template", "template": object{
		"name": name, "language": object{"code": "en_US"}, "components": components,
	}}
}

// send sends from the fixture's number.
func (s *scene) send(m object) (int, object) {
	s.t.Helper()
	return s.graph(http.MethodPost, simulator.DefaultPhoneNumberID+"/messages", m)
}

// accepted sends and returns the id.
func (s *scene) accepted(m object) string {
	s.t.Helper()
	status, answer := s.send(m)
	require.Equal(s.t, http.StatusOK, status, answer)
	return dig(answer, "messages", 0, "id").(string)
}

// refused sends and returns the code.
func (s *scene) refused(m object) (code, status int) {
	s.t.Helper()
	status, answer := s.send(m)
	require.NotEqual(s.t, http.StatusOK, status, answer)
	return int(dig(answer, "error", "code").(float64)), status
}

// pass lets time pass and everything that is due happen.
func (s *scene) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// changes are what was posted so far, flattened; asking forgets them.
func (s *scene) changes() (all []change) {
	for _, p := range s.taken() {
		for _, entry := range p.body["entry"].([]any) {
			for _, one := range dig(entry, "changes").([]any) {
				all = append(all, change{field: dig(one, "field").(string), value: dig(one, "value").(object), entry: entry.(object)})
			}
		}
	}
	return all
}

func (s *scene) taken() []post {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.posts
	s.posts = nil
	return taken
}

type change struct {
	field string
	value object
	entry object
}

// statuses are the statuses posted since last asked, as `id status`.
func (s *scene) statuses() (all []object) {
	for _, c := range s.changes() {
		if list, ok := c.value["statuses"].([]any); ok {
			all = append(all, list[0].(object))
		}
	}
	return all
}

func names(statuses []object) string {
	var all []string
	for _, one := range statuses {
		all = append(all, one["status"].(string))
	}
	return strings.Join(all, " ")
}

// dig walks into JSON.
func dig(value any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			of, _ := value.(object)
			value = of[step]
		case int:
			list, _ := value.([]any)
			if step >= len(list) {
				return nil
			}
			value = list[step]
		}
	}
	return value
}
