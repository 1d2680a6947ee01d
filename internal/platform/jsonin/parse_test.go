package jsonin_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/jsonin"
)

// bodies returns real requests. They are files because they are also the fuzzer's seeds.
func bodies(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/bodies/*.json")
	require.NoError(t, err)
	require.Len(t, paths, 5)
	read := make(map[string][]byte, len(paths))
	for _, path := range paths {
		body, err := os.ReadFile(path)
		require.NoError(t, err)
		read[filepath.Base(path)] = body
	}
	return read
}

// refusal checks that err is a fault, and returns it.
func refusal(t testing.TB, err error) *fault.Error {
	t.Helper()
	refused, ok := errors.AsType[*fault.Error](err)
	require.True(t, ok, "want a fault, got %v", err)
	require.NotEmpty(t, refused.Message)
	require.True(t, strings.HasSuffix(refused.Message, "."), refused.Message)
	require.LessOrEqual(t, len([]rune(refused.Param)), 200)
	return refused
}

// standard decodes a body with encoding/json, with numbers as text.
func standard(t testing.TB, body []byte) any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var value any
	require.NoError(t, decoder.Decode(&value))
	return value
}

func TestParse_ValidBodies_Accepted(t *testing.T) {
	t.Parallel()
	accepted := map[string]string{
		"nothing in it":              `{}`,
		"space around":               " \t\r\n{ } \n",
		"every kind":                 `{"a":null,"b":true,"c":false,"d":"","e":0,"f":[],"g":{}}`,
		"a surrogate pair":           `{"a":"\ud83d\ude9a"}`,
		"characters above the BMP":   `{"a":"👩‍👩‍👧‍👦"}`,
		"bidi and zero width":        "{\"a\":\"\u202e\u200b\ufffe\uffff\"}",
		"the replacement character":  "{\"a\":\"\ufffd\"}",
		"escaped controls":           `{"a":"\r\n\t\u001b[31m\u0001"}`,
		"thousands of combining":     `{"a":"e` + strings.Repeat("\u0301", 10_000) + `"}`,
		"an empty name":              `{"":1}`,
		"same name in two objects":   `{"a":{"x":1},"b":{"x":1,"a":2}}`,
		"names one letter apart":     `{"to":1,"too":2,"t":3}`,
		"names equal after trimming": `{"to":1,"to ":2}`,
		"32 levels":                  nested(32, `{"a":`, `1`, `}`),
		"1,000 members":              wide(1_000),
		"10,000 items":               `{"a":[` + strings.Repeat("1,", 9_999) + `1]}`,
	}
	for _, number := range []string{
		"0", "-0", "0.0", "-0.0e0", "1", "-1", "9007199254740993", "12345678901234567", "1e308", "1E+308", "1e-308",
		"1.7976931348623157e308", "0.1", "123e5", "1e0000308", "100000000000000000000000000000",
		"0.00000000000000000000000000012345678901234567", "1" + strings.Repeat("0", 308), "1." + strings.Repeat("0", 300),
	} {
		accepted["number "+number] = `{"a":` + number + `}`
	}
	for name, body := range bodies(t) {
		accepted[name] = string(body)
	}
	for name, body := range accepted {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			document, err := jsonin.Parse([]byte(body))
			require.NoError(t, err)
			require.Equal(t, standard(t, []byte(body)), any(document.Value()))
			require.Equal(t, body, string(document.Raw()))
		})
	}
}

func TestParse_BadSyntax_Refused(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{`, `}`, `{]`, `{"a"}`, `{"a":}`, `{"a" 1}`, `{"a":1,}`, `{,"a":1}`, `{"a":1 "b":2}`, `{"a":1,,"b":2}`,
		`{"a":[1,]}`, `{"a":[,1]}`, `{"a":[1 2]}`, `{"a":[1}`, `{"a":{]}`, `{a:1}`, `{'a':1}`, `{"a":'x'}`, `{1:2}`,
		`{null:1}`, `{"a":undefined}`, `{"a":NaN}`, `{"a":Infinity}`, `{"a":-Infinity}`, `{"a":True}`, `{"a":nul}`,
		`{"a":nulll}`, `{"a":truefalse}`, `{"a":01}`, `{"a":-01}`, `{"a":1.}`, `{"a":.1}`, `{"a":+1}`, `{"a":-}`,
		`{"a":1e}`, `{"a":1e+}`, `{"a":0x1f}`, `{"a":1_000}`, `{"a":1,000}`, `{"a":"x}`, `{"a":"\x41"}`, `{"a":"\u12"}`,
		`{"a":"\uZZZZ"}`, `{"a":"\"}`, `{"a":"` + "\n" + `"}`, `{"a":"` + "\t" + `"}`, `{"a":"` + "\x1b" + `"}`,
		`{"a":1}x`, `{"a":1}{}`, `{"a":1}{"a":1}`, `{"a":1},`, `{"a":1}]`, `{"a":1} null`, `{}/**/`, `{/* c */}`,
		"{// c\n}", "# c\n{}", `{"a":1;}`, `("a")`, `{"a":1)`, "\x00{}", "{\x00}", "{}\x00", "\v{}", "\u00a0{}", "\u2028{}",
		`json={"a":1}`, `a=1&b=2`, `<a/>`, `--- {}`, "\x1f\x8b\x08", `{"a":"` + "\x7f",
	} {
		t.Run(fmt.Sprintf("%q", body), func(t *testing.T) {
			t.Parallel()
			_, err := jsonin.Parse([]byte(body))
			require.Equal(t, fault.InvalidFieldValue, refusal(t, err).Code)
		})
	}
}

func TestParse_Truncated_Refused(t *testing.T) {
	t.Parallel()
	for name, body := range bodies(t) {
		whole := bytes.TrimSpace(body)
		for end := range whole {
			_, err := jsonin.Parse(whole[:end])
			refused := refusal(t, err)
			require.Equal(t, fault.InvalidFieldValue, refused.Code, "%s up to byte %d", name, end)
		}
		for at := range whole {
			garbled := bytes.Clone(whole)
			garbled[at] = 0
			_, err := jsonin.Parse(garbled)
			require.Equal(t, fault.InvalidFieldValue, refusal(t, err).Code, "%s with NUL at %d", name, at)
		}
	}
}

func TestParse_Refusal_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	tests := []struct{ body, param, message string }{
		{"", "", "The body is empty; send a JSON object."},
		{" \n\t", "", "The body is empty; send a JSON object."},
		{"null", "", "The body must be a JSON object."},
		{"[]", "", "The body must be a JSON object."},
		{`[{"a":1}]`, "", "The body must be a JSON object."},
		{`"x"`, "", "The body must be a JSON object."},
		{"1", "", "The body must be a JSON object."},
		{"true", "", "The body must be a JSON object."},
		{"\xef\xbb\xbf{}", "", "The body must not start with a byte order mark; send plain UTF-8."},
		{"\xff\xfe{\x00}\x00", "", "The body must be encoded in UTF-8, not UTF-16 or UTF-32."},
		{"\xfe\xff\x00{\x00}", "", "The body must be encoded in UTF-8, not UTF-16 or UTF-32."},
		{"\x00\x00\xfe\xff", "", "The body is not valid JSON: look at byte 0."},
		{`{"a":1`, "", "The body ends before its JSON is complete."},
		{`{"a":1} {}`, "", "The body must hold one JSON object and nothing after it."},
		{`{"a":[1,2,x]}`, "", "The body is not valid JSON: look at byte 10."},
		{`{"to":1,"to":2}`, "to", "The field `to` is given more than once."},
		{`{"to":1,"\u0074o":2}`, "to", "The field `to` is given more than once."},
		{
			`{"a":[{"b":{"to":1,"x":2,"TO":3}}]}`, "a[0].b.TO",
			"The field `a[0].b.TO` differs only in upper and lower case from another field of the same object.",
		},
		{`{"a":"\u0000"}`, "a", "The field `a` must not contain the NUL character."},
		{`{"a":{"b\u0000c":1}}`, "a.b?c", "The field `a.b?c` has a name that contains the NUL character."},
		{"{\"a\":[\"\xc3\x28\"]}", "a[0]", "The field `a[0]` must be valid UTF-8."},
		{"{\"\xff\":1}", "", "The body must be valid UTF-8."},
		{`{"a":{"b":"\ud800x"}}`, "a.b", "The field `a.b` must not contain half a surrogate pair (\\uD800 to \\uDFFF)."},
		{
			`{"a":[0,1e309]}`, "a[1]",
			"The field `a[1]` must be a number that fits a double, with an exponent of -308 to 308.",
		},
		{
			`{"id":123456789012345678}`, "id",
			"The field `id` must be a number of at most 17 significant digits; send longer ones as a string.",
		},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%q", test.body), func(t *testing.T) {
			t.Parallel()
			_, err := jsonin.Parse([]byte(test.body))
			refused := refusal(t, err)
			require.Equal(t, fault.InvalidFieldValue, refused.Code)
			require.Equal(t, test.param, refused.Param)
			require.Equal(t, test.message, refused.Message)
		})
	}
}

func TestParse_NamesEqualWithoutCase_Refused(t *testing.T) {
	t.Parallel()
	// encoding/json treats the Kelvin sign as k and the long s as s.
	twins := []string{"kis", "KIS", "Kis", "kIs", "kiS", "\u212ais", "ki\u017f", `\u006bis`, `\u004bis`, `\u212ais`, `ki\u017f`}
	fillers := []int{0, 5, 14, 15, 16, 17, 40, 900}
	for _, twin := range twins {
		for _, count := range fillers {
			var filler strings.Builder
			for index := range count {
				fmt.Fprintf(&filler, `"f%d":%d,`, index, index)
			}
			for _, body := range []string{
				`{"kis":1,` + filler.String() + `"` + twin + `":2}`,
				`{"x":[{` + filler.String() + `"kis":1,"` + twin + `":2}]}`,
			} {
				_, err := jsonin.Parse([]byte(body))
				require.NotEmpty(t, refusal(t, err).Param, body)
			}
		}
	}
}

func TestParse_BadStrings_Refused(t *testing.T) {
	t.Parallel()
	bad := []string{
		`\u0000`, `x\u0000`, `\u0000x`, "\x00", `\ud800`, `\uD800`, `\udc00`, `\uDFFF`, `\ud800\ud800`, `\ud800\u0041`,
		`\ud800\n`, `\udc00\ud800`, "\xc0\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf", "\xed\xa0\x80",
		"\xed\xb0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xfe", "\x80", "\xc3", "\xe2\x82", "\xf0\x9f\x98",
	}
	for _, text := range bad {
		for _, body := range []string{
			`{"a":"` + text + `"}`, `{"` + text + `":1}`, `{"a":["` + text + `"]}`, `{"a":{"` + text + `":"x"}}`,
			`{"a":"long enough to leave the fast path, ` + text + `, on both sides of it"}`,
		} {
			_, err := jsonin.Parse([]byte(body))
			require.Equal(t, fault.InvalidFieldValue, refusal(t, err).Code, "%q", body)
		}
	}
}

func TestParse_BadNumbers_Refused(t *testing.T) {
	t.Parallel()
	for _, number := range []string{
		"1e309", "-1e309", "1e400", "1e131071", "1e-309", "0.1e-400", "5e-324", "1e99999999999999999999", "0e309", "0e-309",
		"1.7976931348623159e308", "123456789012345678", "-1234567890123456.78", "0.123456789012345678",
		"1000000000000000001", "9223372036854775807", "18446744073709551616", "1.00000000000000000001",
		strings.Repeat("9", 400), strings.Repeat("9", 1_000_000), "1" + strings.Repeat("0", 309),
		"0." + strings.Repeat("0", 399) + "1", "0." + strings.Repeat("0", 1_000_000), "1." + strings.Repeat("0", 1_000_000),
		"0." + strings.Repeat("0", 330) + "1",
	} {
		for _, body := range []string{`{"a":` + number + `}`, `{"a":{"b":[` + number + `]}}`} {
			_, err := jsonin.Parse([]byte(body))
			require.Equal(t, fault.InvalidFieldValue, refusal(t, err).Code, "%.60s", body)
		}
	}
}

func TestParse_HugeBodies_Refused(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"33 objects":        nested(33, `{"a":`, `1`, `}`),
		"33 arrays":         `{"a":` + nested(32, `[`, `1`, `]`) + `}`,
		"1,000 levels":      nested(1_000, `{"a":`, `1`, `}`),
		"10,001 levels":     nested(10_001, `{"a":`, `1`, `}`),
		"100,000 arrays":    `{"a":` + strings.Repeat("[", 100_000),
		"a MiB of arrays":   `{"a":` + strings.Repeat("[", 1<<20),
		"no object at all":  strings.Repeat("[", 1<<20),
		"a MiB of objects":  strings.Repeat(`{"a":`, 1<<18),
		"1,001 members":     wide(1_001),
		"100,000 members":   wide(100_000),
		"an inner 1,001":    `{"a":` + wide(1_001) + `}`,
		"10,001 items":      `{"a":[` + strings.Repeat("1,", 10_000) + `1]}`,
		"a MiB of items":    `{"a":[` + strings.Repeat("1,", 1<<19) + `1]}`,
		"many full arrays":  `{"a":[` + strings.Repeat(`[`+strings.Repeat("1,", 9_000)+`1],`, 50) + `1]}`,
		"a MiB of one name": `{"` + strings.Repeat("a", 1<<20) + `":"` + "\xff" + `"}`,
	}
	for name, body := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := jsonin.Parse([]byte(body)) // BenchmarkHostile measures what they cost
			require.Equal(t, fault.InvalidFieldValue, refusal(t, err).Code)
		})
	}
}

func nested(levels int, open, core, shut string) string {
	return strings.Repeat(open, levels) + core + strings.Repeat(shut, levels)
}

func wide(members int) string {
	var body strings.Builder
	body.WriteByte('{')
	for index := range members {
		fmt.Fprintf(&body, `"m%d":%d,`, index, index)
	}
	return strings.TrimSuffix(body.String(), ",") + "}"
}
