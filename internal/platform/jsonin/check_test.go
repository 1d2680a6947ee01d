package jsonin_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/jsonin"
)

func compile(t testing.TB, schema string) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	compiler.RegisterVocabulary(jsonin.ErrorCodes())
	compiler.RegisterVocabulary(jsonin.Rules())
	compiler.AssertVocabs()
	require.NoError(t, compiler.AddResource("test:///schema.json", document))
	compiled, err := compiler.Compile("test:///schema.json")
	require.NoError(t, err)
	return compiled
}

func check(t testing.TB, schema *jsonschema.Schema, body string) error {
	t.Helper()
	document, err := jsonin.Parse([]byte(body))
	require.NoError(t, err)
	return document.Check(schema)
}

// sendSchema is like the schema of a message: a type, content by type, free metadata.
const sendSchema = `{
	"type": "object",
	"additionalProperties": false,
	"required": ["type", "account"],
	"anyOf": [{"required": ["to"]}, {"required": ["recipient"]}],
	"properties": {
		"to": {"type": "string", "pattern": "^[0-9]{6,15}$", "x-rule": "must be 6 to 15 digits", "x-error-code": "invalid_phone_number"},
		"recipient": {"type": "string", "minLength": 1},
		"account": {"type": "string"},
		"type": {"enum": ["text", "image", "interactive"]},
		"text": {
			"type": "object", "required": ["body"],
			"properties": {"body": {"type": "string", "minLength": 1, "maxLength": 10}, "preview_url": {"type": "boolean"}}
		},
		"image": {"type": "object", "oneOf": [{"required": ["id"]}, {"required": ["link"]}],
			"properties": {"link": {"type": "string", "format": "uri"}, "caption": {"type": "string", "maxLength": 5}}},
		"interactive": {"$ref": "#/$defs/interactive"},
		"metadata": {"type": "object", "maxProperties": 3, "propertyNames": {"type": "string", "minLength": 1, "maxLength": 4}},
		"events": {"type": "array", "minItems": 1, "maxItems": 3, "uniqueItems": true,
			"x-error-code": "invalid_event_type", "items": {"enum": ["a", "b", "c"]}},
		"reply_to": {"anyOf": [{"type": "string", "maxLength": 4}, {"type": "null"}]}
	},
	"allOf": [
		{"if": {"properties": {"type": {"const": "text"}}}, "then": {"required": ["text"]}},
		{"if": {"properties": {"type": {"const": "interactive"}}}, "then": {"required": ["interactive"]}}
	],
	"$defs": {
		"interactive": {
			"type": "object", "required": ["type"],
			"oneOf": [
				{"properties": {"type": {"const": "button"}, "action": {"$ref": "#/$defs/buttons"}}, "required": ["type", "action"]},
				{"properties": {"type": {"const": "list"}, "sections": {"type": "array", "minItems": 1}}, "required": ["type", "sections"]}
			]
		},
		"buttons": {
			"type": "object", "required": ["buttons"],
			"properties": {"buttons": {"type": "array", "maxItems": 3, "items": {
				"type": "object", "required": ["id", "title"],
				"properties": {"id": {"type": "string"}, "title": {"type": "string", "minLength": 1, "maxLength": 20}}}}}
		}
	}
}`

func TestDocument_Check_FirstFault(t *testing.T) {
	t.Parallel()
	schema := compile(t, sendSchema)
	const text = `"account":"1","to":"4915112345678","type":"text","text":{"body":"hi"}`
	tests := []struct {
		label, body string
		code        fault.Code
		param, rule string
	}{
		{"a full body", `{` + text + `,"metadata":{"a":1},"events":["a","b"],"reply_to":null}`, "", "", ""},
		{"ten characters of four bytes", `{"account":"1","to":"491511","type":"text","text":{"body":"😀😀😀😀😀😀😀😀😀😀"}}`, "", "", ""},
		{"content that mirrors the provider's", `{"account":"1","to":"491511","type":"text","text":{"body":"x","new":1}}`, "", "", ""},

		{"nothing", `{}`, fault.MissingRequiredField, "type", ""},
		{"the second required one", `{"type":"text"}`, fault.MissingRequiredField, "account", ""},
		{"the first alternative", `{"type":"image","account":"1"}`, fault.MissingRequiredField, "to", ""},
		{"content of the kind", `{"type":"text","account":"1","to":"491511"}`, fault.MissingRequiredField, "text", ""},
		{"inner", `{"type":"text","account":"1","to":"491511","text":{}}`, fault.MissingRequiredField, "text.body", ""},
		{"missing beats invalid before it", `{"to":1,"x":2,"type":"text","account":"1","text":{}}`, fault.MissingRequiredField, "text.body", ""},
		{"shallower beats deeper", `{"text":{},"to":"491511","type":"text"}`, fault.MissingRequiredField, "account", ""},
		{"null is not missing", `{"account":null,"to":"491511","type":"image"}`, fault.InvalidFieldValue, "account", "must be a string"},

		{"unknown", `{` + text + `,"tpyo":1}`, fault.InvalidFieldValue, "tpyo", "is not a known field"},
		{"a known field in another case", `{` + text + `,"MetaData":{}}`, fault.InvalidFieldValue, "MetaData", "is not a known field"},
		{"first of several unknown", `{"z":1,` + text + `,"b":1,"a":1}`, fault.InvalidFieldValue, "z", "is not a known field"},
		{
			"order of appearance", `{"reply_to":"12345","zz":1,"account":5,"to":"491511","type":"text","text":{"body":""}}`,
			fault.InvalidFieldValue, "reply_to", "must be at most 4 characters",
		},
		{
			"order of appearance, reversed", `{"text":{"body":""},"type":"text","to":"491511","account":5,"zz":1,"reply_to":"12345"}`,
			fault.InvalidFieldValue, "text.body", "must be 1 to 10 characters",
		},
		{
			"eleven characters", `{"account":"1","to":"491511","type":"text","text":{"body":"😀😀😀😀😀😀😀😀😀😀😀"}}`,
			fault.InvalidFieldValue, "text.body", "must be 1 to 10 characters",
		},
		{"enum", `{"account":"1","to":"491511","type":"txt"}`, fault.InvalidFieldValue, "type", "must be one of text, image, interactive"},
		{"code of its own", `{"account":"1","to":"+49","type":"image"}`, fault.InvalidPhoneNumber, "to", "must be 6 to 15 digits"},
		{"code of its own, wrong type", `{"account":"1","to":49,"type":"image"}`, fault.InvalidPhoneNumber, "to", "must be a string"},
		{"code of the array for its item", `{` + text + `,"events":["a","x"]}`, fault.InvalidEventType, "events[1]", "must be one of a, b, c"},
		{"too few items", `{` + text + `,"events":[]}`, fault.InvalidEventType, "events", "must have 1 to 3 items"},
		{"repeated item", `{` + text + `,"events":["a","b","a"]}`, fault.InvalidEventType, "events[2]", "repeats an earlier item"},
		{"nullable by anyOf", `{` + text + `,"reply_to":5}`, fault.InvalidFieldValue, "reply_to", "must be a string or null"},
		{"nullable by anyOf, too long", `{` + text + `,"reply_to":"12345"}`, fault.InvalidFieldValue, "reply_to", "must be at most 4 characters"},
		{"format", `{"account":"1","to":"491511","type":"image","image":{"link":"nope"}}`, fault.InvalidFieldValue, "image.link", "must be a valid absolute URL"},
		{
			"both alternatives", `{"account":"1","to":"491511","type":"image","image":{"id":"1","link":"https://a.b"}}`,
			fault.InvalidFieldValue, "image", "fits more than one of the accepted forms; send exactly one",
		},
		{"too many members", `{` + text + `,"metadata":{"a":1,"b":2,"c":3,"d":4}}`, fault.InvalidFieldValue, "metadata", "must have at most 3 members"},
		{
			"bad name", `{` + text + `,"metadata":{"a":1,"long name":2},"reply_to":null}`, fault.InvalidFieldValue, "metadata.long name",
			"is not an accepted name: a name must be 1 to 4 characters",
		},

		{
			"no branch by its kind", `{"account":"1","to":"491511","type":"interactive","interactive":{"type":"btn"}}`,
			fault.InvalidFieldValue, "interactive.type", "must be one of button, list",
		},
		{
			"missing inside the meant branch", `{"account":"1","to":"491511","type":"interactive","interactive":{"type":"list"}}`,
			fault.MissingRequiredField, "interactive.sections", "",
		},
		{
			"deep inside the meant branch", `{"account":"1","to":"491511","type":"interactive","interactive":{"type":"button","action":{"buttons":[
			{"id":"a","title":"A"},{"id":"b","title":"a title that is longer than twenty"}]}}}`,
			fault.InvalidFieldValue, "interactive.action.buttons[1].title", "must be 1 to 20 characters",
		},
		{"missing deep inside", `{"account":"1","to":"491511","type":"interactive","interactive":{"type":"button","action":{"buttons":[
			{"id":"a","title":"A"},{"id":"b"},{}]}}}`, fault.MissingRequiredField, "interactive.action.buttons[1].title", ""},
		{
			"the wrong branch's content", `{"account":"1","to":"491511","type":"interactive","interactive":{"type":"list","sections":[]}}`,
			fault.InvalidFieldValue, "interactive.sections", "must not be empty",
		},
	}
	for _, test := range tests {
		t.Run(test.label, func(t *testing.T) {
			t.Parallel()
			for range 20 { // the validator walks maps in random order
				err := check(t, schema, test.body)
				if test.code == "" {
					require.NoError(t, err)
					continue
				}
				refused := refusal(t, err)
				require.Equal(t, test.code, refused.Code, refused.Message)
				require.Equal(t, test.param, refused.Param)
				if test.rule != "" {
					require.Equal(t, fmt.Sprintf("The field `%s` %s.", test.param, test.rule), refused.Message)
				}
			}
		})
	}
}

func TestDocument_Check_Rules(t *testing.T) {
	t.Parallel()
	tests := []struct{ schema, value, rule string }{
		{`{"type":"string"}`, `1`, "must be a string"},
		{`{"type":"integer"}`, `1.5`, "must be a whole number"},
		{`{"type":"integer"}`, `"1"`, "must be a whole number"},
		{`{"type":"boolean"}`, `"true"`, "must be true or false"},
		{`{"type":["null","string"]}`, `[]`, "must be a string or null"},
		{`{"type":"array"}`, `{}`, "must be an array"},
		{`{"type":"object"}`, `[]`, "must be an object"},
		{`{"minLength":1}`, `""`, "must not be empty"},
		{`{"minLength":6}`, `"12345"`, "must be at least 6 characters"},
		{`{"minLength":6,"maxLength":6}`, `"12345"`, "must be exactly 6 characters"},
		{`{"maxLength":1}`, `"12"`, "must be at most 1 character"},
		{`{"maxLength":4096}`, `"` + strings.Repeat("x", 4097) + `"`, "must be at most 4,096 characters"},
		{`{"maxItems":1000}`, `[` + strings.Repeat("1,", 1000) + `1]`, "must have at most 1,000 items"},
		{`{"minimum":1,"maximum":100}`, `0`, "must be 1 to 100"},
		{`{"minimum":0.5}`, `0`, "must be at least 0.5"},
		{`{"maximum":-2}`, `0`, "must be at most -2"},
		{`{"exclusiveMinimum":0}`, `0`, "must be greater than 0"},
		{`{"exclusiveMaximum":0}`, `0`, "must be less than 0"},
		{`{"multipleOf":5}`, `7`, "must be a multiple of 5"},
		{`{"const":true}`, `false`, "must be true"},
		{`{"const":"x"}`, `"y"`, "must be x"},
		{`{"enum":["x",null,3,""]}`, `"y"`, `must be one of x, null, 3, ""`},
		{`{"enum":[` + strings.Repeat(`"x",`, 3) + `"z"]}`, `"y"`, "must be one of x, z"},
		{`{"enum":["only"]}`, `"y"`, "must be only"},
		{`{"format":"email"}`, `"nobody"`, "must be an email address, for example ana@example.com"},
		{`{"format":"uuid"}`, `"x"`, "must be a UUID"},
		{`{"format":"date-time"}`, `"yesterday"`, "must be a time as in 2026-01-31T12:00:00Z"},
		{`{"format":"json-pointer"}`, `"x"`, "must be a valid json-pointer"},
		{`{"minProperties":1,"properties":{"name":{},"color":{}}}`, `{}`, "must have at least one of color, name"},
		{`{"minProperties":1}`, `{}`, "must not be empty"},
		{`{"minProperties":2}`, `{}`, "must have at least 2 members"},
		{`{"not":{"type":"string"}}`, `"x"`, "has a combination of values that is not accepted"},
		{`{"contains":{"const":1}}`, `[2]`, "does not contain the items that it must have"},
		{`false`, `1`, "is not a known field"},
		{`{"x-error-code":"invalid_limit","anyOf":[{"type":"integer"},{"const":"all"}]}`, `"some"`, "must be all"},
		{`{"oneOf":[{"type":"array"},{"type":"string"}]}`, `1`, "must be an array or a string"},
	}
	for _, test := range tests {
		t.Run(test.rule+" "+test.schema, func(t *testing.T) {
			t.Parallel()
			schema := compile(t, `{"properties":{"f":`+test.schema+`}}`)
			refused := refusal(t, check(t, schema, `{"f":`+test.value+`}`))
			require.Equal(t, "f", refused.Param)
			require.Equal(t, "The field `f` "+test.rule+".", refused.Message)
		})
	}
}

func TestDocument_Check_WholeBody_NoParam(t *testing.T) {
	t.Parallel()
	patch := compile(t, `{"type":"object","minProperties":1,"properties":{"name":{"type":"string"},"color":{"type":"string"}}}`)
	refused := refusal(t, check(t, patch, `{}`))
	require.Empty(t, refused.Param)
	require.Equal(t, "The body must have at least one of color, name.", refused.Message)
}

func TestDocument_Check_UnevaluatedProperties_CauseFirst(t *testing.T) {
	t.Parallel()
	schema := compile(t, `{"unevaluatedProperties":false,"allOf":[
		{"properties":{"name":{"maxLength":3},"color":{"type":"string"}}}]}`)
	refused := refusal(t, check(t, schema, `{"color":"red","name":"long"}`))
	require.Equal(t, "name", refused.Param)
	refused = refusal(t, check(t, schema, `{"color":"red","size":1}`))
	require.Equal(t, "size", refused.Param)
	require.Equal(t, "The field `size` is not a known field.", refused.Message)
}

func TestDocument_Check_OddNames_Printed(t *testing.T) {
	t.Parallel()
	schema := compile(t, `{"additionalProperties":{"additionalProperties":{"type":"string"}}}`)
	for name, param := range map[string]string{
		"a.b":                    "m.a.b",
		"0":                      "m.0",
		"":                       `m.""`,
		"tab\there":              "m.tab?here",
		"\x1b[31mred":            "m.?[31mred",
		"\u202ereversed":         "m.?reversed",
		strings.Repeat("n", 500): "m." + strings.Repeat("n", 197) + "…",
		strings.Repeat("é", 500): "m." + strings.Repeat("é", 197) + "…",
	} {
		quoted, err := json.Marshal(name)
		require.NoError(t, err)
		require.Equal(t, param, refusal(t, check(t, schema, `{"m":{`+string(quoted)+`:1}}`)).Param)
	}
}

func TestCheckValue_QueryParameter_FirstFault(t *testing.T) {
	t.Parallel()
	limit := compile(t, `{"type":"integer","minimum":1,"maximum":100,"x-error-code":"invalid_limit"}`)
	require.NoError(t, jsonin.CheckValue("limit", json.Number("100"), limit))
	for _, value := range []any{json.Number("0"), json.Number("101"), json.Number("1.5"), "abc", ""} {
		refused := refusal(t, jsonin.CheckValue("limit", value, limit))
		require.Equal(t, fault.InvalidLimit, refused.Code)
		require.Equal(t, "limit", refused.Param)
	}
	labels := compile(t, `{"type":"array","items":{"enum":["a","b"]}}`)
	require.Equal(t, "label[1]", refusal(t, jsonin.CheckValue("label", []any{"a", "c"}, labels)).Param)
}

func TestErrorCodes_UnknownCode_Refused(t *testing.T) {
	t.Parallel()
	compiler := jsonschema.NewCompiler()
	compiler.RegisterVocabulary(jsonin.ErrorCodes())
	compiler.AssertVocabs()
	require.NoError(t, compiler.AddResource("test:///schema.json", map[string]any{"x-error-code": "invalid_limits"}))
	_, err := compiler.Compile("test:///schema.json")
	require.ErrorContains(t, err, "invalid_limits")
}

func TestDocument_Faults_OnePerFieldInOrder(t *testing.T) {
	t.Parallel()
	schema := compile(t, sendSchema)
	tests := []struct {
		body   string
		params []string
	}{
		{`{"account":"1","to":"491511","type":"text","text":{"body":"hi"}}`, nil},
		{`{"zz":1,"text":{"preview_url":1},"type":"text","reply_to":"12345"}`, []string{"account", "to", "text.body", "zz", "text.preview_url", "reply_to"}},
		{`{"reply_to":5,"account":5,"to":"x","type":"image","image":{"link":"nope","caption":"123456"}}`, []string{"reply_to", "account", "to", "image.link", "image.caption"}},
	}
	for _, test := range tests {
		for range 20 { // the validator walks maps in random order
			document, err := jsonin.Parse([]byte(test.body))
			require.NoError(t, err)
			for most := 1; most <= len(test.params)+1; most++ {
				faults, err := document.Faults(schema, most)
				require.NoError(t, err)
				var params []string
				for _, one := range faults {
					params = append(params, one.Param)
				}
				require.Equal(t, test.params[:min(most, len(test.params))], params)
			}
		}
	}
}

func TestDocument_Without_KeepsTheRest(t *testing.T) {
	t.Parallel()
	document, err := jsonin.Parse([]byte(`{"b":1,"a":{"c":1.50}}`))
	require.NoError(t, err)
	same, err := document.Without(func(name string) bool { return name == "c" })
	require.NoError(t, err)
	require.Equal(t, document, same)
	lean, err := document.Without(func(name string) bool { return name == "b" })
	require.NoError(t, err)
	require.JSONEq(t, `{"a":{"c":1.50}}`, string(lean.Raw()))
	require.NotContains(t, lean.Value(), "b")
	require.Contains(t, document.Value(), "b")
}
