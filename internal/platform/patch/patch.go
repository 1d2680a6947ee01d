// Package patch distinguishes an absent field, null and a value in PATCH bodies, which plain Go
// structs cannot.
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

// To returns a field with a value.
func To[T any](value T) Field[T] { return Field[T]{Set: true, Value: value} }

// Clear returns a field that is null.
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

// Apply writes the field to target when it is present, and reports whether target changed.
func Apply[T comparable](f Field[T], target *T) bool {
	if !f.Set || *target == f.Value {
		return false
	}
	*target = f.Value
	return true
}
