package openapi_test

import (
	"bytes"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/openapi"
)

// TestContract_PropertiesParametersAndHeaders_AllShown asks for an example of every property, parameter and header: its
// own, or a value in the example of a body or object that it is part of. null is no example.
func TestContract_PropertiesParametersAndHeaders_AllShown(t *testing.T) {
	t.Parallel()
	missing, err := unshown(contract(t))
	require.NoError(t, err)
	if len(missing) > 0 {
		t.Errorf("%d properties, parameters or headers have no example:\n%s", len(missing), strings.Join(missing, "\n"))
	}
}

// TestContract_Bodies_AllHaveExamples asks for an example of every request body, answer, event and error response.
func TestContract_Bodies_AllHaveExamples(t *testing.T) {
	t.Parallel()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(contract(t).JSON()))
	require.NoError(t, err)
	bodies, missing := bare(object(document))
	require.Greater(t, bodies, 100)
	require.Empty(t, missing)
}

// TestContract_ErrorCodes_AllShown asks for an answer with each code. The codes of 431 and 501, which no operation
// declares, are shown at the schema of errors.
func TestContract_ErrorCodes_AllShown(t *testing.T) {
	t.Parallel()
	collected, err := examples(contract(t).JSON())
	require.NoError(t, err)
	shown := map[string]bool{}
	for _, one := range collected.found {
		if code, ok := object(object(one.value)["error"])["code"].(string); ok {
			shown[code] = true
		}
	}
	for _, code := range contract(t).Enum("ErrorCode") {
		require.True(t, shown[code], "no example has the code %s", code)
	}
}

func TestUnshown_EveryKind_IsFound(t *testing.T) {
	t.Parallel()
	small, err := openapi.LoadFrom([]byte(`
paths:
  /apes:
    parameters: [{ name: bare, in: query, schema: { type: string } }, { $ref: "#/components/parameters/Told" }]
    post:
      requestBody: { content: { application/json: { schema: { properties: { sent: {}, left: {} } }, example: { sent: 1 } } } }
      responses:
        "200":
          headers: { X-Bare: { schema: { type: string } }, X-Told: { example: a, schema: { type: string } } }
          content:
            application/json: { schema: { $ref: "#/components/schemas/Ape" }, examples: { one: { $ref: "#/components/examples/Ape" } } }
        "404": { content: { application/json: { schema: { type: object } } } }
components:
  examples:
    Ape: { value: { direct: a, nothing: null, either: { kind: a, color: red }, list: [{ item: 1 }] } }
  parameters:
    Told: { name: told, in: query, example: a, schema: { type: string } }
  schemas:
    Told: { type: string, examples: [a] }
    Red: { required: [kind], properties: { kind: { const: a }, color: {} } }
    Blue: { required: [kind], properties: { kind: { const: b }, color: {} } }
    Ape:
      allOf:
        - properties:
            direct: { type: string }
            nothing: { type: [string, "null"] }
            own: { type: string, examples: [a] }
            reference: { $ref: "#/components/schemas/Told" }
            many: { type: array, items: { $ref: "#/components/schemas/Told" } }
            either: { oneOf: [{ $ref: "#/components/schemas/Red" }, { $ref: "#/components/schemas/Blue" }] }
            list: { items: { properties: { item: {}, other: {} } } }
`))
	require.NoError(t, err)
	missing, err := unshown(small)
	require.NoError(t, err)
	require.Equal(t, []string{
		"/components/schemas/Ape/allOf/0/properties/list/items/properties/other",
		"/components/schemas/Ape/allOf/0/properties/nothing",
		"/components/schemas/Blue/properties/color",
		"/components/schemas/Blue/properties/kind",
		"/paths/~1apes/parameters/0",
		"/paths/~1apes/post/requestBody/content/application~1json/schema/properties/left",
		"/paths/~1apes/post/responses/200/headers/X-Bare",
	}, missing)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(small.JSON()))
	require.NoError(t, err)
	bodies, without := bare(object(document))
	require.Equal(t, 3, bodies)
	require.Equal(t, []string{"/paths/~1apes/post/responses/404/content/application~1json"}, without)
}

// unshown returns the pointers of what has no example.
func unshown(loaded *openapi.Contract) ([]string, error) {
	collected, err := examples(loaded.JSON())
	if err != nil {
		return nil, err
	}
	seen := sightings{}
	for _, one := range collected.found {
		schema, err := loaded.CompileAt(one.schema)
		if err != nil {
			return nil, err
		}
		if !strings.HasSuffix(one.pointer, "/default") {
			seen.see(schema, one.value)
		}
	}
	d := &inspector{root: collected.root}
	d.has = func(part any, at string) bool { return seen[at] || d.shown(part, 10) }
	return d.inspect(), nil
}

// shown tells whether a part has an example of its own, or is made of a part that has one. depth ends circles of references.
func (d *inspector) shown(part any, depth int) bool {
	schema := object(part)
	if schema == nil || depth == 0 {
		return false
	}
	if schema["example"] != nil || schema["examples"] != nil {
		return true
	}
	parts := slices.Concat(array(schema["allOf"]), array(schema["anyOf"]), array(schema["oneOf"]), []any{schema["items"]})
	if reference, ok := schema["$ref"].(string); ok {
		parts = append(parts, d.follow(reference))
	}
	return slices.ContainsFunc(parts, func(inner any) bool { return d.shown(inner, depth-1) })
}

// sightings are the pointers of the properties that have a value in an example.
type sightings map[string]bool

// see visits the parts of a value with the schemas that they fit.
func (s sightings) see(schema *jsonschema.Schema, value any) {
	if schema == nil || schema.Validate(value) != nil {
		return
	}
	for _, same := range slices.Concat(schema.AllOf, schema.AnyOf, schema.OneOf, []*jsonschema.Schema{schema.Ref, schema.Then, schema.Else}) {
		s.see(same, value)
	}
	for name, inner := range object(value) {
		property := schema.Properties[name]
		if property == nil || inner == nil {
			continue
		}
		_, pointer, _ := strings.Cut(property.Location, "#")
		if unescaped, err := url.PathUnescape(pointer); err == nil {
			s[unescaped] = true
		}
		s.see(property, inner)
	}
	for _, item := range array(value) {
		s.see(schema.Items2020, item)
	}
}

// bare counts the bodies of the document, and returns the pointers of those without an example.
func bare(root map[string]any) (bodies int, missing []string) {
	media := func(part any, at string) {
		bodies++
		if object(part)["example"] == nil && object(part)["examples"] == nil {
			unescaped, _ := url.PathUnescape(at)
			missing = append(missing, unescaped)
		}
	}
	body := func(part any, at string) { each(object(part), at, "content", media) }
	operation := func(part any, at string) {
		body(object(part)["requestBody"], below(at, "requestBody"))
		each(object(part), at, "responses", body)
	}
	item := func(part any, at string) {
		for method, one := range object(part) {
			operation(one, below(at, method))
		}
	}
	each(root, "", "paths", item)
	each(root, "", "webhooks", item)
	each(object(root["components"]), "/components", "requestBodies", body)
	each(object(root["components"]), "/components", "responses", body)
	slices.Sort(missing)
	return bodies, missing
}
