package jsonin_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/jsonin"
)

// sendBody has 300 bytes, as a typical message.
var sendBody = []byte(`{"account":"106540352242922","to":"4915112345678","type":"interactive",` +
	`"interactive":{"type":"button","body":{"text":"Which of the two shall it be?"},"action":{"buttons":[` +
	`{"id":"a","title":"Left"},{"id":"b","title":"Right"}]}},"metadata":{"o":4711,"t":["vip","eu"],"w":1.25,"gift":null}}`)

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(sendBody)))
	for b.Loop() {
		if _, err := jsonin.Parse(sendBody); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	schema := compile(b, strings.Replace(sendSchema, `"maxProperties": 3`, `"maxProperties": 4`, 1))
	run := func(name, body string, valid bool) {
		document, err := jsonin.Parse([]byte(body))
		require.NoError(b, err)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := document.Check(schema); (err == nil) != valid {
					b.Fatal(err)
				}
			}
		})
	}
	run("valid", string(sendBody), true)
	run("text", `{"account":"106540352242922","to":"4915112345678","type":"text","text":{"body":"hello"}}`, true)
	run("missing", `{"account":"106540352242922","to":"4915112345678","type":"text","text":{}}`, false)
	run("invalid", strings.Replace(string(sendBody), "Right", strings.Repeat("r", 21), 1), false)
}

func BenchmarkInto(b *testing.B) {
	document, err := jsonin.Parse([]byte(`{"name":"VIP","color":"red","metadata":{"a":1},"buttons":[{"title":"x","count":3}]}`))
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := jsonin.Into[draft](document); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHostile measures the refusal of hostile bodies of 1 MiB.
func BenchmarkHostile(b *testing.B) {
	parse := map[string]string{
		"arrays":  `{"a":` + strings.Repeat("[", 1<<20),
		"members": wide(80_000),
		"items":   `{"a":[` + strings.Repeat("1,", 1<<19) + `1]}`,
		"values":  `{"a":[` + strings.Repeat(`[`+strings.Repeat("1,", 9_000)+`1],`, 50) + `1]}`,
	}
	for name, text := range parse {
		body := []byte(text)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := jsonin.Parse(body); err == nil {
					b.Fatal("accepted")
				}
			}
		})
	}
	check := map[string]struct{ schema, body string }{
		"mistyped": {
			`{"properties":{"a":{"items":{"items":{"anyOf":[{"type":"string"},{"type":"null"},{"type":"array"}]}}}}}`,
			`{"a":[` + strings.Repeat(`[`+strings.Repeat("1,", 9_000)+`1],`, 2) + `[1]]}`,
		},
		"exponents": {
			`{"properties":{"a":{"items":{"type":"integer","minimum":1}}}}`,
			`{"a":[` + strings.Repeat("1e-308,", 9_999) + `1]}`,
		},
		"unknown": {
			`{"properties":{"a":{"items":{"additionalProperties":false}}}}`,
			`{"a":[` + strings.Repeat(wide(1_000)+",", 24) + `{}]}`,
		},
	}
	for name, hostile := range check {
		schema := compile(b, hostile.schema)
		document, err := jsonin.Parse([]byte(hostile.body))
		require.NoError(b, err)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := document.Check(schema); err == nil {
					b.Fatal("accepted")
				}
			}
		})
	}
}
