package templates

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
)

const (
	plainBody = `{"type":"BODY","text":"Hello there."}`
	card      = `{"components":[{"type":"HEADER","format":"IMAGE","example":{"header_handle":["h"]}},{"type":"BODY","text":"One."},` +
		`{"type":"BUTTONS","buttons":[{"type":"QUICK_REPLY","text":"Yes"}]}]}`
)

func buttons(all ...string) string {
	return `[` + plainBody + `,{"type":"BUTTONS","buttons":[` + strings.Join(all, ",") + `]}]`
}

func carousel(cards ...string) string {
	return `[` + plainBody + `,{"type":"CAROUSEL","cards":[` + strings.Join(cards, ",") + `]}]`
}

func quick(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf(`{"type":"QUICK_REPLY","text":"Answer %d"}`, i))
	}
	return all
}

// TestLint_EachRule_NamesItsField has a draft that breaks each rule of the provider.
func TestLint_EachRule_NamesItsField(t *testing.T) {
	t.Parallel()
	url := func(rest string) string { return `{"type":"URL","text":"Open","url":"https://a.example/` + rest + `}` }
	otp := func(rest string) string {
		return `[{"type":"BODY"},{"type":"BUTTONS","buttons":[{"type":"OTP"` + rest + `}]}]`
	}
	for _, c := range []struct{ category, format, components, param string }{
		{"UTILITY", "", `[{"type":"FOOTER","text":"x"}]`, "components"},
		{"UTILITY", "", `[` + plainBody + `,` + plainBody + `]`, "components[1].type"},
		{"UTILITY", "", `[{"type":"BODY"}]`, "components[0].text"},
		{"UTILITY", "", `[` + plainBody + `,{"type":"SOMETHING_NEW","x":1}]`, "components[1].type"},
		{"UTILITY", "", `[` + plainBody + `,{"text":"x"}]`, "components[1].type"},
		{"UTILITY", "", buttons(`{"type":"SOMETHING_NEW","text":"x"}`), "components[1].buttons[0].type"},
		{"UTILITY", "", buttons(quick(1)[0], `{"text":"x"}`), "components[1].buttons[1].type"},
		{"UTILITY", "", `[{"type":"BODY","text":"` + strings.Repeat("x", 1025) + `"}]`, "components[0].text"},
		{"UTILITY", "", `[{"type":"BODY","text":"{{1}} is ready","example":{"body_text":[["x"]]}}]`, "components[0].text"},
		{"UTILITY", "", `[{"type":"BODY","text":"Your order {{1}}","example":{"body_text":[["x"]]}}]`, "components[0].text"},
		{"UTILITY", "", `[{"type":"BODY","text":"Order {{1}} {{2}} now","example":{"body_text":[["x","y"]]}}]`, "components[0].text"},
		{"UTILITY", "", `[{"type":"BODY","text":"Order {{2}} now","example":{"body_text":[["x"]]}}]`, "components[0].text"},
		{"UTILITY", "", `[{"type":"BODY","text":"Order {{name}} now","example":{"body_text":[["x"]]}}]`, "components[0].text"},
		{"UTILITY", "", `[{"type":"BODY","text":"Order {{1} now"}]`, "components[0].text"},
		{"UTILITY", "NAMED", `[{"type":"BODY","text":"Order {{Name}} now"}]`, "components[0].text"},
		{"UTILITY", "", `[{"type":"BODY","text":"Order {{1}} now"}]`, "components[0].example.body_text"},
		{"UTILITY", "", `[{"type":"BODY","text":"Order {{1}} now","example":{"body_text":[["x","y"]]}}]`, "components[0].example.body_text"},
		{"UTILITY", "NAMED", `[{"type":"BODY","text":"Order {{id}} now"}]`, "components[0].example.body_text_named_params"},
		{"UTILITY", "", `[{"type":"HEADER"},` + plainBody + `]`, "components[0].format"},
		{"UTILITY", "", `[{"type":"HEADER","format":"SOUND"},` + plainBody + `]`, "components[0].format"},
		{"UTILITY", "", `[{"type":"HEADER","format":"TEXT"},` + plainBody + `]`, "components[0].text"},
		{"UTILITY", "", `[{"type":"HEADER","format":"TEXT","text":"` + strings.Repeat("x", 61) + `"},` + plainBody + `]`, "components[0].text"},
		{"UTILITY", "", `[{"type":"HEADER","format":"TEXT","text":"{{1}} {{2}}"},` + plainBody + `]`, "components[0].text"},
		{"UTILITY", "", `[{"type":"HEADER","format":"TEXT","text":"Order {{1}}"},` + plainBody + `]`, "components[0].example.header_text"},
		{"UTILITY", "", `[{"type":"HEADER","format":"IMAGE"},` + plainBody + `]`, "components[0].example.header_url"},
		{"UTILITY", "", `[{"type":"HEADER","format":"IMAGE","example":{"header_handle":[""]}},` + plainBody + `]`, "components[0].example.header_url"},
		{"UTILITY", "", `[` + plainBody + `,{"type":"FOOTER"}]`, "components[1].text"},
		{"UTILITY", "", `[` + plainBody + `,{"type":"FOOTER","text":"` + strings.Repeat("x", 61) + `"}]`, "components[1].text"},
		{"UTILITY", "", `[` + plainBody + `,{"type":"FOOTER","text":"Bye {{1}}"}]`, "components[1].text"},
		{"UTILITY", "", buttons(), "components[1].buttons"},
		{"UTILITY", "", buttons(quick(11)...), "components[1].buttons"},
		{"UTILITY", "", buttons(quick(1)[0], url(`x"`), quick(1)[0]), "components[1].buttons[2]"},
		{"UTILITY", "", buttons(url(`1"`), url(`2"`), url(`3"`)), "components[1].buttons[2]"},
		{"UTILITY", "", buttons(`{"type":"QUICK_REPLY"}`), "components[1].buttons[0].text"},
		{"UTILITY", "", buttons(`{"type":"QUICK_REPLY","text":"` + strings.Repeat("x", 26) + `"}`), "components[1].buttons[0].text"},
		{"UTILITY", "", buttons(`{"type":"URL","text":"Open"}`), "components[1].buttons[0].url"},
		{"UTILITY", "", buttons(url(`{{1}}/x"`)), "components[1].buttons[0].url"},
		{"UTILITY", "", buttons(url(`{{1}}"`)), "components[1].buttons[0].example"},
		{"UTILITY", "", buttons(`{"type":"PHONE_NUMBER","text":"Call"}`), "components[1].buttons[0].phone_number"},
		{"UTILITY", "", buttons(`{"type":"COPY_CODE"}`), "components[1].buttons[0].example"},
		{"UTILITY", "", buttons(`{"type":"OTP","otp_type":"COPY_CODE"}`), "components[1].buttons[0].type"},
		{"UTILITY", "", carousel(card, card), "components[1].type"},
		{"MARKETING", "", carousel(card), "components[1].cards"},
		{"MARKETING", "", carousel(card, strings.ReplaceAll(card, "IMAGE", "VIDEO")), "components[1].cards[1].components"},
		{"MARKETING", "", carousel(card, strings.ReplaceAll(card, "IMAGE", "DOCUMENT")), "components[1].cards[1].components[0].format"},
		{"MARKETING", "", carousel(card, strings.ReplaceAll(card, "One.", strings.Repeat("x", 161))), "components[1].cards[1].components[1].text"},
		{"MARKETING", "", carousel(card, `{"components":[{"type":"BODY","text":"One."}]}`), "components[1].cards[1].components"},
		{"AUTHENTICATION", "", `[{"type":"BODY","text":"Your code"}]`, "components[0].text"},
		{"AUTHENTICATION", "", `[{"type":"BODY"}]`, "components"},
		{"AUTHENTICATION", "", `[{"type":"BODY"},{"type":"BUTTONS","buttons":[{"type":"QUICK_REPLY","text":"x"}]}]`, "components[1].buttons"},
		{"AUTHENTICATION", "", otp(``), "components[1].buttons[0].otp_type"},
		{"AUTHENTICATION", "", otp(`,"otp_type":"SMS"`), "components[1].buttons[0].otp_type"},
		{"AUTHENTICATION", "", otp(`,"otp_type":"ONE_TAP"`), "components[1].buttons[0].supported_apps"},
		{"AUTHENTICATION", "", otp(`,"otp_type":"ONE_TAP","supported_apps":[{"package_name":"a.b"}]`), "components[1].buttons[0].supported_apps[0]"},
		{
			"AUTHENTICATION", "", otp(`,"otp_type":"ZERO_TAP","supported_apps":[{"package_name":"a.b","signature_hash":"x"}]`),
			"components[1].buttons[0].zero_tap_terms_accepted",
		},
		{"AUTHENTICATION", "", `[{"type":"BODY"},{"type":"FOOTER","code_expiration_minutes":1.5},{"type":"BUTTONS","buttons":[{"type":"OTP","otp_type":"COPY_CODE"}]}]`, "components[1].code_expiration_minutes"},
		{"AUTHENTICATION", "", `[{"type":"HEADER","format":"LOCATION"},{"type":"BODY"},{"type":"BUTTONS","buttons":[{"type":"OTP","otp_type":"COPY_CODE"}]}]`, "components[0].type"},
	} {
		require.True(t, json.Valid([]byte(c.components)), c.components)
		err := lint{category: c.category, named: c.format == formatNamed}.check(json.RawMessage(c.components))
		require.NotNil(t, fault.As(err), "%s is accepted", c.components)
		require.Equal(t, c.param, fault.As(err).Param, "%v", err)
		require.Contains(t, []fault.Code{fault.InvalidFieldValue, fault.MissingRequiredField}, fault.Of(err))
	}
}

func TestLint_GoodDrafts_Accepted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ category, format, components string }{
		{"UTILITY", "", `[` + plainBody + `]`},
		{"UTILITY", "", `[{"type":"HEADER","format":"TEXT","text":"Order {{1}}","example":{"header_text":["7"]}},` +
			`{"type":"BODY","text":"Order {{1}} of {{2}} is ready.","example":{"body_text":[["7","May"]]}},{"type":"FOOTER","text":"Bye"}]`},
		{"UTILITY", "NAMED", `[{"type":"BODY","text":"Order {{id}} is ready.","example":{"body_text_named_params":[{"param_name":"id","example":"7"}]}}]`},
		{"UTILITY", "", buttons(append(quick(7), `{"type":"URL","text":"Open","url":"https://a.example/{{1}}","example":["x"]}`,
			`{"type":"PHONE_NUMBER","text":"Call","phone_number":"+15550100"}`, `{"type":"COPY_CODE","example":"SAVE"}`)...)},
		{"MARKETING", "", carousel(card, card, card, card, card, card, card, card, card, card)},
		{"AUTHENTICATION", "", `[{"type":"BODY","add_security_recommendation":true},{"type":"FOOTER","code_expiration_minutes":10},` +
			`{"type":"BUTTONS","buttons":[{"type":"OTP","otp_type":"COPY_CODE","text":"Copy"}]}]`},
		{"MARKETING", "", `[` + plainBody + `,{"type":"limited_time_offer","limited_time_offer":{"text":"Today"}}]`},
		{"UTILITY", "", buttons(`{"type":"FLOW","text":"Book","flow_id":"1"}`, `{"type":"voice_call","text":"Call us"}`)},
	} {
		require.NoError(t, lint{category: c.category, named: c.format == formatNamed}.check(json.RawMessage(c.components)), c.components)
	}
}
