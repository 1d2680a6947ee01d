package content_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/conformance.md lists the rule that this test proves.
func TestConformance_LinkButton_EveryHeader(t *testing.T) {
	t.Parallel()
	link := func(more string) string {
		return fmt.Sprintf(`{"type":"cta_url",%s"body":{"text":"Hello"},
			"action":{"name":"cta_url","parameters":{"display_text":"Open","url":"https://harbour.example"}}}`, more)
	}
	for _, more := range []string{
		``, `"header":{"type":"text","text":"T"},`, `"footer":{"text":"F"},`,
		`"header":{"type":"image","image":{"link":"https://harbour.example/a.jpg"}},`,
		`"header":{"type":"video","video":{"link":"https://harbour.example/a.mp4"}},"footer":{"text":"F"},`,
		`"header":{"type":"document","document":{"link":"https://harbour.example/a.pdf"}},`,
	} {
		require.JSONEq(t, link(more), string(parsed(t, "interactive", link(more)).Object))
	}
	requireRefused(t, "interactive", []refused{
		{"another header", link(`"header":{"type":"audio","audio":{"link":"https://harbour.example/a.ogg"}},`), invalid, "interactive.header.type"},
		{"a footer without text", link(`"footer":{},`), missing, "interactive.footer.text"},
	})
}
