// Package jsonout writes JSON without HTML escapes: encoding/json by default writes `<`, `>` and
// `&` as `\u003c`, `\u003e` and `\u0026`.
package jsonout

import (
	"bytes"
	"encoding/json"
)

// Marshal is json.Marshal without HTML escapes. Escapes inside a json.RawMessage stay.
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
