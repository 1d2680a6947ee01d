package jsonin

import (
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// WithoutNulls returns the document without the fields that are null, if the schema knows and does not require them.
// Only the body's own fields count: inside of free-form objects null is a value. Into reads null as not given.
func (d Document) WithoutNulls(schema *jsonschema.Schema) Document {
	value := d.value
	for name, given := range d.value {
		if given != nil || !optional(schema, name) {
			continue
		}
		if len(value) == len(d.value) {
			value = maps.Clone(d.value)
		}
		delete(value, name)
	}
	return Document{raw: d.raw, value: value}
}

func optional(schema *jsonschema.Schema, name string) bool {
	return !requires(schema, name) && slices.ContainsFunc(spread(nil, schema), func(part *jsonschema.Schema) bool {
		return part.Properties[name] != nil
	})
}

// requires tells that the field is required, and not only by one of several alternatives.
func requires(schema *jsonschema.Schema, name string) bool {
	if schema == nil {
		return false
	}
	return slices.Contains(schema.Required, name) || requires(schema.Ref, name) ||
		slices.ContainsFunc(schema.AllOf, func(part *jsonschema.Schema) bool { return requires(part, name) })
}
