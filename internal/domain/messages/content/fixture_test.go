package content_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/messages/content"
	"github.com/parley-chat/parley/internal/fault"
)

const (
	missing = fault.MissingRequiredField
	invalid = fault.InvalidFieldValue
)

// refused is an object that Parse or Against refuses.
type refused struct {
	name   string
	object string
	code   fault.Code
	param  string
}

// requireFault checks the code and the param of a fault, and that its message names the param.
func requireFault(t *testing.T, err error, code fault.Code, param string) {
	t.Helper()
	found, ok := errors.AsType[*fault.Error](err)
	require.True(t, ok, "not a fault: %v", err)
	require.Equal(t, [2]string{string(code), param}, [2]string{string(found.Code), found.Param}, found.Message)
	require.NotContains(t, found.Message, "%!", "the format of the message")
}

func requireRefused(t *testing.T, kind string, cases []refused) {
	t.Helper()
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := content.Parse(kind, json.RawMessage(test.object))
			requireFault(t, err, test.code, test.param)
			requireSameAsSchema(t, kind, test.object)
		})
	}
}

func parsed(t *testing.T, kind, object string) content.Content {
	t.Helper()
	result, err := content.Parse(kind, json.RawMessage(object))
	require.NoError(t, err)
	return result
}

// long is a string of so many characters of two bytes each.
func long(length int) string { return strings.Repeat("é", length) }

// interactive returns an interactive message with a type and an action.
func interactive(kind, action string) string {
	return fmt.Sprintf(`{"type":%q,"body":{"text":"Hello"},"action":%s}`, kind, action)
}

func reply(titles ...string) string {
	var buttons []string
	for i, title := range titles {
		buttons = append(buttons, fmt.Sprintf(`{"type":"reply","reply":{"id":"b%d","title":%q}}`, i, title))
	}
	return `{"buttons":[` + strings.Join(buttons, ",") + `]}`
}

// section returns a section of a list with so many rows.
func section(title string, rows int) string {
	row := `{"id":"r","title":"Row"}`
	named := ""
	if title != "" {
		named = fmt.Sprintf(`"title":%q,`, title)
	}
	return `{` + named + `"rows":[` + strings.TrimSuffix(strings.Repeat(row+",", rows), ",") + `]}`
}

func listOf(sections ...string) string {
	return interactive("list", `{"button":"Open","sections":[`+strings.Join(sections, ",")+`]}`)
}

// template returns a template message with components.
func template(components ...string) string {
	return `{"name":"order_ready","language":{"code":"en_US"},"components":[` + strings.Join(components, ",") + `]}`
}

// examples are accepted objects that have every field of the contract.
func examples() map[string][]string {
	return map[string][]string{
		"text":     {`{"body":"Hello","preview_url":true}`},
		"image":    {`{"link":"https://harbour.example/a.jpg","caption":"A"}`, `{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPA"}`},
		"document": {`{"link":"https://harbour.example/a.pdf","caption":"A","filename":"a.pdf"}`},
		"video":    {`{"link":"https://harbour.example/a.mp4","caption":"A"}`},
		"audio":    {`{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPA","voice":true}`},
		"reaction": {`{"message_id":"pmid.1","emoji":"👍"}`},
		"interactive": {
			`{"type":"button","header":{"type":"image","image":{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPA","filename":"a"}},"body":{"text":"Hello"},
				"footer":{"text":"F"},"action":` + reply("Yes", "No") + `}`,
			`{"type":"reply_buttons","header":{"type":"text","text":"T"},"body":{"text":"Hello"},"action":` + reply("Yes") + `}`,
			`{"type":"list","header":{"type":"text","text":"T"},"body":{"text":"Hello"},"action":{"button":"Open","sections":[
				{"title":"A","rows":[{"id":"1","title":"One","description":"D"}]},{"title":"B","rows":[{"id":"2","title":"Two"}]}]}}`,
			`{"type":"cta_url","header":{"type":"document","document":{"link":"https://harbour.example/a.pdf"}},"body":{"text":"Hello"},
				"action":{"name":"cta_url","parameters":{"display_text":"Open","url":"https://harbour.example"}}}`,
			`{"type":"flow","header":{"type":"video","video":{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPB"}},"body":{"text":"Hello"},"action":{"name":"flow","parameters":{
				"flow_message_version":"3","flow_id":"1","flow_cta":"Book","mode":"draft","flow_token":"t","flow_action":"navigate",
				"flow_action_payload":{"screen":"A","data":{"a":1}}}}}`,
			interactive("flow", `{"name":"flow","parameters":{"flow_message_version":"3","flow_name":"book","flow_cta":"Book"}}`),
		},
		"template": {
			`{"name":"order_ready","language":"en_US"}`,
			`{"name":"order_ready","language":{"code":"en_US","policy":"deterministic"},"components":[
				{"type":"header","parameters":[{"type":"image","image":{"link":"https://harbour.example/a.jpg"}}]},
				{"type":"BODY","parameters":[{"type":"text","text":"1042","parameter_name":"order"},
					{"type":"currency","currency":{"fallback_value":"5 €","code":"EUR","amount_1000":5000}},
					{"type":"date_time","date_time":{"fallback_value":"today"}}]},
				{"type":"button","sub_type":"quick_reply","index":0,"parameters":[{"type":"payload","payload":"p"}]},
				{"type":"button","sub_type":"copy_code","index":"1","parameters":[{"type":"coupon_code","coupon_code":"SAVE"}]},
				{"type":"button","sub_type":"flow","index":"2","parameters":[{"type":"action","action":{"flow_token":"t"}}]}]}`,
			template(`{"type":"header","parameters":[{"type":"location","location":{"latitude":"38.7","longitude":-9.1,"name":"N","address":"A"}}]}`),
			template(`{"type":"header","parameters":[{"type":"document","document":{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPA","filename":"a.pdf"}}]}`,
				`{"type":"header","parameters":[{"type":"video","video":{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPB"}}]}`),
			template(`{"type":"carousel","cards":[{"card_index":0,"components":[
				{"type":"header","parameters":[{"type":"image","image":{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPC"}}]}]}]}`),
			template(`{"type":"limited_time_offer","parameters":[
				{"type":"limited_time_offer","limited_time_offer":{"expiration_time_ms":1790000000000}}]}`),
		},
	}
}
