package telemetry

import (
	"fmt"
	"log/slog"
)

const hidden = "[hidden]"

// Secret is a configured value that prints as [hidden]. It must be in exported fields and not be
// the key of a map, because fmt and encoding/json print the others without calling its methods.
type Secret string

// Reveal returns the clear text. Its callers are all uses of secrets.
func (s Secret) Reveal() string { return string(s) }

// String prints the same for every secret, the empty one included.
func (s Secret) String() string { return hidden }

// GoString covers the verb %#v.
func (s Secret) GoString() string { return hidden }

// Format covers the verbs that would print the bytes without calling String, such as %d.
func (s Secret) Format(state fmt.State, _ rune) { _, _ = state.Write([]byte(hidden)) }

// LogValue covers slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText covers tint and encodings other than JSON.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// MarshalJSON covers a configuration that is dumped as JSON.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }
