package jsonin_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/jsonin"
)

// FuzzParse compares Parse with encoding/json: Parse accepts less, returns equal values, and
// returns the same value when that is written and parsed again.
func FuzzParse(f *testing.F) {
	for _, body := range bodies(f) {
		f.Add(body)
	}
	for _, body := range []string{
		``, `{}`, `[]`, `null`, `{"to":1,"TO":2}`, `{"to":1,"\u0074o":2}`, `{"a":"\ud83d\ude9a"}`, `{"a":"\ud800"}`,
		`{"a":"\u0000"}`, `{"a":1e309}`, `{"a":-0.0}`, `{"a":12345678901234567}`, `{"a":[[[[1]]]]}`, "\xef\xbb\xbf{}",
		`{"a":1}{}`, `{"a":1,}`, `{"":{"":[]}}`, "{\"a\":\"\xff\"}", `{"k":1,"\u212a":2}`, `{"a":0.1e-308}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		document, err := jsonin.Parse(body)
		if err != nil {
			refused, ok := errors.AsType[*fault.Error](err)
			require.True(t, ok)
			require.Equal(t, fault.InvalidFieldValue, refused.Code)
			return
		}
		require.Equal(t, standard(t, body), any(document.Value()))

		encoded, err := json.Marshal(document.Value())
		require.NoError(t, err)
		again, err := jsonin.Parse(encoded)
		require.NoError(t, err)
		require.Equal(t, document.Value(), again.Value())
	})
}

// FuzzCheck checks that Check ends with a fault or nil for any body.
func FuzzCheck(f *testing.F) {
	schema := compile(f, sendSchema)
	for _, body := range bodies(f) {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		document, err := jsonin.Parse(body)
		if err != nil {
			return
		}
		if err := document.Check(schema); err != nil {
			first := refusal(t, err)
			require.Equal(t, first, refusal(t, document.Check(schema)))
		}
	})
}
