package jsonin

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/parley-chat/parley/internal/fault"
)

const maxMetadataBytes = 16 << 10

// Metadata takes the blanks out of a caller's free-form object and nothing else, and
// bounds what is left.
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
