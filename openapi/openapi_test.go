package openapi_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/jsonin"
	"github.com/parley-chat/parley/openapi"
)

func small(t *testing.T) *openapi.Contract {
	t.Helper()
	source, err := os.ReadFile("testdata/small.yaml")
	require.NoError(t, err)
	contract, err := openapi.LoadFrom(source)
	require.NoError(t, err)
	return contract
}

func operation(t *testing.T, contract *openapi.Contract, method, path string) *openapi.Operation {
	t.Helper()
	found, ok := contract.Operation(method, path)
	require.True(t, ok)
	return found
}

func TestContract_JSON_KeepsOrder(t *testing.T) {
	t.Parallel()
	document := small(t).JSON()
	require.True(t, json.Valid(document))
	text := string(document)
	require.True(t, strings.HasPrefix(text,
		`{"openapi":"3.1.0","info":{"title":"Small & <simple>","version":"1.0.0"},"x-since":"2026-01-31",`+
			`"x-numbers":[1,-2.5,16,1000,1000,".inf-like",true,null,"3"],"paths":{"/zebras/{id}":{"parameters":`), text)
	require.Contains(t, text, `"responses":{"200":{"description":"One zebra."`)
	require.Contains(t, text, `"Monkey":{"type":"object","additionalProperties":false`)
}

func TestContract_Operations(t *testing.T) {
	t.Parallel()
	contract := small(t)
	var order []string
	for _, o := range contract.Operations() {
		order = append(order, o.ID+" "+o.Method+" "+o.Path)
	}
	require.Equal(t, []string{"getZebra GET /zebras/{id}", "createApe POST /apes", "listApes GET /apes"}, order)

	get := operation(t, contract, "get", "/zebras/{id}")
	require.True(t, get.Public)
	require.Nil(t, get.Body)
	require.Len(t, get.Query, 1, "the operation's parameter replaces that of the path")
	require.True(t, get.Query[0].Required)
	require.Equal(t, "boolean", get.Query[0].Type)
	require.Equal(t, "id", get.PathParameters[0].Name)
	require.Error(t, get.PathParameters[0].Schema.Validate("ape"))

	create := operation(t, contract, http.MethodPost, "/apes")
	require.False(t, create.Public)
	require.True(t, create.BodyRequired)
	require.Equal(t, []string{"application/json", "text/csv"}, create.BodyTypes)
	require.Error(t, create.Body.Validate(map[string]any{"name": "not an address"}), "formats are asserted")
	types := make(map[string]string)
	for _, parameter := range create.Query {
		types[parameter.Name] = parameter.Type
	}
	require.Equal(t, map[string]string{"limit": "integer", "sort": "string", "page": "number", "any": "string"}, types)
	require.Equal(t, "X-Key", create.Headers[0].Name)
	require.Equal(t, fault.InvalidLimit, fault.Of(jsonin.CheckValue("limit", json.Number("101"), create.Query[0].Schema)))

	_, ok := contract.Operation(http.MethodGet, "/zebras")
	require.False(t, ok)
}

func TestOperation_Response(t *testing.T) {
	t.Parallel()
	get := operation(t, small(t), http.MethodGet, "/zebras/{id}")
	require.Equal(t, []int{200, 204}, get.Statuses())
	require.Equal(t, []string{"X-Request-Id", "ETag"}, get.ResponseHeaders(http.StatusOK))
	require.Empty(t, get.ResponseHeaders(http.StatusNoContent))

	found, err := get.Response(http.StatusOK)
	require.NoError(t, err)
	require.NoError(t, found.Validate(map[string]any{"id": "z1"}))
	require.Error(t, found.Validate(map[string]any{"id": "1"}))

	none, err := get.Response(http.StatusNoContent)
	require.NoError(t, err)
	require.Nil(t, none)

	for _, status := range []int{http.StatusNotFound, http.StatusInternalServerError} {
		wrong, err := get.Response(status)
		require.NoError(t, err)
		require.Error(t, wrong.Validate(map[string]any{}))
	}
	_, err = operation(t, small(t), http.MethodGet, "/apes").Response(http.StatusTeapot)
	require.ErrorContains(t, err, "listApes does not declare status 418")
}

func TestContract_Schema(t *testing.T) {
	t.Parallel()
	contract := small(t)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			_, err := contract.Schema("Zebra")
			require.NoError(t, err)
		})
	}
	group.Wait()
	_, err := contract.Schema("Broken")
	require.Error(t, err)
	_, err = contract.Schema("Unicorn")
	require.Error(t, err)
	require.Equal(t, []string{"newest", "oldest"}, contract.Enum("Sort"))
	require.Empty(t, contract.Enum("Zebra"))
	require.Empty(t, contract.Enum("Unicorn"))
}

func TestContract_Webhooks(t *testing.T) {
	t.Parallel()
	contract := small(t)
	require.Equal(t, []string{"zebra.born", "ape.born"}, contract.Webhooks())
	schema, err := contract.Webhook("ape.born")
	require.NoError(t, err)
	require.NoError(t, schema.Validate(map[string]any{"name": "ape@example.com"}))
	require.Error(t, schema.Validate(map[string]any{"id": "z1"}))
	_, err = contract.Webhook("unicorn.born")
	require.Error(t, err)
}

func TestLoad_BadDocument_Fails(t *testing.T) {
	t.Parallel()
	body := func(schema string) string {
		return "paths: { /a: { post: { requestBody: { content: { application/json: { schema: " + schema + " } } } } } }"
	}
	for name, source := range map[string]string{
		"nothing":                      "",
		"broken yaml":                  "a: [",
		"a name twice":                 "a: 1\nb: { c: 1, c: 2 }",
		"a merge":                      "a: &a { b: 1 }\nc: { <<: *a }",
		"a number that JSON lacks":     "a: .inf",
		"a schema that is none":        body("{ type: strnig }"),
		"a reference to nothing":       body(`{ $ref: "#/components/schemas/None" }`),
		"a reference out of the file":  body(`{ $ref: "file:///etc/passwd" }`),
		"an unknown error code":        body("{ x-error-code: invalid_everything }"),
		"a parameter without a schema": "paths: { /a: { get: { parameters: [{ name: a, in: query }] } } }",
		"a cookie":                     "paths: { /a: { get: { parameters: [{ name: a, in: cookie, schema: {} }] } } }",
	} {
		_, err := openapi.LoadFrom([]byte(source))
		require.Error(t, err, name)
	}
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		if _, err := openapi.LoadAnew(); err != nil {
			b.Fatal(err)
		}
	}
}
