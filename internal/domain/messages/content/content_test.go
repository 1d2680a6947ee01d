package content_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/messages/content"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/jsonin"
)

func TestParse_Kept(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, kind, object string
		want               content.Content
	}{
		{
			"text compact and unescaped", "text", ` { "body" : "a \u00e9 \u003cb\u003e \/ \n" , "x" : [ 1.50 , null , true ] } `,
			content.Content{Object: json.RawMessage(`{"body":"a é <b> / \n","x":[1.50,null,true]}`), Body: "a é <b> / \n"},
		},
		{
			"image by link", "image", `{"caption":"Menu","link":"http://harbour.example/a.jpg"}`,
			content.Content{Body: "Menu", Media: &content.Media{Link: "http://harbour.example/a.jpg", Caption: "Menu"}, Links: true},
		},
		{
			"document by id", "document", `{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPA","filename":"a.pdf"}`,
			content.Content{
				Media: &content.Media{ID: "med_01M6GZZ6GNTM9XW2PD78P3QHPA", Filename: "a.pdf"}, Library: []content.Reference{{Param: "document.id", ID: "med_01M6GZZ6GNTM9XW2PD78P3QHPA", Type: "document"}},
			},
		},
		{
			"voice note", "audio", `{"link":"https://harbour.example/a.ogg","voice":true}`,
			content.Content{Media: &content.Media{Link: "https://harbour.example/a.ogg", Voice: true}, Links: true},
		},
		{
			"reaction removed", "reaction", `{"message_id":"pmid.1","emoji":""}`,
			content.Content{Reaction: &content.Reaction{MessageID: "pmid.1"}},
		},
		{
			"interactive with a file", "interactive",
			`{"type":"reply_buttons","header":{"type":"image","image":{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPA"}},"body":{"text":"Well?"},"action":` + reply("Yes") + `}`,
			content.Content{Body: "Well?", Library: []content.Reference{{Param: "interactive.header.image.id", ID: "med_01M6GZZ6GNTM9XW2PD78P3QHPA", Type: "image"}}},
		},
		{
			"template with its name trimmed", "template", `{"language":"pt_PT","name":" \torder_ready ","later":1}`,
			content.Content{
				Object:   json.RawMessage(`{"language":"pt_PT","name":"order_ready","later":1}`),
				Template: &content.Template{Name: "order_ready", Language: "pt_PT"},
			},
		},
		{
			"template with components", "template",
			`{"name":"n","language":{"code":"en"},"components":[{"type":"header","parameters":[{"type":"video","video":{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPA"}}]}]}`,
			content.Content{
				Template: &content.Template{
					Name: "n", Language: "en",
					Components: json.RawMessage(`[{"type":"header","parameters":[{"type":"video","video":{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPA"}}]}]`),
				},
				Library: []content.Reference{{Param: "template.components[0].parameters[0].video.id", ID: "med_01M6GZZ6GNTM9XW2PD78P3QHPA", Type: "video"}},
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.want.Type = test.kind
			if test.want.Object == nil {
				test.want.Object = json.RawMessage(test.object)
			}
			got := parsed(t, test.kind, test.object)
			require.Equal(t, string(test.want.Object), string(got.Object))
			require.Equal(t, test.want, got)
		})
	}
}

func TestParse_Examples_AcceptedAndUnchanged(t *testing.T) {
	t.Parallel()
	for kind, objects := range examples() {
		for _, object := range objects {
			got := parsed(t, kind, object)
			require.JSONEq(t, object, string(got.Object))
			require.Equal(t, got, parsed(t, kind, string(got.Object)))
			require.Equal(t, kind == "template", got.NeedsTemplate())
		}
	}
}

func TestParse_NoObject_Refused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, kind, object string
		code               fault.Code
		param              string
	}{
		{"no type", "", `{}`, missing, "type"},
		{"unknown type", "sticker", `{}`, invalid, "type"},
		{"no object", "text", ``, missing, "text"},
		{"null", "text", `null`, invalid, "text"},
		{"a string", "image", `"x"`, invalid, "image"},
		{"an array", "image", `[]`, invalid, "image"},
		{"broken JSON", "text", `{"body":`, invalid, "text"},
		{"two values", "text", `{"body":"a"},"image":{}`, invalid, "text"},
		{"NUL", "text", `{"body":"a\u0000"}`, invalid, "text.body"},
		{"name given twice", "text", `{"body":"a","body":"b"}`, invalid, "text.body"},
		{"names differ in case", "text", `{"body":"a","BODY":"b"}`, invalid, "text.BODY"},
		{"half a surrogate pair", "text", `{"body":"\ud800"}`, invalid, "text.body"},
		{"too deep", "text", `{"body":"a","x":` + strings.Repeat("[", 31) + strings.Repeat("]", 31) + `}`, invalid, "text.x" + strings.Repeat("[0]", 30)},
		{"too large", "text", `{"body":"` + strings.Repeat("a", jsonin.MaxBodyBytes) + `"}`, fault.RequestTooLarge, "text"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := content.Parse(test.kind, json.RawMessage(test.object))
			requireFault(t, err, test.code, test.param)
		})
	}
}

func TestParse_SeveralFaults_FirstInOrder(t *testing.T) {
	t.Parallel()
	requireRefused(t, "interactive", []refused{
		{"missing beats an earlier invalid", `{"type":5,"body":{}}`, missing, "interactive.action"},
		{"shallow missing beats an earlier deep one", `{"body":{},"action":{}}`, missing, "interactive.type"},
		{
			"shallow missing beats a deep one in another field",
			`{"action":{"sections":[{"rows":[{"title":"A"}]}]},"type":"list","body":{}}`, missing, "interactive.body.text",
		},
		{"invalid in the order of the body", `{"action":7,"type":"x","body":{"text":"a"}}`, invalid, "interactive.action"},
		{"and the other way round", `{"type":"x","action":7,"body":{"text":"a"}}`, invalid, "interactive.type"},
		{
			"schema faults before the others",
			`{"type":"cta_url","action":{"name":"flow"},"body":{"text":"` + long(4097) + `"}}`, invalid, "interactive.body.text",
		},
		{
			"order of the body beyond the schema, too",
			`{"type":"button","header":{"type":"image","image":{"link":"data:a"}},"body":{"text":"` + long(1025) + `"},"action":` + reply("A") + `}`,
			invalid, "interactive.header.image.link",
		},
		{
			"missing beats invalid beyond the schema, too",
			`{"type":"cta_url","body":{"text":"a"},"action":{"name":"flow"}}`, missing, "interactive.action.parameters",
		},
	})
}

func TestContext_ReplyTo(t *testing.T) {
	t.Parallel()
	empty, id := "", "pmid.1"
	for _, test := range []struct {
		name    string
		context *content.Context
		kind    string
		want    string
		code    fault.Code
	}{
		{"no context", nil, "text", "", ""},
		{"quoted", &content.Context{MessageID: &id}, "text", id, ""},
		{"ignored for reactions", &content.Context{MessageID: &id}, "reaction", "", ""},
		{"missing", &content.Context{}, "reaction", "", missing},
		{"empty", &content.Context{MessageID: &empty}, "reaction", "", invalid},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := test.context.ReplyTo(test.kind)
			if test.code != "" {
				requireFault(t, err, test.code, "context.message_id")
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

func TestCheckReference_LimitIs512Characters(t *testing.T) {
	t.Parallel()
	require.NoError(t, content.CheckReference(""))
	require.NoError(t, content.CheckReference(long(512)))
	requireFault(t, content.CheckReference(long(513)), invalid, "biz_opaque_callback_data")
}

func TestInspect_EveryFault_AndWhatCanBeRead(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, kind, object string
		faults             []place
		read               content.Content
	}{
		{"nothing", "text", ``, []place{{missing, "text"}}, content.Content{}},
		{"no object", "text", `[]`, []place{{invalid, "text"}}, content.Content{}},
		{
			"two fields", "text", `{"preview_url":1,"body":""}`,
			[]place{{invalid, "text.preview_url"}, {invalid, "text.body"}},
			content.Content{},
		},
		{
			"missing first", "reaction", `{"emoji":"` + long(17) + `"}`,
			[]place{{missing, "reaction.message_id"}, {invalid, "reaction.emoji"}},
			content.Content{},
		},
		{
			"library file", "image", `{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPA","caption":"` + long(1025) + `"}`,
			[]place{{invalid, "image.caption"}},
			content.Content{Library: []content.Reference{{Param: "image.id", ID: "med_01M6GZZ6GNTM9XW2PD78P3QHPA", Type: "image"}}},
		},
		{"link", "audio", `{"link":"https://a.example","caption":"a"}`, []place{{invalid, "audio.caption"}}, content.Content{Links: true}},
		{
			"template", "template", `{"name":" order ","language":{"code":"en"},"components":[{"type":"button"}]}`,
			[]place{{missing, "template.components[0].sub_type"}, {missing, "template.components[0].index"}},
			content.Content{Template: &content.Template{Name: "order", Language: "en"}},
		},
		{"template without a language", "template", `{"name":"order"}`, []place{{missing, "template.language"}}, content.Content{}},
		{
			"flow", "interactive", `{"type":"flow","body":{"text":"a"},"action":{}}`,
			[]place{{missing, "interactive.action.name"}, {missing, "interactive.action.parameters"}},
			content.Content{Flow: true},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			read, faults := content.Inspect(test.kind, json.RawMessage(test.object))
			require.Equal(t, test.faults, places(faults))
			test.read.Type = test.kind
			require.Equal(t, test.read, read)
		})
	}
}

func TestInspect_FilesAndFlows_Told(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind, object string
		links, flow  bool
	}{
		{"text", `{"body":"a"}`, false, false},
		{"image", `{"link":"https://a.example/a.jpg"}`, true, false},
		{"image", `{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPA"}`, false, false},
		{"template", template(values("header", `{"type":"image","image":{"link":"https://a.example/a.jpg"}}`)), true, false},
		{"interactive", interactive("flow", `{"name":"flow","parameters":{"flow_message_version":"3","flow_id":"1","flow_cta":"a"}}`), false, true},
		{"interactive", interactive("button", reply("A")), false, false},
	} {
		read := parsed(t, test.kind, test.object)
		require.Equal(t, []bool{test.links, test.flow}, []bool{read.Links, read.Flow}, test.object)
	}
}
