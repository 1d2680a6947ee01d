package jsonin

import (
	"errors"
	"fmt"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parley-chat/parley/internal/fault"
)

// Check returns the first fault of the document: missing fields before invalid ones, missing ones
// from the top of the tree down, invalid ones in the order of the body.
func (d Document) Check(schema *jsonschema.Schema) error {
	err := schema.Validate(d.value)
	if err == nil {
		return nil
	}
	return answer{schema: schema, value: d.value, raw: d.raw}.first(err)
}

// CheckValue checks one query parameter, a string or a json.Number, against its schema.
func CheckValue(param string, value any, schema *jsonschema.Schema) error {
	err := schema.Validate(value)
	if err == nil {
		return nil
	}
	return answer{schema: schema, value: value, prefix: param}.first(err)
}

// answer turns the errors of the validator into the one fault that the caller gets.
type answer struct {
	schema *jsonschema.Schema
	value  any
	raw    []byte
	prefix string
}

func (a answer) first(err error) error {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return fmt.Errorf("validate: %w", err)
	}
	found := a.gather(nil, invalid)
	if missing := shallowest(only(found, absent)); len(missing) > 0 {
		chosen := a.earliest(missing)
		way := append(steps(a.value, chosen.at), step{name: chosen.member})
		return fault.Missing(param(a.prefix, way))
	}
	if plain := only(found, wrong); len(plain) > 0 {
		found = plain
	}
	return a.refuse(a.earliest(found))
}

func (a answer) refuse(chosen finding) error {
	way := steps(a.value, chosen.at)
	levels := schemasAlong(a.schema, way)
	refusal := refuse(param(a.prefix, way), a.sentence(chosen, levels))
	if code := codeAlong(levels); code != "" {
		refusal.Code = code
	}
	return refusal
}

// weight orders findings: the caller gets the one with the lowest weight.
type weight int

const (
	absent weight = iota
	wrong
	// doubtful is the weight of `unevaluatedProperties`. After any other fault it also reports
	// fields that are known.
	doubtful
)

// finding is one fault. At is the path of the wrong value, or of the object that lacks member.
type finding struct {
	at     []string
	member string
	kind   jsonschema.ErrorKind
	// schema is the location of the keyword that failed.
	schema string
	weight weight
	causes []finding
}

func only(found []finding, w weight) []finding {
	var kept []finding
	for _, f := range found {
		if f.weight == w {
			kept = append(kept, f)
		}
	}
	return kept
}

func shallowest(found []finding) []finding {
	if len(found) == 0 {
		return nil
	}
	top := slices.MinFunc(found, func(a, b finding) int { return len(a.at) - len(b.at) })
	return slices.DeleteFunc(found, func(f finding) bool { return len(f.at) > len(top.at) })
}
