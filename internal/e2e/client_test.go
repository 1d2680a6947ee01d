package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/proc"
)

// client makes a client with its own connections.
func (s *server) client(key string) *client {
	return &client{base: "http://" + s.api + "/v1", key: key, http: newHTTP()}
}

func newHTTP() *http.Client {
	return &http.Client{Timeout: proc.Patience, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
}

// client calls the API.
type client struct {
	base, key string
	http      *http.Client
}

// call is one request; Content-Type is JSON unless header says otherwise.
type call struct {
	method, path, body string
	header             map[string]string
}

// answer is a complete answer.
type answer struct {
	status  int
	header  http.Header
	body    []byte
	started time.Time
	took    time.Duration
}

func (c *client) get(ctx context.Context, path string) (answer, error) {
	return c.do(ctx, call{method: http.MethodGet, path: path})
}

// create posts a label; idempotencyKey may be "".
func (c *client) create(ctx context.Context, name, idempotencyKey string) (answer, error) {
	return c.do(ctx, creating(name, idempotencyKey))
}

func creating(name, idempotencyKey string) call {
	made := call{method: http.MethodPost, path: "/labels", body: fmt.Sprintf(`{"name":%q}`, name)}
	if idempotencyKey != "" {
		made.header = map[string]string{"Idempotency-Key": idempotencyKey}
	}
	return made
}

// do repeats a request while the answer is a well-formed 503, as clients must: a process answers so
// when its machine stands still for a second. It waits for one to two times Retry-After, because clients that
// repeat at once keep an overloaded process from recovering. Tests of refusals use once.
func (c *client) do(ctx context.Context, sent call) (answer, error) {
	for until := time.Now().Add(proc.Patience); ; {
		got, err := c.once(ctx, sent)
		if err != nil || got.malformed() != nil || time.Now().After(until) {
			return got, err
		}
		select {
		case <-ctx.Done():
			return got, ctx.Err()
		case <-time.After(got.retryAfter()):
		}
	}
}

// retryAfter is one to two times the Retry-After of a refusal. malformed has checked the header.
func (a answer) retryAfter() time.Duration {
	seconds, _ := strconv.Atoi(a.header.Get("Retry-After"))
	return time.Duration(seconds)*time.Second + rand.N(time.Duration(seconds)*time.Second+1)
}

// once sends a request once. An incomplete answer is an error.
func (c *client) once(ctx context.Context, sent call) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, sent.method, c.base+sent.path, bytes.NewReader([]byte(sent.body)))
	if err != nil {
		return answer{}, err
	}
	if sent.body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	for name, value := range sent.header {
		request.Header.Set(name, value)
	}
	started := time.Now()
	response, err := c.http.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return answer{status: response.StatusCode, header: response.Header, body: body, started: started, took: time.Since(started)}, err
}

// code is the code of a refusal, or "".
func (a answer) code() string {
	var body struct{ Error struct{ Code string } }
	_ = json.Unmarshal(a.body, &body)
	return body.Error.Code
}

// data is the resource of an answer.
func (a answer) data(t *testing.T) map[string]any {
	t.Helper()
	var body struct{ Data map[string]any }
	require.NoError(t, json.Unmarshal(a.body, &body), "%s", a.body)
	return body.Data
}

// malformed is nil when the answer is a well-formed 503, and otherwise says what is wrong.
func (a answer) malformed() error {
	var body struct {
		Error struct {
			Type, Code, Message string
			RequestID           string `json:"request_id"`
		}
	}
	wait, retryErr := strconv.Atoi(a.header.Get("Retry-After"))
	switch err := json.Unmarshal(a.body, &body); {
	case err != nil:
		return fmt.Errorf("%w: %s", err, a.body)
	case a.status != http.StatusServiceUnavailable || body.Error.Type != "api_error" || body.Error.Code != "service_unavailable",
		body.Error.Message == "", body.Error.RequestID == "", body.Error.RequestID != a.header.Get("X-Request-Id"),
		a.header.Get("Content-Type") != "application/json", retryErr != nil, wait < 1:
		return fmt.Errorf("not a well-formed 503: %d %v %s", a.status, a.header, a.body)
	}
	return nil
}
