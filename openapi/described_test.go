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

func TestContract_PropertiesParametersAndHeaders_AllDescribed(t *testing.T) {
	t.Parallel()
	missing, err := undescribed(contract(t).JSON())
	require.NoError(t, err)
	if len(missing) > 0 {
		t.Errorf("%d properties, parameters or headers have no description:\n%s", len(missing), strings.Join(missing, "\n"))
	}
}

func TestUndescribed_EveryKind_IsFound(t *testing.T) {
	t.Parallel()
	small, err := openapi.LoadFrom([]byte(`
paths:
  /apes:
    parameters: [{ name: bare, in: query, schema: { type: string } }, { $ref: "#/components/parameters/Told" }]
    post:
      requestBody: { content: { application/json: { schema: { properties: { body: {} } } } } }
      responses:
        "200":
          headers: { X-Bare: { schema: { type: string } }, X-Told: { description: Told., schema: { type: string } } }
          content: { application/json: { schema: { $ref: "#/components/schemas/Ape" } } }
components:
  parameters:
    Told: { name: told, in: query, description: Told., schema: { type: string } }
    Bare: { name: other, in: query, description: "", schema: { type: string } }
  schemas:
    Told: { type: string, description: Told. }
    Bare: { type: string }
    Alias: { $ref: "#/components/schemas/Told" }
    Ape:
      allOf:
        - properties:
            direct: { type: string, description: Told. }
            reference: { $ref: "#/components/schemas/Told" }
            alias: { $ref: "#/components/schemas/Alias" }
            nullable: { oneOf: [{ $ref: "#/components/schemas/Told" }, { type: "null" }] }
            silent: { $ref: "#/components/schemas/Bare" }
            description: { type: string }
            nested: { description: Told., properties: { inside: { anyOf: [{ type: string }] } } }
            list: { description: Told., items: { properties: { item: {} } } }
`))
	require.NoError(t, err)
	missing, err := undescribed(small.JSON())
	require.NoError(t, err)
	require.Equal(t, []string{
		"/components/parameters/Bare",
		"/components/schemas/Ape/allOf/0/properties/description",
		"/components/schemas/Ape/allOf/0/properties/list/items/properties/item",
		"/components/schemas/Ape/allOf/0/properties/nested/properties/inside",
		"/components/schemas/Ape/allOf/0/properties/silent",
		"/paths/~1apes/parameters/0",
		"/paths/~1apes/post/requestBody/content/application~1json/schema/properties/body",
		"/paths/~1apes/post/responses/200/headers/X-Bare",
	}, missing)
}

// inspector collects the pointers of properties, parameters and headers that lack something.
type inspector struct {
	root map[string]any
	// has tells whether a part has what is looked for.
	has     func(part any, at string) bool
	missing []string
}

// inspect walks the whole document and returns the pointers in alphabetical order.
func (d *inspector) inspect() []string {
	d.walk(d.root, "")
	slices.Sort(d.missing)
	return d.missing
}

// undescribed returns the pointers of what has no description.
func undescribed(document []byte) ([]string, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return nil, err
	}
	d := &inspector{root: object(value)}
	d.has = func(part any, _ string) bool { return d.described(part) }
	return d.inspect(), nil
}

// walk visits an object of the document. A keyword whose members have names of their own is visited
// by member, so that a property called `headers` or `example` is not taken for the keyword.
func (d *inspector) walk(part any, at string) {
	for keyword, value := range object(part) {
		switch keyword {
		case "properties", "patternProperties", "headers", "parameters":
			each(object(part), at, keyword, d.named)
			eachItem(object(part), at, keyword, d.named)
		case "paths", "webhooks", "pathItems", "schemas", "requestBodies", "responses", "content", "$defs", "dependentSchemas":
			each(object(part), at, keyword, d.walk)
		case "example", "examples", "default", "enum", "const":
		default:
			d.walk(value, below(at, keyword))
			eachItem(object(part), at, keyword, d.walk)
		}
	}
}

// named visits a property, a parameter or a header.
func (d *inspector) named(part any, at string) {
	unescaped, err := url.PathUnescape(at)
	if err != nil {
		unescaped = at
	}
	if !d.has(part, unescaped) {
		d.missing = append(d.missing, unescaped)
	}
	d.walk(part, at)
}

// described tells whether a part has a description of its own, or refers to a part that has one,
// directly or in one of its alternatives.
func (d *inspector) described(part any) bool {
	if text, _ := object(part)["description"].(string); strings.TrimSpace(text) != "" {
		return true
	}
	if reference, ok := object(part)["$ref"].(string); ok {
		return d.described(d.follow(reference))
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		for _, alternative := range array(object(part)[keyword]) {
			if object(alternative)["$ref"] != nil && d.described(alternative) {
				return true
			}
		}
	}
	return false
}

// follow finds what a reference inside the document points to.
func (d *inspector) follow(reference string) any {
	var part any = d.root
	for name := range strings.SplitSeq(strings.TrimPrefix(reference, "#/"), "/") {
		part = object(part)[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
	}
	return part
}
