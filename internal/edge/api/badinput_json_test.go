package api_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
)

// realBodies are valid bodies. The tests send parts of them.
func (b *badInputFixture) realBodies() []string {
	return []string{
		`{"name":"VIP","color":"violet","team_id":"` + b.Team.String() + `"}`,
		"{ \"name\" : \"Gr\u00f6\u00dfe \\u00e9 \\ud83d\\ude9a \\\"q\\\" \\\\ \U0001f69a\" }",
		"{\r\n\t\"color\": \"sky\",\r\n\t\"name\": \"a b\"\r\n}",
	}
}

func badSyntax(t *testing.T, b *badInputFixture) {
	syntax := faulty("")
	for number, body := range b.realBodies() {
		for length := range body {
			b.refuse(t, b.both(fmt.Sprintf("body %d cut to %d bytes", number, length), body[:length], syntax)...)
		}
		for _, tail := range []string{
			"x", "}", "]", ",", ":", `"`, "0", "null", "{}", `{"name":"second"}`, "\x00", "\v", "\f", "\x1e", "//", "/* */", "#",
			"\u00a0", "\u2028", "\ufeff", "\xff",
		} {
			b.refuse(t, b.both(fmt.Sprintf("body %d followed by %q", number, tail), body+tail, syntax)...)
		}
	}
	for _, body := range []string{
		`{"name":"x"/**/}`, "{\"name\":\"x\"//\n}", "{#\n\"name\":\"x\"}", `/**/{"name":"x"}`,
		`{'name':'x'}`, `{name:"x"}`, `{"name":'x'}`, `{"name":x}`, "{`name`:`x`}", `{"name":"x",}`, `{,"name":"x"}`,
		`{"name":"x",,"color":"red"}`, `{"name":"x" "color":"red"}`, `{"name" "x"}`, `{"name"="x"}`, `{"name":}`, `{:"x"}`,
		`{"name":"x":"y"}`, `{"name":["x"}`, `{"name":["x",]}`, `{"name":{"x"}}`, `{1:"x"}`, `{null:"x"}`, `{"name","x"}`,
		`{"name":"x";}`, `{{"name":"x"}}`, `({"name":"x"})`, `"name":"x"`, `name=x`, `<label name="x"/>`, `---
name: x`,
		`{"name":undefined}`, `{"name":True}`, `{"name":TRUE}`, `{"name":None}`, `{"name":nil}`, `{"name":nul}`, `{"name":truee}`,
		`{"name":"\x41"}`, `{"name":"\'"}`, `{"name":"\u12"}`, `{"name":"\u12g4"}`, `{"name":"\U0001F69A"}`, `{"name":"\u{41}"}`,
		"{\"name\":\"a\nb\"}", "{\"name\":\"a\\\nb\"}", "{\"name\":\"a\tb\"}", "{\"name\":\"a\x1fb\"}", "{\"na\x01me\":\"x\"}",
		"\v{\"name\":\"x\"}", "\u00a0{\"name\":\"x\"}", "{\u2003\"name\":\"x\"}", "{\"name\"\x00:\"x\"}",
		`)]}',{"name":"x"}`, "\x1e{\"name\":\"x\"}", `$.name`, `{"name":"x"`, `{`, `}`, `{]`, `[}`, `"`, `\`, "\x00", "\xff",
	} {
		b.refuse(t, b.both(fmt.Sprintf("%.40q", body), body, syntax)...)
	}
	for encoding, body := range inOtherEncodings(`{"name":"x"}`) {
		b.refuse(t, b.both("in "+encoding, body, syntax)...)
	}
}

// inOtherEncodings encodes a text in encodings other than UTF-8, and in UTF-8 with a byte order mark.
func inOtherEncodings(text string) map[string]string {
	encode := func(order binary.ByteOrder, units any) string {
		encoded, _ := binary.Append(nil, order, units)
		return string(encoded)
	}
	short, long := utf16.Encode([]rune(text)), []rune(text)
	return map[string]string{
		"UTF-8 with a byte order mark":     "\xef\xbb\xbf" + text,
		"UTF-16 LE":                        encode(binary.LittleEndian, short),
		"UTF-16 BE":                        encode(binary.BigEndian, short),
		"UTF-16 LE with a byte order mark": "\xff\xfe" + encode(binary.LittleEndian, short),
		"UTF-16 BE with a byte order mark": "\xfe\xff" + encode(binary.BigEndian, short),
		"UTF-32 LE":                        encode(binary.LittleEndian, long),
		"UTF-32 BE":                        encode(binary.BigEndian, long),
		"UTF-32 LE with a byte order mark": "\xff\xfe\x00\x00" + encode(binary.LittleEndian, long),
		"UTF-32 BE with a byte order mark": "\x00\x00\xfe\xff" + encode(binary.BigEndian, long),
		"UTF-7":                            "+AHs-+ACI-name+ACI-:+ACI-x+ACI-+AH0-",
		"EBCDIC":                           "\xc0\x7f\x95\x81\x94\x85\x7f\x7a\x7f\xa7\x7f\xd0",
	}
}

func badTopLevel(t *testing.T, b *badInputFixture) {
	for _, body := range []string{
		"null", "[]", `"x"`, `""`, "1", "0", "-0", "1.5", "1e5", "true", "false", `[{"name":"x"}]`, `["name","x"]`, `"{\"name\":\"x\"}"`,
		"", " ", "\n", "\t\r\n ", strings.Repeat(" ", 100_000), "[[]]", "[null]",
	} {
		b.refuse(t, b.both(fmt.Sprintf("%.30q", body), body, faulty(""))...)
	}
	b.refuse(t, b.create("an object without the name", `{}`, refusal{400, "invalid_request_error", "missing_required_field", "name"}))
}

func badMediaType(t *testing.T, b *badInputFixture) {
	want := refusal{415, "invalid_request_error", "unsupported_media_type", ""}
	wrap := func(in badInput, name, value string) badInput {
		in.name += fmt.Sprintf("%s: %q", name, value)
		in.header, in.want = []string{name, value}, want
		return in
	}
	for _, media := range []string{
		"", " ", "json", "text/plain", "text/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
		"application/jsonp", "application/json5", "application/x-json", "application/ld+json", "application/merge-patch+json",
		"application/json-patch+json", "application/xml", "application/octet-stream", "application/*", "*/*", "application/",
		"/json", "application json", "application/json, application/json", "application/json, text/plain", "application/json charset=utf-8",
		"application/json; charset=iso-8859-1", "application/json; charset=utf-16", "application/json; charset=utf-8; charset=utf-16",
		"application/json; charset=", "application/json; charset", "application/json; =utf-8", "application/json; charset=utf8x",
		"application/json\x80", strings.Repeat("a", 10_000),
	} {
		b.refuse(t, wrap(b.create("", `{"name":"x"}`, want), "Content-Type", media), wrap(b.change("", `{"name":"x"}`, want), "Content-Type", media))
	}
	for _, encoding := range []string{
		"gzip", "x-gzip", "GZIP", "deflate", "br", "zstd", "compress", "aws-chunked", "identity, gzip", "gzip, identity", "nonsense", "*",
	} {
		b.refuse(t, wrap(b.create("", `{"name":"x"}`, want), "Content-Encoding", encoding),
			wrap(b.change("", `{"name":"x"}`, want), "Content-Encoding", encoding))
	}
	bomb := gzipped(t, 16<<20)
	b.refuse(t, wrap(b.create("a bomb ", bomb, want), "Content-Encoding", "gzip"), wrap(b.change("a bomb ", bomb, want), "Content-Encoding", "gzip"))

	w, once := newWire(t, b), `{"name":"never"}`
	w.refuseRaw(t, "415 unsupported_media_type", map[string]string{ // two header lines equal one line with a comma
		"a second type":             w.post(once, "Content-Length: 16", "Content-Type: text/plain"),
		"a second encoding":         w.post(once, "Content-Length: 16", "Content-Encoding: identity", "Content-Encoding: gzip"),
		"a second encoding, folded": w.post(once, "Content-Length: 16", "Content-Encoding: identity,\r\n gzip"),
	})

	// These headers are accepted.
	for _, header := range [][]string{
		{"Content-Type", "APPLICATION/JSON"},
		{"Content-Type", `application/json; charset="UTF-8"`},
		{"Content-Type", "application/json;charset=Utf-8"},
		{"Content-Type", "application/json; profile=x"},
		{"Content-Encoding", "identity"},
	} {
		answer := b.try(t, badInput{name: header[1], method: "PATCH", path: "/labels/" + b.label, body: `{"color":"gray"}`, header: header})
		require.Equal(t, 200, answer.Status, "%s: %s", header, answer.Body)
	}
}

// gzipped is a gzip body that is size bytes long when it is decompressed.
func gzipped(t *testing.T, size int64) []byte {
	t.Helper()
	var packed bytes.Buffer
	writer, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	require.NoError(t, err)
	_, err = io.WriteString(writer, `{"name":"`)
	require.NoError(t, err)
	_, err = io.CopyN(writer, zeros{}, size)
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	return packed.Bytes()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func badSize(t *testing.T, b *badInputFixture) {
	const most = 1 << 20
	large := refusal{413, "invalid_request_error", "request_too_large", ""}
	padded := func(body string, size int) string { return body + strings.Repeat(" ", size-len(body)) }
	for _, size := range []int{most + 1, most + 2, 2 * most, 8 * most} {
		b.refuse(t, b.both(fmt.Sprintf("%d bytes of blanks", size), padded(`{"name":"x"}`, size), large)...)
		b.refuse(t, b.both(fmt.Sprintf("a name of %d bytes", size), `{"name":"`+strings.Repeat("x", size), large)...)
	}
	b.refuse(t, b.both("1 MiB of one name", `{"name":"`+strings.Repeat("x", most-11)+`"}`, faulty("name"))...)
	b.refuse(t, b.both("1 MiB of an unknown name", `{"name":"n","`+strings.Repeat("x", most-17)+`":1}`, faulty(strings.Repeat("x", 199)+"…"))...)
	b.requireNothingStored(t)

	require.Equal(t, 201, b.try(t, b.create("1 MiB exactly", padded(`{"name":"padded"}`, most), refusal{})).Status)
	require.Equal(t, 200, b.try(t, b.change("1 MiB exactly", padded(`{"name":"padded too"}`, most), refusal{})).Status)
	b.keep(t)
}

func badKeys(t *testing.T, b *badInputFixture) {
	for body, param := range map[string]string{
		`{"name":"a","name":"b"}`:                       "name",
		`{"name":"a","name":"a"}`:                       "name",
		`{"name":"a","name":null}`:                      "name",
		`{"name":"a","color":"red","name":"b"}`:         "name",
		`{"name":"a","color":"red","color":"blue"}`:     "color",
		`{"name":"a","Name":"b"}`:                       "Name",
		`{"NAME":"a","name":"b"}`:                       "name",
		`{"name":"a","nAmE":"b"}`:                       "nAmE",
		`{"name":"a","COLOR":"red","color":"red"}`:      "color",
		`{"name":"a","\u006eame":"b"}`:                  "name",
		`{"\u006e\u0061\u006d\u0065":"a","name":"b"}`:   "name",
		`{"name":"a","\u004eame":"b"}`:                  "Name",
		`{"name":"a","x":{"y":1,"y":2}}`:                "x.y",
		`{"name":"a","x":{"y":1,"Y":2}}`:                "x.Y",
		`{"name":"a","x":[0,{"y":1,"y":2}]}`:            "x[1].y",
		`{"name":"a","x":{"k":1,"` + "\u212a" + `":2}}`: "x.\u212a", // the Kelvin sign is a k
		`{"name":"a","x":{"s":1,"` + "\u017f" + `":2}}`: "x.\u017f", // the long s is an s
		`{"name":"a","x":{"\u00e9":1,"\u00c9":2}}`:      "x.\u00c9",
		`{"name":"a","x":{"":1,"":2}}`:                  `x.""`,
		`{"name":"a","team_id":null,"TEAM_ID":null}`:    "TEAM_ID",
		`{"name":"a","__proto__":{},"__PROTO__":{}}`:    "__PROTO__",
	} {
		b.refuse(t, b.both(body, body, faulty(param))...)
	}
	many := `{"name":"a"`
	for i := range 40 { // many names, so that the check uses a map
		many += fmt.Sprintf(`,"x%d":%d`, i, i)
	}
	b.refuse(t, b.both("forty names, the first again", many+`,"x0":1}`, faulty("x0"))...)
	b.refuse(t, b.both("forty names, one again in upper case", many+`,"X39":1}`, faulty("X39"))...)

	missing := refusal{400, "invalid_request_error", "missing_required_field", "name"}
	for _, key := range []string{"Name", "NAME", "nAME", " name", "name ", "name\\u0000x", "names", "label.name", "/name", "\u043dame"} {
		want := missing
		if strings.Contains(key, "u0000") {
			want = faulty("name?x")
		}
		b.refuse(t, b.create("the name only as "+key, `{"`+key+`":"x"}`, want))
	}
}
