package jsonin

import (
	"fmt"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parley-chat/parley/internal/fault"
)

// errorCode is the value of `x-error-code`: the code of faults in this field.
type errorCode fault.Code

// Validate accepts everything: the keyword only changes the code of other keywords' faults.
func (errorCode) Validate(*jsonschema.ValidatorContext, any) {}

// ErrorCodes returns the vocabulary that a compiler needs, so that Check uses `x-error-code`.
func ErrorCodes() *jsonschema.Vocabulary {
	return &jsonschema.Vocabulary{
		URL: "parley:///vocabulary/error-codes",
		Compile: func(_ *jsonschema.CompilerContext, schema map[string]any) (jsonschema.SchemaExt, error) {
			named, ok := schema["x-error-code"]
			if !ok {
				return nil, nil
			}
			code, _ := named.(string)
			if !slices.Contains(fault.Codes(), fault.Code(code)) {
				return nil, fmt.Errorf("x-error-code: no such code: %v", named)
			}
			return errorCode(code), nil
		},
	}
}

// rule is the value of `x-rule`: what a value of this field must be, for people.
type rule string

// Validate accepts everything: the keyword only changes the sentence of other keywords' faults.
func (rule) Validate(*jsonschema.ValidatorContext, any) {}

// Rules returns the vocabulary that a compiler needs, so that Check uses `x-rule`.
func Rules() *jsonschema.Vocabulary {
	return &jsonschema.Vocabulary{
		URL: "parley:///vocabulary/rules",
		Compile: func(_ *jsonschema.CompilerContext, schema map[string]any) (jsonschema.SchemaExt, error) {
			text, ok := schema["x-rule"].(string)
			if !ok {
				return nil, nil
			}
			return rule(text), nil
		},
	}
}

// ruleOf returns the rule of a schema, or "".
func ruleOf(schema *jsonschema.Schema) string {
	for _, extension := range schema.Extensions {
		if text, ok := extension.(rule); ok {
			return string(text)
		}
	}
	return ""
}

// codeAlong returns the error code of the innermost schema on the path that has one, or "".
func codeAlong(levels [][]*jsonschema.Schema) fault.Code {
	for _, level := range slices.Backward(levels) {
		for _, schema := range level {
			for _, extension := range schema.Extensions {
				if code, ok := extension.(errorCode); ok {
					return fault.Code(code)
				}
			}
		}
	}
	return ""
}

// schemasAlong lists, for the root and each step of the path, the schemas that apply to the value
// there, including branches that do not match the value.
func schemasAlong(root *jsonschema.Schema, way []step) [][]*jsonschema.Schema {
	level := spread(nil, root)
	levels := [][]*jsonschema.Schema{level}
	for _, s := range way {
		var next []*jsonschema.Schema
		for _, schema := range level {
			for _, inner := range beneath(schema, s) {
				next = spread(next, inner)
			}
		}
		level = next
		levels = append(levels, level)
	}
	return levels
}

// spread adds a schema, and all its subschemas that apply to the same value.
func spread(level []*jsonschema.Schema, schema *jsonschema.Schema) []*jsonschema.Schema {
	if schema == nil || slices.Contains(level, schema) {
		return level
	}
	level = append(level, schema)
	for _, same := range []*jsonschema.Schema{schema.Ref, schema.Then, schema.Else} {
		level = spread(level, same)
	}
	for _, group := range [][]*jsonschema.Schema{schema.AllOf, schema.AnyOf, schema.OneOf} {
		for _, same := range group {
			level = spread(level, same)
		}
	}
	for _, same := range schema.DependentSchemas {
		level = spread(level, same)
	}
	return level
}

// beneath returns the schemas of one member or item.
func beneath(schema *jsonschema.Schema, s step) []*jsonschema.Schema {
	if s.item {
		if s.index < len(schema.PrefixItems) {
			return schema.PrefixItems[s.index : s.index+1]
		}
		return []*jsonschema.Schema{schema.Items2020, schema.UnevaluatedItems}
	}
	if inner, ok := schema.Properties[s.name]; ok {
		return []*jsonschema.Schema{inner}
	}
	var inner []*jsonschema.Schema
	for pattern, matching := range schema.PatternProperties {
		if pattern.MatchString(s.name) {
			inner = append(inner, matching)
		}
	}
	if additional, ok := schema.AdditionalProperties.(*jsonschema.Schema); ok && inner == nil {
		inner = append(inner, additional)
	}
	return append(inner, schema.UnevaluatedProperties)
}

// named returns the schema with a location, or an empty one.
func named(level []*jsonschema.Schema, location string) *jsonschema.Schema {
	for _, schema := range level {
		if schema.Location == location {
			return schema
		}
	}
	return &jsonschema.Schema{}
}

// nameRule returns the rule of propertyNames that the name of a member breaks.
func (a answer) nameRule(f finding, levels [][]*jsonschema.Schema) string {
	if len(f.causes) == 0 || len(levels) < 2 {
		return ruleUnknown
	}
	var rules []*jsonschema.Schema
	for _, schema := range levels[len(levels)-2] {
		rules = spread(rules, schema.PropertyNames)
	}
	return "is not an accepted name: a name " + a.sentence(f.causes[0], [][]*jsonschema.Schema{rules})
}
