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
	"syscall"
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

// fixture is a simulator whose callbacks are kept in memory and whose clock is that of a
// synctest bubble.
type fixture struct {
	t   *testing.T
	sim *simulator.Simulator

	mu     sync.Mutex
	posts  []post
	status func(post) int          // of the app's answer; nil: 200
	down   func() bool             // whether the app refuses connections; nil: it does not
	hosts  map[string]http.Handler // other servers, by host
}

// post is a callback that was posted.
type post struct {
	at        time.Time
	url       string
	signature string
	raw       []byte
	body      object
}

// run runs a test in a synctest bubble: time passes only while all goroutines wait.
func run(t *testing.T, test func(f *fixture), settings ...object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{t: t, hosts: map[string]http.Handler{}}
		f.sim = simulator.New(simulator.Config{
			BaseURL: "http://network.test", CallbackURL: callbackURL, Transport: f, Logger: canary.Logger(t), Seed: 7,
			AppSecret: canary.AppSecret, VerifyToken: canary.VerifyToken, Token: canary.Token,
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.sim.Run(ctx) }()
		defer func() {
			stop()
			require.NoError(t, <-done)
		}()
		for _, changed := range settings {
			f.control("settings", changed)
		}
		test(f)
	})
}

// RoundTrip answers the requests of the simulator: callbacks, and downloads from hosts.
func (f *fixture) RoundTrip(r *http.Request) (*http.Response, error) {
	if host := f.hosts[r.URL.Host]; host != nil {
		recorder := httptest.NewRecorder()
		host.ServeHTTP(recorder, r)
		return recorder.Result(), nil
	}
	if f.down != nil && f.down() {
		return nil, syscall.ECONNREFUSED
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	p := post{at: time.Now(), url: r.URL.String(), signature: r.Header.Get("X-Hub-Signature-256"), raw: raw}
	_ = json.Unmarshal(raw, &p.body)
	f.mu.Lock()
	f.posts = append(f.posts, p)
	answer := f.status
	f.mu.Unlock()
	status := http.StatusOK
	if answer != nil {
		status = answer(p)
	}
	return &http.Response{StatusCode: status, Body: http.NoBody, Request: r}, nil
}

// call makes a request to the simulator.
func (f *fixture) call(method, path, token string, body any) (int, object) {
	f.t.Helper()
	recorder := f.serve(method, path, token, body)
	answer := object{}
	require.NoError(f.t, json.Unmarshal(recorder.Body.Bytes(), &answer), recorder.Body.String())
	return recorder.Code, answer
}

func (f *fixture) serve(method, path, token string, body any) *httptest.ResponseRecorder {
	encoded, err := json.Marshal(body)
	require.NoError(f.t, err)
	var reader io.Reader = http.NoBody
	if body != nil {
		reader = bytes.NewReader(encoded)
	}
	r := httptest.NewRequestWithContext(f.t.Context(), method, path, reader)
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	recorder := httptest.NewRecorder()
	f.sim.Handler().ServeHTTP(recorder, r)
	return recorder
}

// graph calls the provider's API with the fixture's token.
func (f *fixture) graph(method, path string, body any) (int, object) {
	f.t.Helper()
	return f.call(method, "/v24.0/"+path, canary.Token, body)
}

// control calls /sim, which must succeed.
func (f *fixture) control(path string, body object) object {
	f.t.Helper()
	status, answer := f.call(http.MethodPost, "/sim/"+path, "", body)
	require.Equal(f.t, http.StatusOK, status, answer)
	return answer
}

func message(to string, more ...object) object {
	m := object{"messaging_product": "whatsapp", "to": "+" + to, "type": "text", "text": object{"body": "Hi"}}
	for _, fields := range more {
		maps.Copy(m, fields)
	}
	return m
}

func template(to, name string, components ...any) object {
	return object{"messaging_product": "whatsapp", "to": "+" + to, "type": "template", "template": object{
		"name": name, "language": object{"code": "en_US"}, "components": components,
	}}
}

// send sends from the default number.
func (f *fixture) send(m object) (int, object) {
	f.t.Helper()
	return f.graph(http.MethodPost, simulator.DefaultPhoneNumberID+"/messages", m)
}

// accepted sends, which must succeed, and returns the id.
func (f *fixture) accepted(m object) string {
	f.t.Helper()
	status, answer := f.send(m)
	require.Equal(f.t, http.StatusOK, status, answer)
	return dig(answer, "messages", 0, "id").(string)
}

// refused sends, which must fail, and returns the error code and the HTTP status.
func (f *fixture) refused(m object) (code, status int) {
	f.t.Helper()
	status, answer := f.send(m)
	require.NotEqual(f.t, http.StatusOK, status, answer)
	return int(dig(answer, "error", "code").(float64)), status
}

// advance lets time pass and waits until everything that is due has run.
func (f *fixture) advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// changes returns the changes in the posts since the last call.
func (f *fixture) changes() (all []change) {
	for _, p := range f.takePosts() {
		for _, entry := range p.body["entry"].([]any) {
			for _, item := range dig(entry, "changes").([]any) {
				all = append(all, change{field: dig(item, "field").(string), value: dig(item, "value").(object), entry: entry.(object)})
			}
		}
	}
	return all
}

// takePosts returns the posts since the last call.
func (f *fixture) takePosts() []post {
	f.mu.Lock()
	defer f.mu.Unlock()
	posts := f.posts
	f.posts = nil
	return posts
}

type change struct {
	field string
	value object
	entry object
}

// statuses returns the statuses in the posts since the last call.
func (f *fixture) statuses() (all []object) {
	for _, c := range f.changes() {
		if list, ok := c.value["statuses"].([]any); ok {
			all = append(all, list[0].(object))
		}
	}
	return all
}

// names returns the names of statuses, separated by spaces.
func names(statuses []object) string {
	return strings.Join(statusNames(statuses), " ")
}

func statusNames(statuses []object) (all []string) {
	for _, status := range statuses {
		all = append(all, status["status"].(string))
	}
	return all
}

// dig returns the value at a path in JSON, nil when there is none.
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
