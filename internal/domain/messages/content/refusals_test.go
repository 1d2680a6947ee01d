package content_test

import (
	"strings"
	"testing"
)

func TestParse_Text_Refused(t *testing.T) {
	t.Parallel()
	parsed(t, "text", `{"body":"`+long(4096)+`"}`)
	requireRefused(t, "text", []refused{
		{"no body", `{}`, missing, "text.body"},
		{"empty", `{"body":""}`, invalid, "text.body"},
		{"too long", `{"body":"` + long(4097) + `"}`, invalid, "text.body"},
		{"null", `{"body":null}`, invalid, "text.body"},
		{"preview_url of another type", `{"body":"a","preview_url":"yes"}`, invalid, "text.preview_url"},
	})
}

func TestParse_Reaction_Refused(t *testing.T) {
	t.Parallel()
	parsed(t, "reaction", `{"message_id":"m","emoji":"`+long(16)+`"}`)
	requireRefused(t, "reaction", []refused{
		{"no message_id", `{"emoji":"a"}`, missing, "reaction.message_id"},
		{"empty message_id", `{"message_id":"","emoji":"a"}`, invalid, "reaction.message_id"},
		{"our own id", `{"message_id":"msg_01M7J861QBDER227SD3P02SWVM","emoji":"a"}`, invalid, "reaction.message_id"},
		{"no emoji", `{"message_id":"m"}`, missing, "reaction.emoji"},
		{"emoji too long", `{"message_id":"m","emoji":"` + long(17) + `"}`, invalid, "reaction.emoji"},
	})
}

func TestParse_Media_Refused(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"image", "video", "document"} {
		parsed(t, kind, `{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPA","caption":"`+long(1024)+`"}`)
		requireRefused(t, kind, []refused{
			{"caption too long in " + kind, `{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPA","caption":"` + long(1025) + `"}`, invalid, kind + ".caption"},
		})
	}
	for _, kind := range []string{"image", "video", "document", "audio"} {
		requireRefused(t, kind, []refused{
			{kind + " without link and id", `{}`, missing, kind + ".link"},
			{kind + " with link and id", `{"link":"https://a.example/a","id":"med_01M6GZZ6GNTM9XW2PD78P3QHPA"}`, invalid, kind + ".id"},
			{kind + " with empty id", `{"id":""}`, invalid, kind + ".id"},
			{kind + " with a long id", `{"id":"` + long(256) + `"}`, invalid, kind + ".id"},
			{kind + " with a relative link", `{"link":"/a.jpg"}`, invalid, kind + ".link"},
			{kind + " with another scheme", `{"link":"ftp://a.example/a.jpg"}`, invalid, kind + ".link"},
			{kind + " without a host", `{"link":"https:///a.jpg"}`, invalid, kind + ".link"},
			{kind + " with an opaque link", `{"link":"https:a.jpg"}`, invalid, kind + ".link"},
			{kind + " with a long link", `{"link":"https://a.example/` + strings.Repeat("a", 2048) + `"}`, invalid, kind + ".link"},
		})
	}
	requireRefused(t, "document", []refused{
		{"empty filename", `{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPA","filename":""}`, invalid, "document.filename"},
		{"long filename", `{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPA","filename":"` + long(256) + `"}`, invalid, "document.filename"},
	})
	requireRefused(t, "audio", []refused{
		{"caption", `{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPA","caption":"a"}`, invalid, "audio.caption"},
		{"voice of another type", `{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPA","voice":"true"}`, invalid, "audio.voice"},
	})
}

func TestParse_Interactive_Refused(t *testing.T) {
	t.Parallel()
	yes := reply("Yes")
	with := func(more string) string {
		return `{"type":"button","body":{"text":"a"},` + more + `,"action":` + yes + `}`
	}
	requireRefused(t, "interactive", []refused{
		{"no type", `{"body":{"text":"a"},"action":{}}`, missing, "interactive.type"},
		{"unknown type", interactive("product", `{}`), invalid, "interactive.type"},
		{"no body text", `{"type":"button","body":{},"action":` + yes + `}`, missing, "interactive.body.text"},
		{"empty body", `{"type":"button","body":{"text":""},"action":` + yes + `}`, invalid, "interactive.body.text"},
		{"long body", `{"type":"button","body":{"text":"` + long(1025) + `"},"action":` + yes + `}`, invalid, "interactive.body.text"},
		{"footer without text", with(`"footer":{}`), missing, "interactive.footer.text"},
		{"long footer", with(`"footer":{"text":"` + long(61) + `"}`), invalid, "interactive.footer.text"},
		{"header without type", with(`"header":{}`), missing, "interactive.header.type"},
		{"header of another type", with(`"header":{"type":"audio"}`), invalid, "interactive.header.type"},
		{"header without its text", with(`"header":{"type":"text"}`), missing, "interactive.header.text"},
		{"long header", with(`"header":{"type":"text","text":"` + long(61) + `"}`), invalid, "interactive.header.text"},
		{"header without its image", with(`"header":{"type":"image","video":{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPA"}}`), missing, "interactive.header.image"},
		{"header without a file", with(`"header":{"type":"video","video":{}}`), missing, "interactive.header.video.link"},
		{
			"header with link and id", with(`"header":{"type":"document","document":{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPA","link":"https://a.example"}}`),
			invalid, "interactive.header.document.id",
		},
		{"header with a bad link", with(`"header":{"type":"image","image":{"link":"data:a"}}`), invalid, "interactive.header.image.link"},
	})
}

func TestParse_Buttons_Refused(t *testing.T) {
	t.Parallel()
	parsed(t, "interactive", interactive("button", reply("A", "B", long(20))))
	for _, kind := range []string{"button", "reply_buttons"} {
		requireRefused(t, "interactive", []refused{
			{kind + " without buttons", interactive(kind, `{}`), missing, "interactive.action.buttons"},
			{kind + " with none", interactive(kind, reply()), invalid, "interactive.action.buttons"},
			{kind + " with four", interactive(kind, reply("A", "B", "C", "D")), invalid, "interactive.action.buttons"},
			{kind + " with equal titles", interactive(kind, reply("A", "B", "A")), invalid, "interactive.action.buttons[2].reply.title"},
			{kind + " with a long title", interactive(kind, reply("A", long(21))), invalid, "interactive.action.buttons[1].reply.title"},
			{kind + " with an empty title", interactive(kind, reply("")), invalid, "interactive.action.buttons[0].reply.title"},
		})
	}
	one := func(button string) string { return interactive("button", `{"buttons":[`+button+`]}`) }
	requireRefused(t, "interactive", []refused{
		{"no reply", one(`{"type":"reply"}`), missing, "interactive.action.buttons[0].reply"},
		{"another type", one(`{"type":"url","reply":{"id":"a","title":"A"}}`), invalid, "interactive.action.buttons[0].type"},
		{"no id", one(`{"type":"reply","reply":{"title":"A"}}`), missing, "interactive.action.buttons[0].reply.id"},
		{"long id", one(`{"type":"reply","reply":{"id":"` + long(257) + `","title":"A"}}`), invalid, "interactive.action.buttons[0].reply.id"},
	})
}

func TestParse_List_Refused(t *testing.T) {
	t.Parallel()
	parsed(t, "interactive", listOf(section("", 10)))
	parsed(t, "interactive", listOf(section("A", 5), section("B", 5)))
	parsed(t, "interactive", `{"type":"list","body":{"text":"`+long(4096)+`"},"action":{"button":"Open","sections":[`+section("", 1)+`]}}`)
	row := func(row string) string { return listOf(`{"rows":[` + row + `]}`) }
	requireRefused(t, "interactive", []refused{
		{"no button", interactive("list", `{"sections":[`+section("", 1)+`]}`), missing, "interactive.action.button"},
		{"no sections", interactive("list", `{"button":"Open"}`), missing, "interactive.action.sections"},
		{"empty sections", listOf(), invalid, "interactive.action.sections"},
		{"eleven sections", listOf(strings.Split(strings.Repeat(section("A", 1)+"|", 10)+section("A", 1), "|")...), invalid, "interactive.action.sections"},
		{"no rows", listOf(`{"title":"A"}`), missing, "interactive.action.sections[0].rows"},
		{"empty rows", listOf(section("A", 0)), invalid, "interactive.action.sections[0].rows"},
		{"eleven rows in one section", listOf(section("A", 11)), invalid, "interactive.action.sections[0].rows"},
		{"eleven rows in all", listOf(section("A", 5), section("B", 5), section("C", 1)), invalid, "interactive.action.sections[2].rows"},
		{"second section without title", listOf(section("A", 1), section("", 1)), missing, "interactive.action.sections[1].title"},
		{"blank title of several", listOf(section(" ", 1), section("B", 1)), invalid, "interactive.action.sections[0].title"},
		{"long section title", listOf(section(long(25), 1)), invalid, "interactive.action.sections[0].title"},
		{"long button", interactive("list", `{"button":"`+long(21)+`","sections":[`+section("", 1)+`]}`), invalid, "interactive.action.button"},
		{"row without id", row(`{"title":"A"}`), missing, "interactive.action.sections[0].rows[0].id"},
		{"row without title", row(`{"id":"A"}`), missing, "interactive.action.sections[0].rows[0].title"},
		{"long row id", row(`{"id":"` + long(201) + `","title":"A"}`), invalid, "interactive.action.sections[0].rows[0].id"},
		{"long row title", row(`{"id":"A","title":"` + long(25) + `"}`), invalid, "interactive.action.sections[0].rows[0].title"},
		{"long description", row(`{"id":"A","title":"A","description":"` + long(73) + `"}`), invalid, "interactive.action.sections[0].rows[0].description"},
		{
			"header with a file", `{"type":"list","header":{"type":"image","image":{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPA"}},"body":{"text":"a"},"action":{"button":"Open","sections":[` +
				section("", 1) + `]}}`, invalid, "interactive.header.type",
		},
	})
}

func TestParse_LinkButtonAndFlow_Refused(t *testing.T) {
	t.Parallel()
	link := func(name, parameters string) string {
		return interactive("cta_url", `{"name":"`+name+`","parameters":`+parameters+`}`)
	}
	flow := func(parameters string) string {
		return interactive("flow", `{"name":"flow","parameters":`+parameters+`}`)
	}
	const at = "interactive.action.parameters"
	requireRefused(t, "interactive", []refused{
		{"link without name", interactive("cta_url", `{"parameters":{}}`), missing, "interactive.action.name"},
		{"link with another name", link("flow", `{"display_text":"A","url":"https://a.example"}`), invalid, "interactive.action.name"},
		{"link without parameters", interactive("cta_url", `{"name":"cta_url"}`), missing, at},
		{"link without label", link("cta_url", `{"url":"https://a.example"}`), missing, at + ".display_text"},
		{"link without url", link("cta_url", `{"display_text":"A"}`), missing, at + ".url"},
		{"link with a long label", link("cta_url", `{"display_text":"`+long(21)+`","url":"https://a.example"}`), invalid, at + ".display_text"},
		{"link with a relative url", link("cta_url", `{"display_text":"A","url":"a.example"}`), invalid, at + ".url"},
		{"link with a long body", `{"type":"cta_url","body":{"text":"` + long(1025) + `"},"action":{"name":"cta_url","parameters":{"display_text":"A","url":"https://a.example"}}}`, invalid, "interactive.body.text"},
		{"flow without version", flow(`{"flow_id":"1","flow_cta":"A"}`), missing, at + ".flow_message_version"},
		{"flow without label", flow(`{"flow_message_version":"3","flow_id":"1"}`), missing, at + ".flow_cta"},
		{"flow without id and name", flow(`{"flow_message_version":"3","flow_cta":"A"}`), missing, at + ".flow_id"},
		{"flow with a long label", flow(`{"flow_message_version":"3","flow_id":"1","flow_cta":"` + long(31) + `"}`), invalid, at + ".flow_cta"},
		{"flow with another mode", flow(`{"flow_message_version":"3","flow_id":"1","flow_cta":"A","mode":"x"}`), invalid, at + ".mode"},
		{"flow with another action", flow(`{"flow_message_version":"3","flow_id":"1","flow_cta":"A","flow_action":"x"}`), invalid, at + ".flow_action"},
		{"flow without parameters", interactive("flow", `{"name":"flow"}`), missing, at},
	})
}

func TestParse_Template_Refused(t *testing.T) {
	t.Parallel()
	parameter := func(parameter string) string { return template(`{"type":"body","parameters":[` + parameter + `]}`) }
	const at = "template.components[0].parameters[0]"
	requireRefused(t, "template", []refused{
		{"no name", `{"language":"en"}`, missing, "template.name"},
		{"empty name", `{"name":"","language":"en"}`, invalid, "template.name"},
		{"blank name", `{"name":" \t ","language":"en"}`, invalid, "template.name"},
		{"long name", `{"name":"` + long(513) + `","language":"en"}`, invalid, "template.name"},
		{"no language", `{"name":"n"}`, missing, "template.language"},
		{"empty language", `{"name":"n","language":""}`, invalid, "template.language"},
		{"language of another type", `{"name":"n","language":1}`, invalid, "template.language"},
		{"language without code", `{"name":"n","language":{"policy":"deterministic"}}`, missing, "template.language.code"},
		{"empty code", `{"name":"n","language":{"code":""}}`, invalid, "template.language.code"},
		{"components of another type", `{"name":"n","language":"en","components":{}}`, invalid, "template.components"},
		{"component without type", template(`{}`), missing, "template.components[0].type"},
		{"button without sub_type", template(`{"type":"body"}`, `{"type":"BUTTON","index":0}`), missing, "template.components[1].sub_type"},
		{"button without index", template(`{"type":"button","sub_type":"url"}`), missing, "template.components[0].index"},
		{"button with a negative index", template(`{"type":"button","sub_type":"url","index":-1}`), invalid, "template.components[0].index"},
		{"button with a word as index", template(`{"type":"button","sub_type":"url","index":"a"}`), invalid, "template.components[0].index"},
		{"button with half an index", template(`{"type":"button","sub_type":"url","index":"1.5"}`), invalid, "template.components[0].index"},
		{"button with a hexadecimal index", template(`{"type":"button","sub_type":"url","index":"0x1p0"}`), invalid, "template.components[0].index"},
		{"carousel without cards", template(`{"type":"carousel"}`), missing, "template.components[0].cards"},
		{"eleven cards", template(`{"type":"carousel","cards":[` + strings.Repeat(`{"components":[]},`, 10) + `{"components":[]}]}`), invalid, "template.components[0].cards"},
		{"card without components", template(`{"type":"carousel","cards":[{}]}`), missing, "template.components[0].cards[0].components"},
		{"fault in a card", template(`{"type":"carousel","cards":[{"components":[{"type":"button","index":0}]}]}`), missing, "template.components[0].cards[0].components[0].sub_type"},
		{"text without text", parameter(`{"type":"text"}`), missing, at + ".text"},
		{"empty text", parameter(`{"type":"text","text":""}`), invalid, at + ".text"},
		{"currency without value", parameter(`{"type":"currency"}`), missing, at + ".currency"},
		{"currency without fallback", parameter(`{"type":"currency","currency":{}}`), missing, at + ".currency.fallback_value"},
		{"time without fallback", parameter(`{"type":"date_time","date_time":{}}`), missing, at + ".date_time.fallback_value"},
		{"image without file", parameter(`{"type":"image","image":{}}`), missing, at + ".image.link"},
		{"image with link and id", parameter(`{"type":"image","image":{"link":"https://a.example","id":"med_01M6GZZ6GNTM9XW2PD78P3QHPA"}}`), invalid, at + ".image.id"},
		{"document without object", parameter(`{"type":"DOCUMENT"}`), missing, at + ".document"},
		{"location without longitude", parameter(`{"type":"location","location":{"latitude":1}}`), missing, at + ".location.longitude"},
		{"payload without payload", parameter(`{"type":"payload"}`), missing, at + ".payload"},
		{"long coupon", parameter(`{"type":"coupon_code","coupon_code":"` + long(21) + `"}`), invalid, at + ".coupon_code"},
		{"offer without object", parameter(`{"type":"limited_time_offer","limited_time_offer":5}`), invalid, at + ".limited_time_offer"},
		{"offer without end", parameter(`{"type":"limited_time_offer","limited_time_offer":{}}`), missing, at + ".limited_time_offer.expiration_time_ms"},
	})
}

func TestParse_Template_UnknownTypes_PassedOn(t *testing.T) {
	t.Parallel()
	parsed(t, "template", template(`{"type":"order_details","parameters":[{"type":"gif","gif":{"link":1}}],"new":{"a":[1]}}`))
}

func TestParse_LinkOfAButton_Refused(t *testing.T) {
	t.Parallel()
	requireRefused(t, "interactive", []refused{
		{
			"a link that is a script",
			`{"type":"cta_url","body":{"text":"a"},"action":{"name":"cta_url","parameters":{"display_text":"a","url":"javascript:1"}}}`,
			invalid, "interactive.action.parameters.url",
		},
	})
}
