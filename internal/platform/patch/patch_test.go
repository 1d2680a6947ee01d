package patch_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/parley-chat/parley/internal/platform/jsonin"
	"github.com/parley-chat/parley/internal/platform/patch"
)

type inner struct {
	Deep string `json:"deep"`
}

type body struct {
	Text   patch.Field[string]            `json:"text"`
	Number patch.Field[int]               `json:"number"`
	Flag   patch.Field[bool]              `json:"flag"`
	List   patch.Field[[]string]          `json:"list"`
	Object patch.Field[inner]             `json:"object"`
	Free   patch.Field[map[string]string] `json:"free"`
	Raw    patch.Field[json.RawMessage]   `json:"raw"`
}

// decoders are encoding/json and the decoder of requests, which must agree.
func decoders(t testing.TB) map[string]func(text string) (body, error) {
	t.Helper()
	return map[string]func(string) (body, error){
		"encoding/json": func(text string) (b body, err error) { return b, json.Unmarshal([]byte(text), &b) },
		"jsonin": func(text string) (body, error) {
			document, err := jsonin.Parse([]byte(text))
			require.NoError(t, err)
			return jsonin.Into[body](document)
		},
	}
}

func TestField_AbsentNullAndValue_Distinct(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text string
		want body
	}{
		"nothing":         {`{}`, body{}},
		"an empty string": {`{"text":""}`, body{Text: patch.To("")}},
		"a string":        {`{"text":"x"}`, body{Text: patch.To("x")}},
		"the word null":   {`{"text":"null"}`, body{Text: patch.To("null")}},
		"a zero":          {`{"number":0}`, body{Number: patch.To(0)}},
		"false":           {`{"flag":false}`, body{Flag: patch.To(false)}},
		"an empty list":   {`{"list":[]}`, body{List: patch.To([]string{})}},
		"a list":          {`{"list":["a","b"]}`, body{List: patch.To([]string{"a", "b"})}},
		"an object":       {`{"object":{"deep":"x"}}`, body{Object: patch.To(inner{Deep: "x"})}},
		"an empty object": {`{"object":{}}`, body{Object: patch.To(inner{})}},
		"free form":       {`{"free":{"a":"b"}}`, body{Free: patch.To(map[string]string{"a": "b"})}},
		"raw":             {`{"raw":{"a":[1]}}`, body{Raw: patch.To(json.RawMessage(`{"a":[1]}`))}},
		"all as null": {
			`{"text":null,"number":null,"flag":null,"list":null,"object":null,"free":null,"raw":null}`,
			body{
				Text: patch.Clear[string](), Number: patch.Clear[int](), Flag: patch.Clear[bool](), List: patch.Clear[[]string](),
				Object: patch.Clear[inner](), Free: patch.Clear[map[string]string](), Raw: patch.Clear[json.RawMessage](),
			},
		},
		"null between blanks": {"{\"text\" : \n null }", body{Text: patch.Clear[string]()}},
		"two of three":        {`{"text":"x","flag":null}`, body{Text: patch.To("x"), Flag: patch.Clear[bool]()}},
	} {
		for decoder, decode := range decoders(t) {
			t.Run(name+" by "+decoder, func(t *testing.T) {
				t.Parallel()
				got, err := decode(test.text)
				require.NoError(t, err)
				require.Equal(t, test.want, got)
			})
		}
	}
}

func TestField_WrongType_Refused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"text":1}`, `{"number":"1"}`, `{"number":1.5}`, `{"flag":0}`, `{"list":{}}`, `{"object":[]}`, `{"free":"x"}`} {
		for decoder, decode := range decoders(t) {
			_, err := decode(text)
			require.Error(t, err, "%s by %s", text, decoder)
		}
	}
}

func TestField_AnyString_ReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		value := rapid.String().Draw(r, "value")
		encoded, err := json.Marshal(map[string]string{"text": value})
		require.NoError(r, err)
		var got body
		require.NoError(r, json.Unmarshal(encoded, &got))
		require.Equal(r, body{Text: patch.To(value)}, got)
	})
}

func TestApply_EachCase_ReportsChange(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		field   patch.Field[string]
		before  string
		after   string
		changed bool
	}{
		"absent leaves it":                 {patch.Field[string]{}, "a", "a", false},
		"absent leaves it, empty":          {patch.Field[string]{}, "", "", false},
		"a value replaces it":              {patch.To("b"), "a", "b", true},
		"the same value changes nothing":   {patch.To("a"), "a", "a", false},
		"an empty value is a value":        {patch.To(""), "a", "", true},
		"null empties it":                  {patch.Clear[string](), "a", "", true},
		"null on nothing changes nothing":  {patch.Clear[string](), "", "", false},
		"a value on nothing is a change":   {patch.To("b"), "", "b", true},
		"nothing on nothing is no change ": {patch.To(""), "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := test.before
			require.Equal(t, test.changed, patch.Apply(test.field, &target))
			require.Equal(t, test.after, target)
		})
	}
	rapid.Check(t, func(r *rapid.T) {
		before, value := rapid.IntRange(-2, 2).Draw(r, "before"), rapid.IntRange(-2, 2).Draw(r, "value")
		field := rapid.SampledFrom([]patch.Field[int]{{}, patch.To(value), patch.Clear[int]()}).Draw(r, "field")
		target := before
		require.Equal(r, patch.Apply(field, &target), target != before, "it reports whether the target changed")
		require.False(r, patch.Apply(field, &target), "a second time it changes nothing")
	})
}
