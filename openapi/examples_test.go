package openapi_test

import (
	"bytes"
	"net/url"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// example is an example in the document, and the pointer of the schema that it must fit.
type example struct {
	pointer string
	schema  string
	value   any
}

// collector walks the document by its structure, so that it does not count a property whose name
// is `example`.
type collector struct {
	root  map[string]any
	found []example
	// shared are the components/examples that are referenced.
	shared map[string]bool
}

// examples finds every example and every default of the document.
func examples(document []byte) (*collector, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return nil, err
	}
	c := &collector{root: object(value), shared: make(map[string]bool)}
	each(c.root, "", "paths", c.pathItem)
	each(c.root, "", "webhooks", c.pathItem)
	components, at := object(c.root["components"]), "/components"
	each(components, at, "pathItems", c.pathItem)
	each(components, at, "schemas", c.schema)
	each(components, at, "parameters", c.holder)
	each(components, at, "headers", c.holder)
	each(components, at, "requestBodies", c.content)
	each(components, at, "responses", c.content)
	return c, nil
}

func (c *collector) pathItem(item any, at string) {
	eachItem(object(item), at, "parameters", c.holder)
	for _, method := range []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"} {
		operation, ok := object(item)[method]
		if !ok {
			continue
		}
		place := below(at, method)
		eachItem(object(operation), place, "parameters", c.holder)
		c.content(object(operation)["requestBody"], below(place, "requestBody"))
		each(object(operation), place, "responses", c.content)
	}
}

// content visits a request body or a response.
func (c *collector) content(part any, at string) {
	each(object(part), at, "headers", c.holder)
	each(object(part), at, "content", c.holder)
}

// holder visits an object with a schema and examples: a media type, a parameter, a header.
func (c *collector) holder(part any, at string) {
	holder, schema := object(part), below(at, "schema")
	if value, ok := holder["example"]; ok {
		c.found = append(c.found, example{below(at, "example"), schema, value})
	}
	each(holder, at, "examples", func(entry any, place string) {
		if reference, ok := object(entry)["$ref"].(string); ok {
			name := strings.TrimPrefix(reference, "#/components/examples/")
			c.shared[name] = true
			entry = object(object(c.root["components"])["examples"])[name]
		}
		c.found = append(c.found, example{place, schema, object(entry)["value"]})
	})
	if inner, ok := holder["schema"]; ok {
		c.schema(inner, schema)
	}
}

func (c *collector) schema(part any, at string) {
	schema := object(part)
	for _, keyword := range []string{"example", "default"} {
		if value, ok := schema[keyword]; ok {
			c.found = append(c.found, example{below(at, keyword), at, value})
		}
	}
	eachItem(schema, at, "examples", func(value any, place string) {
		c.found = append(c.found, example{place, at, value})
	})
	for _, keyword := range []string{"properties", "patternProperties", "dependentSchemas", "$defs"} {
		each(schema, at, keyword, c.schema)
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf", "prefixItems"} {
		eachItem(schema, at, keyword, c.schema)
	}
	for _, keyword := range []string{
		"items", "additionalProperties", "unevaluatedProperties", "propertyNames", "contains", "not", "if", "then", "else",
	} {
		if inner, ok := schema[keyword]; ok {
			c.schema(inner, below(at, keyword))
		}
	}
}

// named are the examples under components, to which other parts refer.
func (c *collector) named() map[string]any {
	return object(object(c.root["components"])["examples"])
}

// shown counts the examples that were found, without defaults.
func (c *collector) shown() int {
	count := 0
	for _, found := range c.found {
		if !strings.HasSuffix(found.pointer, "/default") {
			count++
		}
	}
	return count
}

// mentioned counts the examples by keyword alone, to check that the walk found all of them.
func (c *collector) mentioned() int { return mentions(c.root, false) - len(c.named()) }

func mentions(value any, insideNames bool) int {
	count := 0
	switch part := value.(type) {
	case map[string]any:
		for name, inner := range part {
			switch {
			case insideNames:
				count += mentions(inner, false)
			case name == "example":
				count++
			case name == "examples":
				count += max(len(object(inner)), len(array(inner)))
			case name == "enum", name == "const":
			default:
				count += mentions(inner, name == "properties" || name == "patternProperties")
			}
		}
	case []any:
		for _, inner := range part {
			count += mentions(inner, false)
		}
	}
	return count
}

func object(value any) map[string]any {
	found, _ := value.(map[string]any)
	return found
}

func array(value any) []any {
	found, _ := value.([]any)
	return found
}

func each(parent map[string]any, at, name string, visit func(any, string)) {
	for key, value := range object(parent[name]) {
		visit(value, below(below(at, name), key))
	}
}

func eachItem(parent map[string]any, at, name string, visit func(any, string)) {
	for index, value := range array(parent[name]) {
		visit(value, below(below(at, name), strconv.Itoa(index)))
	}
}

func below(at, name string) string {
	escaped := strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	return at + "/" + url.PathEscape(escaped)
}
