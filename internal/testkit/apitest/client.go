package apitest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/apikeys"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/openapi"
)

// Client calls the API with a key and checks every response against the contract.
type Client struct {
	// World is the cell in which the client's organization lives.
	World *factory.World
	Org   orgs.ID
	Team  orgs.TeamID
	KeyID apikeys.ID
	// Number is the phone_number_id of a business number of the organization; empty for none.
	Number string

	server *Server
	key    string
	http   *http.Client
}

// Key returns the client's API key.
func (c *Client) Key() string { return c.key }

// WithKey returns a copy of the client with another key.
func (c *Client) WithKey(key string) *Client {
	other := *c
	other.key = key
	return &other
}

// Answer is a response of the API.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// JSON returns the decoded body.
func (a Answer) JSON(t testing.TB) map[string]any {
	t.Helper()
	var body map[string]any
	require.NoError(t, json.Unmarshal(a.Body, &body), "body: %s", a.Body)
	return body
}

// Data returns the resource in the envelope.
func (a Answer) Data(t testing.TB) map[string]any {
	t.Helper()
	data, ok := a.JSON(t)["data"].(map[string]any)
	require.True(t, ok, "no resource in %s", a.Body)
	return data
}

// List returns the resources of a list.
func (a Answer) List(t testing.TB) []map[string]any {
	t.Helper()
	var body struct {
		Data []map[string]any `json:"data"`
	}
	require.NoError(t, json.Unmarshal(a.Body, &body), "body: %s", a.Body)
	return body.Data
}

// Error returns the error object of a refusal.
func (a Answer) Error(t testing.TB) map[string]any {
	t.Helper()
	body, ok := a.JSON(t)["error"].(map[string]any)
	require.True(t, ok, "no error in %s", a.Body)
	return body
}

// Code returns the error code of a refusal, or "".
func (a Answer) Code() string {
	var body struct {
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	_ = json.Unmarshal(a.Body, &body)
	return body.Error.Code
}

// Get reads a path under /v1.
func (c *Client) Get(t testing.TB, path string, header ...string) Answer {
	t.Helper()
	return c.Do(t, http.MethodGet, path, nil, header...)
}

// Post sends JSON: a string as it is, anything else encoded.
func (c *Client) Post(t testing.TB, path string, body any, header ...string) Answer {
	t.Helper()
	return c.Do(t, http.MethodPost, path, body, header...)
}

// Do sends one request. Headers come in pairs of name and value.
func (c *Client) Do(t testing.TB, method, path string, body any, header ...string) Answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, c.server.URL+"/v1"+path, bodyOf(t, body))
	require.NoError(t, err)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if request.Header.Del(header[i]); header[i+1] != "" {
			request.Header.Set(header[i], header[i+1])
		}
	}
	answer, err := c.send(request)
	require.NoError(t, err)
	c.server.check(t, method, request.URL.Path, answer)
	return answer
}

func (c *Client) send(request *http.Request) (Answer, error) {
	response, err := c.http.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return Answer{Status: response.StatusCode, Header: response.Header, Body: body}, err
}

func bodyOf(t testing.TB, body any) io.Reader {
	t.Helper()
	switch b := body.(type) {
	case nil:
		return http.NoBody
	case string:
		return strings.NewReader(b)
	case []byte:
		return bytes.NewReader(b)
	default:
		encoded, err := json.Marshal(b)
		require.NoError(t, err)
		return bytes.NewReader(encoded)
	}
}

// check checks a response against the contract: its status, schema and headers.
func (s *Server) check(t testing.TB, method, path string, answer Answer) {
	t.Helper()
	require.Regexp(t, `^req_[0-9A-HJKMNP-TV-Z]{26}$`, answer.Header.Get("X-Request-Id"))
	if answer.Status == http.StatusNotModified {
		require.Empty(t, answer.Body)
		require.Empty(t, answer.Header.Get("Content-Type"))
	} else {
		require.Equal(t, "application/json", answer.Header.Get("Content-Type"))
	}
	cached, vary := "private, no-store", "Authorization"
	if answer.Header.Get("ETag") != "" {
		cached = "private, no-cache"
		if path == "/v1/openapi.json" {
			cached, vary = "public, no-cache", "Accept-Encoding"
		}
	}
	require.Equal(t, cached, answer.Header.Get("Cache-Control"))
	require.Equal(t, vary, answer.Header.Get("Vary"))
	operation := operationOf(s.Contract, method, strings.TrimPrefix(path, "/v1"))
	// The contract declares these once, for all operations.
	everywhere := answer.Status == http.StatusNotImplemented || answer.Status == http.StatusRequestHeaderFieldsTooLarge
	if operation == nil || method == http.MethodHead || everywhere {
		s.checkSchema(t, "ErrorEnvelope", answer)
		return
	}
	schema, err := operation.Response(answer.Status)
	require.NoError(t, err, "%s %s answered %d, which the contract does not declare: %s", method, path, answer.Status, answer.Body)
	if answer.Status != http.StatusNotModified {
		validate(t, schema, answer)
	}
	for _, name := range operation.ResponseHeaders(answer.Status) {
		if !sometimes[name] && (!operation.Public || !strings.HasPrefix(name, "RateLimit")) {
			require.NotEmpty(t, answer.Header.Values(name), "%s %s answered %d without the header %s", method, path, answer.Status, name)
		}
	}
}

// sometimes are headers that the contract declares and that not every response has.
var sometimes = map[string]bool{"Idempotent-Replayed": true}

func (s *Server) checkSchema(t testing.TB, name string, answer Answer) {
	t.Helper()
	if len(answer.Body) == 0 {
		return
	}
	schema, err := s.Contract.Schema(name)
	require.NoError(t, err)
	validate(t, schema, answer)
}

func validate(t testing.TB, schema *jsonschema.Schema, answer Answer) {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(answer.Body))
	require.NoError(t, err, "body: %s", answer.Body)
	require.NoError(t, schema.Validate(value), "body: %s", answer.Body)
}

// operationOf finds the operation of a real path: static segments win over parameters.
func operationOf(contract *openapi.Contract, method, path string) *openapi.Operation {
	var found *openapi.Operation
	plain := false // a path without a parameter at its end was found, which wins over those with one
	for _, operation := range contract.Operations() {
		if !strings.HasSuffix(operation.Path, "}") && fits(operation.Path, path) {
			if plain = true; operation.Method == method {
				return operation
			}
		}
	}
	for _, operation := range contract.Operations() {
		if plain && !strings.HasSuffix(operation.Path, "/{name}") {
			continue
		}
		if operation.Method == method && fits(operation.Path, path) {
			found = operation
		}
	}
	return found
}

func fits(template, path string) bool {
	want, got := strings.Split(template, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		parameter := strings.HasPrefix(want[i], "{")
		if want[i] != got[i] && (!parameter || got[i] == "") {
			return false
		}
		if want[i] == "{phone_number_id}" && strings.Trim(got[i], "0123456789") != "" {
			return false
		}
	}
	return true
}
