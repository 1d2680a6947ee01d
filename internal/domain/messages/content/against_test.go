package content_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/messages/content"
	"github.com/parley-chat/parley/internal/fault"
)

func define(components ...string) content.TemplateDefinition {
	return content.TemplateDefinition{
		Name: "order_ready", Language: "en_US", Category: "UTILITY", ParameterFormat: "POSITIONAL",
		Components: json.RawMessage(`[` + strings.Join(components, ",") + `]`),
	}
}

const (
	bodyOfTwo  = `{"type":"BODY","text":"{{1}} is ready: {{2}}, {{1}}!"}`
	plainBody  = `{"type":"BODY","text":"Hello"}`
	fourButton = `{"type":"BUTTONS","buttons":[{"type":"URL","url":"https://a.example/{{1}}"},{"type":"QUICK_REPLY","text":"Yes"},
		{"type":"COPY_CODE","example":"A"},{"type":"PHONE_NUMBER","phone_number":"+1"}]}`
)

func namedBody() content.TemplateDefinition {
	d := define(`{"type":"BODY","text":"Hi {{ first_name }}, order {{order}}"}`)
	d.ParameterFormat = "NAMED"
	return d
}

func authentication() content.TemplateDefinition {
	d := define(`{"type":"BODY","text":"*{{1}}* is your code."}`,
		`{"type":"BUTTONS","buttons":[{"type":"URL","text":"Copy","url":"https://a.example/otp/code/?otp_type=COPY_CODE&code=otp{{1}}"}]}`)
	d.Category = "AUTHENTICATION"
	return d
}

func carousel() content.TemplateDefinition {
	card := `{"components":[{"type":"HEADER","format":"IMAGE"},{"type":"BODY","text":"Card {{1}}"},
		{"type":"BUTTONS","buttons":[{"type":"QUICK_REPLY","text":"A"},{"type":"URL","url":"https://a.example/{{1}}"}]}]}`
	return define(plainBody, `{"type":"CAROUSEL","cards":[`+card+`,`+card+`]}`)
}

func definitions() []content.TemplateDefinition {
	offer := define(plainBody, `{"type":"LIMITED_TIME_OFFER","limited_time_offer":{"text":"Now","has_expiration":true}}`)
	return []content.TemplateDefinition{
		define(bodyOfTwo), namedBody(), authentication(), carousel(), offer, define(plainBody, fourButton),
		define(`{"type":"HEADER","format":"IMAGE"}`, plainBody), define(`{"type":"HEADER","format":"TEXT","text":"For {{1}}"}`, plainBody),
		define(`{"type":"HEADER","format":"LOCATION"}`, plainBody),
		{},
	}
}

func values(kind string, parameters ...string) string {
	return `{"type":"` + kind + `","parameters":[` + strings.Join(parameters, ",") + `]}`
}

func word(text string) string { return fmt.Sprintf(`{"type":"text","text":%q}`, text) }

func wordFor(name, text string) string {
	return fmt.Sprintf(`{"type":"text","parameter_name":%q,"text":%q}`, name, text)
}

func pressed(kind string, index int, parameters ...string) string {
	return fmt.Sprintf(`{"type":"button","sub_type":%q,"index":"%d","parameters":[%s]}`, kind, index, strings.Join(parameters, ","))
}

// cards returns a carousel in which each card has these components.
func cards(each ...string) string {
	var all []string
	for i, components := range each {
		all = append(all, fmt.Sprintf(`{"card_index":%d,"components":[%s]}`, i, components))
	}
	return `{"type":"carousel","cards":[` + strings.Join(all, ",") + `]}`
}

const image = `{"type":"image","image":{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPA"}}`

func TestAgainst_Accepted_Rendered(t *testing.T) {
	t.Parallel()
	whole := values("header", image) + "," + values("body", word("c")) + "," + pressed("url", 1, word("x"))
	for _, test := range []struct {
		name, object string
		definition   content.TemplateDefinition
		body         string
	}{
		{"no variables", `{"name":"n","language":"en"}`, define(plainBody), "Hello"},
		{"empty parameters", template(values("header"), values("body")), define(plainBody), "Hello"},
		{"by position", template(values("BODY", word("Order {{2}}"), word("today"))), define(bodyOfTwo), "Order {{2}} is ready: today, Order {{2}}!"},
		{
			"by fallback", template(values("body", `{"type":"currency","currency":{"fallback_value":"5 €"}}`, `{"type":"date_time","date_time":{"fallback_value":"May"}}`)),
			define(bodyOfTwo), "5 € is ready: May, 5 €!",
		},
		{"by name", template(values("body", wordFor("order", "7"), wordFor("first_name", "Ana"))), namedBody(), "Hi Ana, order 7"},
		{"by position, names ignored", template(values("body", wordFor("x", "A"), wordFor("y", "B"))), define(bodyOfTwo), "A is ready: B, A!"},
		{
			"by name, format not known", template(values("body", wordFor("order", "7"), wordFor("first_name", "Ana"))),
			func() content.TemplateDefinition { d := namedBody(); d.ParameterFormat = ""; return d }(), "Hi Ana, order 7",
		},
		{
			"names are text in templates with positions", template(values("body", word("a"))), define(`{"type":"BODY","text":"{{1}} {{name}}"}`), "a {{name}}",
		},
		{"image header", template(values("header", image)), define(`{"type":"HEADER","format":"IMAGE"}`, plainBody), "Hello"},
		{"text header", template(values("header", word("Ana"))), define(`{"type":"HEADER","format":"TEXT","text":"For {{1}}"}`, plainBody), "Hello"},
		{"header of an unknown format", `{"name":"n","language":"en"}`, define(`{"type":"HEADER","format":"PRODUCT"}`, plainBody), "Hello"},
		{"only the button that needs a value", template(pressed("url", 0, word("x"))), define(plainBody, fourButton), "Hello"},
		{
			"all buttons", template(pressed("URL", 0, word("x")), pressed("quick_reply", 1, `{"type":"payload","payload":"p"}`),
				pressed("copy_code", 2, `{"type":"coupon_code","coupon_code":"A"}`), pressed("voice", 3)), define(plainBody, fourButton), "Hello",
		},
		{"one-time password", template(values("body", word("123456")), pressed("url", 0, word("123456"))), authentication(), "*123456* is your code."},
		{"carousel", template(cards(whole, whole)), carousel(), "Hello"},
		{"components of the template unreadable", template(values("body", word("a"))), content.TemplateDefinition{Components: json.RawMessage(`{}`)}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			before := parsed(t, "template", test.object)
			after, faults := before.Against(test.definition)
			require.Empty(t, faults)
			require.Equal(t, test.body, after.Body)
			after.Body = ""
			require.Equal(t, before, after)
		})
	}
}

func TestAgainst_OtherTypes_Unchanged(t *testing.T) {
	t.Parallel()
	text := parsed(t, "text", `{"body":"a"}`)
	after, faults := text.Against(define(bodyOfTwo))
	require.Empty(t, faults)
	require.Equal(t, text, after)
}

func TestAgainst_ObjectOfStoredRowBroken_Refused(t *testing.T) {
	t.Parallel()
	_, faults := content.Content{Type: "template", Object: json.RawMessage(template(`{"type":"button"}`))}.Against(carousel())
	requireFault(t, faults[0], missing, "template.components[0].sub_type")
}

func requireMisfit(t *testing.T, definition content.TemplateDefinition, cases []refused) {
	t.Helper()
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, faults := parsed(t, "template", test.object).Against(definition)
			require.NotEmpty(t, faults)
			requireFault(t, faults[0], test.code, test.param)
		})
	}
}

const first = "template.components[0].parameters"

func TestAgainst_Positions_Refused(t *testing.T) {
	t.Parallel()
	requireMisfit(t, define(bodyOfTwo), []refused{
		{"no components", `{"name":"n","language":"en"}`, missing, "template.components"},
		{"no body", template(values("footer")), missing, "template.components"},
		{"no parameters", template(`{"type":"body"}`), missing, first},
		{"too few", template(values("body", word("a"))), invalid, first},
		{"too many", template(values("body", word("a"), word("b"), word("c"))), invalid, first},
		{"of another type", template(values("body", word("a"), image)), invalid, first + "[1].type"},
	})
	requireMisfit(t, define(plainBody), []refused{
		{"body without variables", template(values("body", word("a"))), invalid, first},
		{"no header in the template", template(values("header", word("a"))), invalid, first},
	})
}

func TestAgainst_Names_Refused(t *testing.T) {
	t.Parallel()
	requireMisfit(t, namedBody(), []refused{
		{"no name", template(values("body", wordFor("order", "7"), word("Ana"))), missing, first + "[1].parameter_name"},
		{"variable without value", template(values("body", wordFor("order", "7"))), missing, first},
		{"unknown name instead of another", template(values("body", wordFor("order", "7"), wordFor("frist_name", "A"))), invalid, first + "[1].parameter_name"},
		{"unknown name beside all others", template(values("body", wordFor("order", "7"), wordFor("first_name", "A"), wordFor("x", "A"))), invalid, first + "[2].parameter_name"},
		{"name given twice", template(values("body", wordFor("order", "7"), wordFor("first_name", "A"), wordFor("order", "8"))), invalid, first + "[2].parameter_name"},
	})
}

func TestAgainst_Header_Refused(t *testing.T) {
	t.Parallel()
	for format, given := range map[string]string{"IMAGE": `{"type":"video","video":{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPA"}}`, "VIDEO": image, "DOCUMENT": image, "LOCATION": image} {
		requireMisfit(t, define(`{"type":"HEADER","format":"`+format+`"}`, plainBody), []refused{
			{format + " absent", template(), missing, "template.components"},
			{format + " without parameters", template(`{"type":"header"}`), missing, first},
			{format + " with none", template(values("header")), invalid, first},
			{format + " with two", template(values("header", image, image)), invalid, first},
			{format + " of another type", template(values("header", given)), invalid, first + "[0].type"},
		})
	}
	requireMisfit(t, define(`{"type":"HEADER","format":"TEXT","text":"For {{1}}"}`, plainBody), []refused{
		{"text absent", template(), missing, "template.components"},
		{"two texts", template(values("header", word("a"), word("b"))), invalid, first},
		{"image for a text", template(values("header", image)), invalid, first + "[0].type"},
	})
}

func TestAgainst_Buttons_Refused(t *testing.T) {
	t.Parallel()
	suffix := pressed("url", 0, word("x"))
	requireMisfit(t, define(plainBody, fourButton), []refused{
		{"suffix absent", template(), missing, "template.components"},
		{"another button only", template(pressed("quick_reply", 1)), missing, "template.components"},
		{"suffix without parameters", template(`{"type":"button","sub_type":"url","index":0}`), missing, first},
		{"two suffixes", template(pressed("url", 0, word("x"), word("y"))), invalid, first},
		{"payload as suffix", template(pressed("url", 0, `{"type":"payload","payload":"x"}`)), invalid, first + "[0].type"},
		{"another kind", template(pressed("quick_reply", 0)), invalid, "template.components[0].sub_type"},
		{"no such button", template(suffix, pressed("url", 4, word("x"))), invalid, "template.components[1].index"},
		{"no such button, far away", template(suffix, `{"type":"button","sub_type":"url","index":1e18}`), invalid, "template.components[1].index"},
		{"coupon of another type", template(suffix, pressed("copy_code", 2, word("A"))), invalid, "template.components[1].parameters[0].type"},
	})
}

func TestAgainst_Authentication_Refused(t *testing.T) {
	t.Parallel()
	code := strings.Repeat("1", 16)
	cases := []refused{
		{"no body", template(pressed("url", 0, word("1"))), missing, "template.components"},
		{"no button", template(values("body", word("1"))), missing, "template.components"},
		{"another code", template(values("body", word("1")), pressed("url", 0, word("2"))), invalid, "template.components[1].parameters[0].text"},
		{"long code", template(values("body", word(code)), pressed("url", 0, word(code))), invalid, first + "[0].text"},
	}
	requireMisfit(t, authentication(), cases)
	created := define(`{"type":"BODY","add_security_recommendation":true}`, `{"type":"BUTTONS","buttons":[{"type":"OTP","otp_type":"ONE_TAP"}]}`)
	created.Category = "AUTHENTICATION"
	for i := range cases {
		cases[i].name += ", as created"
	}
	requireMisfit(t, created, cases)
}

func TestAgainst_Carousel_Refused(t *testing.T) {
	t.Parallel()
	head, body, link := values("header", image), values("body", word("c")), pressed("url", 1, word("x"))
	whole := head + "," + body + "," + link
	const second = "template.components[0].cards[1]"
	requireMisfit(t, carousel(), []refused{
		{"absent", template(), missing, "template.components"},
		{"one card", template(cards(whole)), invalid, "template.components[0].cards"},
		{"three cards", template(cards(whole, whole, whole)), invalid, "template.components[0].cards"},
		{"card without header", template(cards(whole, body+","+link)), missing, second + ".components"},
		{"card without its variable", template(cards(whole, head+","+values("body")+","+link)), invalid, second + ".components[1].parameters"},
		{"card without suffix", template(cards(whole, head+","+body)), missing, second + ".components"},
		{
			"card with a high index", template(`{"type":"carousel","cards":[{"card_index":0,"components":[` + whole + `]},{"card_index":2,"components":[` + whole + `]}]}`),
			invalid, second + ".card_index",
		},
	})
	requireMisfit(t, define(plainBody), []refused{
		{"template without carousel", template(cards(whole)), invalid, "template.components[0].cards"},
	})
}

func TestAgainst_Offer_EndNeeded(t *testing.T) {
	t.Parallel()
	offer := func(expires bool) content.TemplateDefinition {
		return define(plainBody, fmt.Sprintf(`{"type":"LIMITED_TIME_OFFER","limited_time_offer":{"has_expiration":%t}}`, expires))
	}
	requireMisfit(t, offer(true), []refused{{"absent", template(), missing, "template.components"}})
	_, faults := parsed(t, "template", template()).Against(offer(false))
	require.Empty(t, faults)
	_, faults = parsed(t, "template", examples()["template"][5]).Against(offer(true))
	require.Empty(t, faults)
}

func TestAgainst_EveryFault_InOrder(t *testing.T) {
	t.Parallel()
	definition := define(`{"type":"HEADER","format":"IMAGE"}`, bodyOfTwo, fourButton)
	_, faults := parsed(t, "template", template(values("body", word("a")), pressed("quick_reply", 0))).Against(definition)
	require.Equal(t, []place{
		{missing, "template.components"}, {invalid, first}, {invalid, "template.components[1].sub_type"},
	}, places(faults))
}

func TestAgainst_Flow_ToldByTheTemplate(t *testing.T) {
	t.Parallel()
	for buttons, flow := range map[string]bool{`{"type":"FLOW"}`: true, `{"type":"QUICK_REPLY"}`: false} {
		after, faults := parsed(t, "template", template()).Against(define(plainBody, `{"type":"BUTTONS","buttons":[`+buttons+`]}`))
		require.Empty(t, faults)
		require.Equal(t, flow, after.Flow, buttons)
	}
}

func TestUnknownTemplate_NamesTheField(t *testing.T) {
	t.Parallel()
	requireFault(t, content.UnknownTemplate("order_raedy", "en_US"), fault.InvalidTemplateName, "template.name")
}
