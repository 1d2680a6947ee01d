package apitest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/apikeys"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/testkit/factory"
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
	answer, err := c.Try(request)
	require.NoError(t, err)
	require.NoError(t, c.server.Check(method, request.URL.Path, answer))
	return answer
}

// Try sends a request as it is, without a key of its own. It checks nothing.
func (c *Client) Try(request *http.Request) (Answer, error) {
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
