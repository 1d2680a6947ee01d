package jsonin

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// WithoutNulls returns the document without the fields that are null, at any depth, if the schema knows and does not
// require them. Inside of free-form objects null is a value.
func (d Document) WithoutNulls(schema *jsonschema.Schema) (Document, error) {
	lean := withoutNulls([]*jsonschema.Schema{schema}, d.value)
	if lean == nil {
		return d, nil
	}
	raw, err := json.Marshal(lean)
	return Document{raw: raw, value: lean}, err
}

// withoutNulls returns a copy of an object without its nulls, or nil if it has none. The schemas are those that the object
// must fit.
func withoutNulls(schemas []*jsonschema.Schema, object map[string]any) (lean map[string]any) {
	change := func(name string, value any, drop bool) {
		if lean == nil {
			lean = maps.Clone(object)
		}
		if lean[name] = value; drop {
			delete(lean, name)
		}
	}
	for name, value := range object {
		inner := properties(schemas, name)
		switch given := value.(type) {
		case nil:
			if len(inner) > 0 && !slices.ContainsFunc(schemas, func(s *jsonschema.Schema) bool { return requires(s, name) }) {
				change(name, nil, true)
			}
		case map[string]any:
			if leaner := withoutNulls(inner, given); leaner != nil {
				change(name, leaner, false)
			}
		case []any:
			if leaner := itemsWithoutNulls(inner, given); leaner != nil {
				change(name, leaner, false)
			}
		}
	}
	return lean
}

// itemsWithoutNulls is withoutNulls for the objects in an array.
func itemsWithoutNulls(schemas []*jsonschema.Schema, items []any) (lean []any) {
	var inner []*jsonschema.Schema
	for _, schema := range schemas {
		for _, part := range spread(nil, schema) {
			if part.Items2020 != nil {
				inner = append(inner, part.Items2020)
			}
		}
	}
	for i, item := range items {
		object, is := item.(map[string]any)
		if leaner := withoutNulls(inner, object); is && leaner != nil {
			if lean == nil {
				lean = slices.Clone(items)
			}
			lean[i] = leaner
		}
	}
	return lean
}

// properties returns the schemas of a member.
func properties(schemas []*jsonschema.Schema, name string) (found []*jsonschema.Schema) {
	for _, schema := range schemas {
		for _, part := range spread(nil, schema) {
			if inner := part.Properties[name]; inner != nil {
				found = append(found, inner)
			}
		}
	}
	return found
}

// requires tells that the field is required, and not only by one of several alternatives.
func requires(schema *jsonschema.Schema, name string) bool {
	if schema == nil {
		return false
	}
	return slices.Contains(schema.Required, name) || requires(schema.Ref, name) ||
		slices.ContainsFunc(schema.AllOf, func(part *jsonschema.Schema) bool { return requires(part, name) })
}
