package telemetry

import (
	"fmt"
	"log/slog"
)

const hidden = "[hidden]"

// Secret is a configured value that prints as [hidden]. It belongs into exported fields and
// never into the keys of a map: fmt and encoding/json print those without asking it.
type Secret string

// Reveal gives the clear text; to search for its callers is to find every use of a secret.
func (s Secret) Reveal() string { return string(s) }

// String prints the same for every secret, the empty one included.
func (s Secret) String() string { return hidden }

// GoString covers the verb %#v.
func (s Secret) GoString() string { return hidden }

// Format covers the verbs that would print a string's bytes in spite of String, such as %d.
func (s Secret) Format(state fmt.State, _ rune) { _, _ = state.Write([]byte(hidden)) }

// LogValue covers slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText covers tint and encodings other than JSON.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// MarshalJSON covers a configuration that is dumped as JSON.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }
