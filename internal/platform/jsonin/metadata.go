package jsonin

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/parley-chat/parley/internal/fault"
)

const maxMetadataBytes = 16 << 10

// Metadata removes the whitespace between the tokens of a caller's free-form object, changes
// nothing else, and refuses an object that is then too large.
func Metadata(given json.RawMessage) (json.RawMessage, error) {
	if given == nil {
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
