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
	faults, err := d.Faults(schema, 1)
	if err == nil && len(faults) > 0 {
		return faults[0]
	}
	return err
}

// Faults returns at most so many faults of the document, each of another field, in the order of Check.
func (d Document) Faults(schema *jsonschema.Schema, most int) ([]*fault.Error, error) {
	err := schema.Validate(d.value)
	if err == nil {
		return nil, nil
	}
	return answer{schema: schema, value: d.value, raw: d.raw}.faults(err, most)
}

// CheckValue checks one query parameter, a string or a json.Number, against its schema.
func CheckValue(param string, value any, schema *jsonschema.Schema) error {
	err := schema.Validate(value)
	if err == nil {
		return nil
	}
	faults, err := answer{schema: schema, value: value, prefix: param}.faults(err, 1)
	if err != nil {
		return err
	}
	return faults[0]
}

// answer turns the errors of the validator into the faults that the caller gets.
type answer struct {
	schema *jsonschema.Schema
	value  any
	raw    []byte
	prefix string
}

func (a answer) faults(err error, most int) (faults []*fault.Error, _ error) {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return nil, fmt.Errorf("validate: %w", err)
	}
	found := a.gather(nil, invalid)
	if sure := slices.DeleteFunc(slices.Clone(found), func(f finding) bool { return f.weight == doubtful }); len(sure) > 0 {
		found = sure
	}
	for len(found) > 0 && len(faults) < most {
		first := a.first(found)
		faults = append(faults, a.refuse(first))
		found = slices.DeleteFunc(found, func(f finding) bool { return slices.Equal(f.way(), first.way()) })
	}
	return faults, nil
}

// first chooses what the caller has to correct first.
func (a answer) first(found []finding) finding {
	if missing := shallowest(only(found, absent)); len(missing) > 0 {
		found = missing
	}
	return a.earliest(found)
}

func (a answer) refuse(chosen finding) *fault.Error {
	if chosen.weight == absent {
		return fault.Missing(param(a.prefix, append(steps(a.value, chosen.at), step{name: chosen.member})))
	}
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

// way is the path of the field that the caller has to correct.
func (f finding) way() []string {
	if f.weight == absent {
		return append(slices.Clone(f.at), f.member)
	}
	return f.at
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
