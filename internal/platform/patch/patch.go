// Package patch tells an absent field from a null one and from a value, which PATCH
// bodies need and plain Go structs cannot say.
package patch

import (
	"bytes"
	"encoding/json"
)

// Field is one field of a PATCH body. The zero Field is absent.
type Field[T any] struct {
	Set   bool
	Null  bool
	Value T
}

// To sets a field to a value, for callers that build a patch in Go.
func To[T any](value T) Field[T] { return Field[T]{Set: true, Value: value} }

// Clear sets a field to null.
func Clear[T any]() Field[T] { return Field[T]{Set: true, Null: true} }

// UnmarshalJSON is called only when the field is present.
func (f *Field[T]) UnmarshalJSON(raw []byte) error {
	f.Set = true
	if bytes.Equal(raw, []byte("null")) {
		f.Null = true
		return nil
	}
	return json.Unmarshal(raw, &f.Value)
}

// Apply writes the field to target when it is present and reports whether target changed.
func Apply[T comparable](f Field[T], target *T) bool {
	if !f.Set || *target == f.Value {
		return false
	}
	*target = f.Value
	return true
}
