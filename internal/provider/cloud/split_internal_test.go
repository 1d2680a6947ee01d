package cloud

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzSplit holds the splitter against encoding/json.
func FuzzSplit(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, ` { "a" : 1 , "b":[ {"c":"]}\"," } , null ,true,-1.5e3 ] } `, `[[],[[]],"",{}]`, `{"a":1,"a":2}`, `{"\u0061\"":"\\"}`,
		`"x"`, `1`, `[1,"a\\",{"b":"\\\""}]`, `{"":{"":[]}}`, "[1\n,\t2\r]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) || !utf8.Valid(raw) {
			elements(raw) // nothing but no panic
			fieldsOf(raw)
			return
		}
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil && list != nil {
			got := elements(raw)
			require.Len(t, got, len(list))
			for i := range list {
				require.Equal(t, string(list[i]), string(got[i]))
			}
		} else {
			require.Nil(t, elements(raw))
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) == nil && object != nil {
			got := fieldsOf(raw)
			require.Len(t, got, len(object))
			for name := range object {
				require.Equal(t, string(object[name]), string(got[name]))
			}
		} else {
			require.Nil(t, fieldsOf(raw))
		}
	})
}
