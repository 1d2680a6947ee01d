package jsonin

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// Into decodes a checked document as encoding/json does, except that names match exactly. If the
// schema allows unknown members, `CAPTION` would otherwise fill the field `caption` with an
// unchecked value. A value that does not fit T is our mistake, but the caller gets the name of the
// field instead of "internal error".
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
