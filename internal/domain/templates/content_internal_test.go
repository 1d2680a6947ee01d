package templates

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestContentOf_Components_OnlyWhitespaceRemoved(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		components, content string
		variables           []string
	}{
		{`[]`, "", []string{}},
		{`[{"type":"body","text":"Hello {{ first_name }} on {{day}}"}]`, "Hello {{ first_name }} on {{day}}", []string{"first_name", "day"}},
		{
			`[{"type":"BUTTONS","buttons":[{"type":"URL","url":"https://x/{{c}}"}]},{"type":"BODY","text":"{{b}} x"},{"type":"HEADER","text":"{{a}}"},
			  {"type":"FOOTER","text":"{{no}}"}]`, "{{b}} x", []string{"a", "b", "c"},
		},
		{`[{"type":"BODY","add_security_recommendation":true}]`, "", []string{}},
		{`[{"type":"BODY","text":"{{}} {{a b}} {{1} {2}}"}]`, "{{}} {{a b}} {{1} {2}}", []string{}},
		{
			`[{"type":"BODY","text":"t"},{"type":"CAROUSEL","cards":[{"components":[{"type":"BODY","text":"{{1}}"},{"type":"BUTTONS","buttons":[{"url":"{{2}}"}]}]}]}]`,
			"t",
			[]string{"1", "2"},
		},
	} {
		content, variables := contentOf(json.RawMessage(test.components))
		require.Equal(t, test.content, content)
		require.Equal(t, test.variables, variables, test.components)
	}
	for _, given := range []string{``, `null`, `{}`, `[1]`, `"x"`, `[`} {
		require.Equal(t, `[]`, string(components(json.RawMessage(given))), given)
	}
	kept := []byte(`[{"type":"<BODY>","n":1.0}]`)
	require.True(t, bytes.Equal(kept, components(json.RawMessage("[ {\"type\" : \"<BODY>\",\n\"n\":1.0} ]"))), "only blanks go")
	require.Nil(t, category("TRANSACTIONAL"))
	require.Equal(t, "UTILITY", *category("UTILITY"))
}
