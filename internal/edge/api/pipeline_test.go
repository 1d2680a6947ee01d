package api_test

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/apitest"
)

func TestPipeline_BadRequests_Refused(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	label := client.Post(t, "/labels", `{"name":"taken"}`).Data(t)["id"].(string)
	invalid := func(code, param string) refusal { return refusal{400, "invalid_request_error", code, param} }
	gone := refusal{404, "not_found", "resource_not_found", ""}
	for name, test := range map[string]struct {
		method, path string
		body         any
		header       []string
		want         refusal
	}{
		"missing field":         {"POST", "/labels", `{}`, nil, invalid("missing_required_field", "name")},
		"missing beats invalid": {"POST", "/labels", `{"color":"beige"}`, nil, invalid("missing_required_field", "name")},
		"first in field order":  {"POST", "/labels", `{"color":"beige","name":""}`, nil, invalid("invalid_field_value", "color")},
		"unknown field":         {"POST", "/labels", `{"name":"x","colour":"y"}`, nil, invalid("invalid_field_value", "colour")},
		"blank name":            {"POST", "/labels", `{"name":"   "}`, nil, invalid("invalid_field_value", "name")},
		"malformed team":        {"POST", "/labels", `{"name":"x","team_id":"t"}`, nil, invalid("invalid_field_value", "team_id")},
		"unknown team": {
			"POST", "/labels", `{"name":"x","team_id":"01a1dcfa-2d6c-7a59-89dc-699773d6adb6"}`, nil,
			refusal{404, "not_found", "resource_not_found", "team_id"},
		},
		"name taken":            {"POST", "/labels", `{"name":"TAKEN"}`, nil, refusal{409, "conflict", "already_exists", "name"}},
		"body is not an object": {"POST", "/labels", `[]`, nil, invalid("invalid_field_value", "")},
		"limit too small":       {"GET", "/labels?limit=0", nil, nil, invalid("invalid_limit", "limit")},
		"limit too large":       {"GET", "/labels?limit=101", nil, nil, invalid("invalid_limit", "limit")},
		"limit is no number":    {"GET", "/labels?limit=ten", nil, nil, invalid("invalid_limit", "limit")},
		"cursor from nowhere":   {"GET", "/labels?cursor=abc", nil, nil, invalid("invalid_cursor", "cursor")},
		"unknown parameter":     {"GET", "/labels?colour=red", nil, nil, invalid("invalid_field_value", "colour")},
		"malformed id":          {"GET", "/labels/lbl_1", nil, nil, gone},
		"missing label":         {"GET", "/labels/lbl_01J00000000000000000000000", nil, nil, gone},
		"unknown route":         {"GET", "/nowhere", nil, nil, gone},
		"wrong verb":            {"PUT", "/labels/" + label, `{}`, nil, refusal{405, "invalid_request_error", "method_not_allowed", ""}},
		"no content type": {
			"POST", "/labels", `{"name":"x"}`, []string{"Content-Type", ""}, refusal{415, "invalid_request_error", "unsupported_media_type", ""},
		},
		"form": {
			"POST", "/labels", `name=x`,
			[]string{"Content-Type", "application/x-www-form-urlencoded"},
			refusal{415, "invalid_request_error", "unsupported_media_type", ""},
		},
		"compressed": {
			"POST", "/labels", `{"name":"x"}`, []string{"Content-Encoding", "gzip"}, refusal{415, "invalid_request_error", "unsupported_media_type", ""},
		},
		"too large": {
			"POST", "/labels", strings.Repeat(" ", 1<<20) + `{}`, nil, refusal{413, "invalid_request_error", "request_too_large", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := client.Do(t, test.method, test.path, test.body, test.header...)
			requireRefusal(t, test.want, answer)
			if test.want.status == http.StatusMethodNotAllowed {
				require.Equal(t, "GET, HEAD, PATCH, DELETE", answer.Header.Get("Allow"))
			}
		})
	}
}

func TestPublicRoutes_WithoutKey_Answer(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	require.JSONEq(t, `{"status":"ok","version":"test"}`, string(s.Anonymous().Get(t, "/health").Body))
	require.Equal(t, http.StatusOK, s.Anonymous().Get(t, "/openapi.json").Status)
}

// TestUnserved_OperationsOfTheContract compares the marks of the served document with the routes.
func TestUnserved_OperationsOfTheContract(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	require.NoError(t, json.Unmarshal(s.Anonymous().Get(t, "/openapi.json").Body, &document))
	example := strings.NewReplacer("{phone_number_id}", "100000000000001", "{id}", "x", "{link_id}", "x", "{name}", "x")
	for _, operation := range s.Contract.Operations() {
		marked := strings.HasSuffix(string(document.Paths[operation.Path][strings.ToLower(operation.Method)]), `,"x-served":false}`)
		served := slices.Contains(s.API.Served(), operation)
		require.NotEqual(t, served, marked, "%s %s", operation.Method, operation.Path)
		if served {
			continue
		}
		path := example.Replace(operation.Path)
		requireRefusal(t, refusal{501, "api_error", "not_implemented", ""}, client.Do(t, operation.Method, path, ""))
		require.Equal(t, http.StatusUnauthorized, s.Anonymous().Do(t, operation.Method, path, "").Status)
	}
}

func TestOverload_ListsAreRefusedFirst(t *testing.T) {
	t.Parallel()
	s := apitest.With(t, apitest.Options{MaxInFlight: 10})
	clients := []*apitest.Client{s.Client(t), s.Client(t), s.Client(t), s.Client(t)}
	// Six writes wait for locks: lists are over their limit, writes are not.
	stuck := stuckWrites(t, s, clients[1:], 2)
	requireRefusal(t, refusal{503, "api_error", "service_unavailable", ""}, clients[0].Get(t, "/labels"))
	require.Equal(t, 200, clients[0].Get(t, "/me").Status, "a single read is still served")
	require.Equal(t, 200, clients[0].Get(t, "/health").Status)
	require.Equal(t, []int{201, 201, 201, 201, 201, 201}, stuck())
	require.Equal(t, 200, clients[0].Get(t, "/labels").Status)
}

func TestOverload_OneOrganization_OthersAreServed(t *testing.T) {
	t.Parallel()
	s := apitest.With(t, apitest.Options{MaxInFlight: 12})
	client, neighbour := s.Client(t), s.Client(t)
	stuck := stuckWrites(t, s, []*apitest.Client{client}, 3)
	refused := client.Post(t, "/labels", `{"name":"one too many"}`)
	requireRefusal(t, refusal{503, "api_error", "service_unavailable", ""}, refused)
	require.Equal(t, "1", refused.Header.Get("Retry-After"))
	require.Equal(t, 201, neighbour.Post(t, "/labels", `{"name":"VIP"}`).Status)
	require.Equal(t, 200, neighbour.Get(t, "/labels").Status, "not even a list is refused")
	require.Equal(t, []int{201, 201, 201}, stuck())
}

// stuckWrites has each client create labels, which wait for a lock. statuses releases the lock and
// returns the statuses of the answers.
func stuckWrites(t *testing.T, s *apitest.Server, clients []*apitest.Client, each int) (statuses func() []int) {
	t.Helper()
	answers := make([]int, len(clients)*each)
	var background sync.WaitGroup
	var releases []func()
	for i, client := range clients {
		releases = append(releases, holdTeams(t, s, client))
		for j := range each {
			background.Go(func() {
				answers[i*each+j] = client.Post(t, "/labels", map[string]any{"name": string(rune('a' + j))}).Status
			})
		}
	}
	waitForLock(t, s, len(answers))
	return func() []int {
		for _, release := range releases {
			release()
		}
		background.Wait()
		return answers
	}
}

func TestClientAddress_ForgedHeader_Ignored(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		proxies   []netip.Prefix
		forwarded string
		want      string
	}{
		"no proxy is trusted":          {nil, "6.6.6.6", "127.0.0.1"},
		"our proxy saw the client":     {prefixes("127.0.0.0/8"), "203.0.113.9", "203.0.113.9"},
		"what the client put before":   {prefixes("127.0.0.0/8"), "6.6.6.6, 203.0.113.9", "203.0.113.9"},
		"through two of our proxies":   {prefixes("127.0.0.0/8", "10.0.0.0/8"), "6.6.6.6, 203.0.113.9, 10.0.0.1", "203.0.113.9"},
		"nonsense ends the walk":       {prefixes("127.0.0.0/8"), "203.0.113.9, nonsense", "127.0.0.1"},
		"nothing but our own proxies":  {prefixes("127.0.0.0/8"), "127.0.0.2", "127.0.0.2"},
		"an IPv4 address in IPv6 form": {prefixes("127.0.0.0/8"), "::ffff:203.0.113.9", "203.0.113.9"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := apitest.With(t, apitest.Options{Proxies: test.proxies})
			client := s.Client(t)
			require.Equal(t, 200, client.Get(t, "/me", "X-Forwarded-For", test.forwarded).Status)
			s.Logs.Flush()
			entries, err := s.Logs.List(t.Context(), client.Org, 1)
			require.NoError(t, err)
			require.Equal(t, test.want, entries[0].IP.String())
		})
	}
}

func prefixes(texts ...string) []netip.Prefix {
	parsed := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		parsed[i] = netip.MustParsePrefix(text)
	}
	return parsed
}
