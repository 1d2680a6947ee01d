package jsonin

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// Into decodes a checked document as encoding/json would, but for one: names match exactly.
// Where a schema lets unknown members pass, `CAPTION` would otherwise fill the field `caption`
// with a value that no schema has seen. A value that does not fit T is a mistake of ours, yet
// the caller is told the field rather than "internal error".
func Into[T any](d Document) (T, error) {
	var into T
	if d.raw == nil {
		return into, nil
	}
	err := json.Unmarshal(d.raw, &into, jsonv1.DefaultOptionsV1(),
		json.MatchCaseInsensitiveNames(false), jsonv1.ReportErrorsWithLegacySemantics(false))
	if err == nil {
		return into, nil
	}
	var zero T
	misfit, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return zero, fmt.Errorf("decode a checked body: %w", err)
	}
	tokens := slices.Collect(misfit.JSONPointer.Tokens())
	return zero, refuse(param("", steps(d.value, tokens)), "has a value that is not accepted")
}
