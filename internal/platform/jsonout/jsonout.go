// Package jsonout writes JSON whose texts stand as they are: encoding/json alone writes `<`,
// `>` and `&` as escapes, for pages of HTML, which nothing here is.
package jsonout

import (
	"bytes"
	"encoding/json"
)

// Marshal is json.Marshal without the escapes. Raw messages inside of the value keep theirs.
func Marshal(value any) ([]byte, error) {
	encoded, err := Line(value)
	return bytes.TrimSuffix(encoded, []byte("\n")), err
}

// Line is Marshal with a line break at the end.
func Line(value any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}
