package openapi_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/openapi"
)

// These tests check openapi.yaml itself.

func contract(t *testing.T) *openapi.Contract {
	t.Helper()
	loaded, err := openapi.Load()
	require.NoError(t, err)
	return loaded
}

func TestContract_Operations_AllComplete(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, operation := range contract(t).Operations() {
		require.NotEmpty(t, operation.ID, operation.Path)
		require.False(t, seen[operation.ID], "operationId %s is used twice", operation.ID)
		seen[operation.ID] = true

		t.Run(operation.ID, func(t *testing.T) {
			t.Parallel()
			succeeds := false
			for _, status := range operation.Statuses() {
				succeeds = succeeds || (status >= 200 && status < 400)
				_, err := operation.Response(status)
				require.NoError(t, err)
				require.Contains(t, operation.ResponseHeaders(status), "X-Request-Id", "status %d", status)
			}
			require.True(t, succeeds, "no success is declared")

			require.Len(t, operation.PathParameters, strings.Count(operation.Path, "{"))
			for _, parameter := range operation.PathParameters {
				require.True(t, parameter.Required)
				require.Contains(t, operation.Path, "{"+parameter.Name+"}")
			}
		})
	}
}

func TestContract_NamedSchemas_AllCompile(t *testing.T) {
	t.Parallel()
	loaded := contract(t)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(loaded.JSON()))
	require.NoError(t, err)
	for name := range object(object(object(document)["components"])["schemas"]) {
		_, err := loaded.Schema(name)
		require.NoError(t, err, name)
	}
	for _, name := range loaded.Webhooks() {
		_, err := loaded.Webhook(name)
		require.NoError(t, err, name)
	}
}

func TestContract_Examples_AllFitTheirSchemas(t *testing.T) {
	t.Parallel()
	loaded := contract(t)
	collected, err := examples(loaded.JSON())
	require.NoError(t, err)
	require.NotEmpty(t, collected.found)
	for _, shown := range collected.found {
		t.Run(shown.pointer, func(t *testing.T) {
			t.Parallel()
			schema, err := loaded.CompileAt(shown.schema)
			require.NoError(t, err)
			require.NoError(t, schema.Validate(shown.value))
		})
	}

	for name := range collected.named() {
		require.True(t, collected.shared[name], "components/examples/%s is shown nowhere, so nothing checks it", name)
	}
	require.Equal(t, collected.mentioned(), collected.shown(), "the walk missed an example")
}

func TestExamples_EveryKind_IsFound(t *testing.T) {
	t.Parallel()
	collected, err := examples(small(t).JSON())
	require.NoError(t, err)
	var pointers []string
	for _, shown := range collected.found {
		pointers = append(pointers, shown.pointer)
	}
	require.ElementsMatch(t, []string{
		"/paths/~1zebras~1%7Bid%7D/get/responses/200/content/application~1json/example",
		"/paths/~1zebras~1%7Bid%7D/get/responses/200/headers/ETag/example",
		"/webhooks/zebra.born/post/requestBody/content/application~1json/examples/young",
		"/components/schemas/Sort/default",
		"/components/schemas/Sort/examples/1",
		"/components/schemas/Sort/examples/0",
		"/components/schemas/Zebra/properties/example/example",
		"/components/parameters/Limit/example",
		"/components/requestBodies/Ape/content/application~1json/examples/one",
		"/components/responses/Wrong/content/application~1json/example",
	}, pointers)
	require.Equal(t, map[string]bool{"Zebra": true}, collected.shared)
	require.Equal(t, collected.mentioned(), collected.shown())
}

func TestContract_ErrorCodes_EqualThoseOfFault(t *testing.T) {
	t.Parallel()
	var codes []string
	for _, code := range fault.Codes() {
		codes = append(codes, string(code))
	}
	require.ElementsMatch(t, codes, contract(t).Enum("ErrorCode"))
}

// A request without a key belongs to no organization, so that no rate limit can be told. 401 is answered before the
// organization is known. 405 needs a key on every path, also on those of public operations.
func TestContract_RateLimitHeaders_OnlyOfAuthenticatedOperations(t *testing.T) {
	t.Parallel()
	limit := []string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"}
	public := 0
	for _, operation := range contract(t).Operations() {
		if operation.Public {
			public++
		}
		for _, status := range operation.Statuses() {
			headers := operation.ResponseHeaders(status)
			switch {
			case operation.Public && status != http.StatusMethodNotAllowed:
				for _, name := range limit {
					require.NotContains(t, headers, name, "%s, status %d", operation.ID, status)
				}
			case status != http.StatusUnauthorized:
				require.Subset(t, headers, limit, "%s, status %d", operation.ID, status)
			}
		}
	}
	require.Positive(t, public)
}
