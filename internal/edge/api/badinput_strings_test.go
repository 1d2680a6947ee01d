package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/apitest"
)

const maxName = 60

func badStrings(t *testing.T, b *badInputFixture) {
	as := func(text string) string { return `{"name":"` + text + `"}` }
	// JSON can express these, but they are not valid text.
	for name, text := range map[string]string{
		"NUL escaped": `\u0000`, "NUL inside": `a\u0000b`, "NUL at the end": `ab\u0000`,
		"half a pair": `\ud800`, "half a pair, low": `\udc00`, "a pair in reverse": `\ude9a\ud83d`, "two first halves": `\ud83d\ud83d`,
		"half a pair before a letter": `\ud83dx`, "half a pair in upper case": `\uD83D`, "half a pair at the end": `abc\udbff`,
		"half a pair before an escape": `\ud83d\n`, "half a pair before a sound character": `\ud83d\u0041`,
		"a stray continuation": "\x80", "a stray start": "\xc3", "a start before a letter": "\xc3x", "0xff": "\xff", "0xfe": "\xfe",
		"an overlong slash": "\xc0\xaf", "an overlong NUL": "\xc0\x80", "an overlong slash of three bytes": "\xe0\x80\xaf",
		"an overlong one of four bytes": "\xf0\x80\x80\xaf", "a surrogate in UTF-8": "\xed\xa0\x80", "a pair in CESU-8": "\xed\xa0\xbd\xed\xba\x9a",
		"beyond Unicode": "\xf4\x90\x80\x80", "five bytes": "\xf8\x88\x80\x80\x80", "a cut emoji": "\U0001f69a"[:3], "Latin-1": "Gr\xf6\xdfe",
		"a good and a bad": "\u00e9\xe9",
	} {
		b.refuse(t, b.both(name, as(text), faulty("name"))...)
		b.refuse(t, b.both(name+" in an unknown field", `{"name":"a","x":["`+text+`"]}`, faulty("x[0]"))...)
	}
	// All raw control characters are syntax errors in JSON.
	for control := range byte(0x20) {
		b.refuse(t, b.both(fmt.Sprintf("raw %#02x", control), as("a"+string(rune(control))+"b"), faulty(""))...)
	}
	for name, text := range map[string]string{
		"a combining run": "e" + strings.Repeat("\u0301", 10_000), "61 zero-width joiners": strings.Repeat("\u200d", 61),
		"nine families": strings.Repeat("\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", 9), // 63 code points, 9 signs
	} {
		b.refuse(t, b.both(name, as(text), faulty("name"))...)
	}
	for name, text := range map[string]string{
		"line separators": "a\u2028b\u2029c", "next line inside": "a\u0085b", "tab and line": "a\tb\r\nc", "C1 controls": "a\u0080\u009bb",
		"controls": "a\x01\x02\x1b[31mred\x1b[0m\x7f",
	} {
		b.refuse(t, b.both(name, map[string]string{"name": text}, faulty("name"))...)
	}
	for _, blank := range []string{" ", "\t", "\n", "\r\n", "\v\f", "\u00a0", "\u0085", "\u2003", "\u3000", "\u2028\u2029", strings.Repeat(" ", 60)} {
		b.refuse(t, b.both(fmt.Sprintf("blank %.12q", blank), map[string]string{"name": blank}, faulty("name"))...)
	}
}

// oddStrings sends names that are unusual but valid. The answer repeats them unchanged.
func oddStrings(t *testing.T, b *badInputFixture) {
	for name, text := range map[string]string{
		"an override of direction": "\u202eevil\u202c", "isolates": "\u2066a\u2069 \u2067b\u2069", "marks of direction": "\u200ea\u200fb\u061c",
		"Arabic": "\u0645\u0631\u062d\u0628\u0627", "Hebrew": "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd", "Thai": "\u0e01\u0e33\u0e25\u0e31\u0e07",
		"a family":          "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", // 7 code points, 25 bytes
		"a flag":            "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
		"a skin tone":       "\U0001f44d\U0001f3fd",
		"a heart":           "\u2764\ufe0f",
		"zero width":        "a\u200bb\u200cc\u2060d",
		"a soft hyphen":     "a\u00adb",
		"a combining run":   "e" + strings.Repeat("\u0301", 59),
		"combining alone":   "\u0301",
		"composed":          "caf\u00e9",
		"decomposed":        "cafe\u0301",
		"ligature":          "\ufb01n",
		"full width":        "\uff21\uff22\uff23",
		"byte order mark":   "\ufeffx",
		"replacement":       "\ufffd",
		"not a character":   "\ufffe\uffff\ufdd0",
		"last code point":   "\U0010ffff",
		"private use":       "\ue000\U000f0000",
		"quotes":            `"'` + "`",
		"backslashes":       `\ \\ \n \u0041`,
		"HTML":              `<script>alert("x")</script>&amp;&lt;`,
		"SQL":               `'; DROP TABLE labels; --`,
		"a format":          `%s%n%d {{7*7}} ${x} #{x}`,
		"LIKE":              `100%_\`,
		"a path":            `../../etc/passwd`,
		"a URL":             `https://example.com/?a=b&c=%00`,
		"JSON":              `{"name":null}`,
		"looks like null":   "null",
		"looks like a date": "2026-01-31T12:00:00Z",
		"looks like a UUID": "00000000-0000-0000-0000-000000000000",
		"a Turkish i":       "\u0130\u0131",
		"a sharp s":         "\u1e9e\u00df",
		"grows when folded": strings.Repeat("\u0390", 60),
		"a final sigma":     "\u039f\u0394\u039f\u03a3 \u03bf\u03b4\u03bf\u03c2",
		"ideographs":        "\u4e00\U00020000\U0002f800",
		"jamo":              "\u1112\u1161\u11ab",
		"60 of one byte":    strings.Repeat("q", 60), "60 of two bytes": strings.Repeat("\u00e9", 60),
		"60 of three bytes": strings.Repeat("\u20ac", 60), "60 of four bytes": strings.Repeat("\U0001f69a", 60),
	} {
		t.Run(name, func(t *testing.T) {
			requireName := func(text string, answer apitest.Answer) string {
				t.Helper()
				require.Less(t, answer.Status, 300, "%s", answer.Body)
				require.Equal(t, text, answer.Data(t)["name"])
				return answer.Data(t)["id"].(string)
			}
			escaped := `{"name":"` + escapeAll(text) + `"}`
			id := requireName(text, b.try(t, b.create("", map[string]string{"name": text}, refusal{})))
			requireName(text, b.try(t, badInput{method: "GET", path: "/labels/" + id}))
			requireName(text, b.try(t, badInput{method: "PATCH", path: "/labels/" + id, body: escaped}))
			require.Equal(t, text, b.try(t, badInput{method: "GET", path: "/labels?limit=1"}).List(t)[0]["name"])
			requireRefusal(t, refusal{409, "conflict", "already_exists", "name"}, b.try(t, b.create("", escaped, refusal{})))
			require.Equal(t, 200, b.try(t, badInput{method: "DELETE", path: "/labels/" + id}).Status)
			requireName(text, b.try(t, b.change("", escaped, refusal{})))
		})
	}
	require.Len(t, b.rows(t), 1, "created labels were deleted, refused ones were not stored")
	b.keep(t)
}

// escapeAll writes every character as \uXXXX.
func escapeAll(text string) string {
	var escaped strings.Builder
	for _, char := range text {
		if char > 0xffff {
			char -= 0x10000
			escaped.WriteString(fmt.Sprintf(`\u%04x\u%04X`, 0xd800+char>>10, 0xdc00+char&0x3ff))
			continue
		}
		escaped.WriteString(fmt.Sprintf(`\u%04x`, char))
	}
	return escaped.String()
}

func badBoundaries(t *testing.T, b *badInputFixture) {
	b.refuse(t, b.both("no character", `{"name":""}`, faulty("name"))...)
	for _, char := range []string{"q", "\u00e9", "\u20ac", "\U0001f69a", "\u0301"} {
		for _, length := range []int{maxName + 1, maxName + 2, 100, 255, 256, 65_536} {
			text := strings.Repeat(char, length)
			b.refuse(t, b.both(fmt.Sprintf("%d characters of %d bytes", length, len(char)), map[string]string{"name": text}, faulty("name"))...)
			b.refuse(t, b.both(fmt.Sprintf("%d characters of %d bytes, escaped", length, len(char)), `{"name":"`+escapeAll(text)+`"}`, faulty("name"))...)
		}
		for _, length := range []int{1, maxName - 1, maxName} {
			text := strings.Repeat(char, length)
			answer := b.try(t, b.change(text, map[string]string{"name": text}, refusal{}))
			require.Equal(t, 200, answer.Status, "%d of %q: %s", length, char, answer.Body)
			require.Equal(t, length, utf8.RuneCountInString(answer.Data(t)["name"].(string)))
		}
	}
	colors := b.server.Contract.Enum("LabelColor")
	require.Len(t, colors, 13)
	for _, color := range colors {
		answer := b.try(t, b.change(color, map[string]string{"color": color}, refusal{}))
		require.Equal(t, color, answer.Data(t)["color"])
		for _, wrong := range []string{strings.ToUpper(color), " " + color, color + " ", color + "\n", color[1:], color + color, "\u200b" + color} {
			b.refuse(t, b.both(fmt.Sprintf("color %q", wrong), map[string]string{"name": "x", "color": wrong}, faulty("color"))...)
		}
	}
	for _, wrong := range []string{"", "grey", "black", "#ff0000", "rgb(0,0,0)", "0", "null", "gray,red", "gr\u0430y", strings.Repeat("gray", 10_000)} {
		b.refuse(t, b.both(fmt.Sprintf("color %.20q", wrong), map[string]string{"name": "x", "color": wrong}, faulty("color"))...)
	}
	many, err := json.Marshal(colors)
	require.NoError(t, err)
	b.refuse(t, b.both("all colors at once", `{"name":"x","color":`+string(many)+`}`, faulty("color"))...)
	require.Len(t, b.rows(t), 1, "only the label; nothing of the refused requests")
	b.keep(t)
}
