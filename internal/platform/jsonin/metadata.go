package jsonin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"

	"github.com/parley-chat/parley/internal/fault"
)

const maxMetadataBytes = 16 << 10

// SameMetadata tells whether two free-form objects mean the same: the order of their members and the spelling of their
// numbers do not matter. Nil is no object.
func SameMetadata(one, other json.RawMessage) bool {
	if one == nil || other == nil || bytes.Equal(one, other) {
		return (one == nil) == (other == nil)
	}
	decode := func(raw json.RawMessage) (value any, err error) {
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber()
		return value, decoder.Decode(&value)
	}
	a, failed := decode(one)
	b, err := decode(other)
	return failed == nil && err == nil && same(a, b)
}

func same(one, other any) bool {
	switch a := one.(type) {
	case map[string]any:
		b, is := other.(map[string]any)
		return is && maps.EqualFunc(a, b, same)
	case []any:
		b, is := other.([]any)
		return is && slices.EqualFunc(a, b, same)
	case json.Number:
		b, is := other.(json.Number)
		return is && (a == b || sameNumber(a, b))
	default:
		return one == other
	}
}

// sameNumber compares exactly. Parse has refused numbers whose exponent would make this slow.
func sameNumber(one, other json.Number) bool {
	a, fits := new(big.Rat).SetString(one.String())
	b, also := new(big.Rat).SetString(other.String())
	return fits && also && a.Cmp(b) == 0
}

// Metadata removes the whitespace between the tokens of a caller's free-form object, changes
// nothing else, and refuses an object that is then too large.
func Metadata(given json.RawMessage) (json.RawMessage, error) {
	if given == nil || string(given) == "null" {
		return nil, nil
	}
	var buffer bytes.Buffer
	if err := json.Compact(&buffer, given); err != nil {
		return nil, fault.Invalid("metadata", "must be a JSON object")
	}
	if buffer.Len() > maxMetadataBytes {
		return nil, fault.Invalid("metadata", fmt.Sprintf("must be at most %d bytes as JSON", maxMetadataBytes))
	}
	return buffer.Bytes(), nil
}
