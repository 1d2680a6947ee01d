package cloud

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// The network's JSON is read loosely: a number in the place of a text, a text in the place of an
// object, or a missing field is no error. A value of the wrong type is left empty.

// loose ignores errors: encoding/json continues after a value of the wrong type.
func loose(raw []byte, into any) { _ = json.Unmarshal(raw, into) }

func read[T any](raw json.RawMessage) T {
	var value T
	loose(raw, &value)
	return value
}

// text is a string, a number or a boolean as text. NUL is dropped: PostgreSQL keeps none.
type text string

func (t *text) UnmarshalJSON(raw []byte) error {
	var value string
	switch {
	case len(raw) == 0:
	case raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0:
		value = string(raw[1 : len(raw)-1]) // most texts
	case raw[0] == '"':
		_ = json.Unmarshal(raw, &value)
	case raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9' || raw[0] == 't' || raw[0] == 'f':
		value = string(raw)
	}
	*t = text(strings.ReplaceAll(value, "\x00", ""))
	return nil
}

// whole is an integer, also in quotes; given is false when the value is missing.
type whole struct {
	value int64
	given bool
}

func (w *whole) UnmarshalJSON(raw []byte) error {
	digits := strings.Trim(string(raw), `"`)
	value, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		float, bad := strconv.ParseFloat(digits, 64)
		if bad != nil || float != float || float > 1<<53 || float < -1<<53 {
			return nil //nolint:nilerr // left empty
		}
		value = int64(float)
	}
	w.value, w.given = value, true
	return nil
}

func (w whole) int() int { return int(w.value) }

// flag is a boolean, also in quotes or as 1.
type flag bool

func (f *flag) UnmarshalJSON(raw []byte) error {
	word := strings.Trim(string(raw), `"`)
	*f = word == "true" || word == "1"
	return nil
}

// list is an array whose elements keep their bytes; anything else is an empty one.
type list []json.RawMessage

func (l *list) UnmarshalJSON(raw []byte) error {
	*l = elements(bytes.Clone(raw)) // encoding/json reuses the bytes
	return nil
}

// members are the fields of an object, nil when it is none.
type members map[string]json.RawMessage

func (m *members) UnmarshalJSON(raw []byte) error {
	*m = fieldsOf(bytes.Clone(raw))
	return nil
}

const (
	millisecondsFrom = 1_000_000_000_000
	latest           = 4_102_444_800 // the year 2100
)

// at is a time in seconds since 1970, or milliseconds, as one integration saw them.
func (w whole) at() time.Time {
	switch {
	case w.value <= 0:
		return time.Time{}
	case w.value >= millisecondsFrom && w.value < latest*1000:
		return time.UnixMilli(w.value).UTC()
	case w.value < latest:
		return time.Unix(w.value, 0).UTC()
	default:
		return time.Time{}
	}
}

var phoneDigits = regexp.MustCompile(`^[0-9]{5,20}$`)

// phone is E.164 of digits or of a pretty form, "" of anything else.
func phone(value text) string {
	digits := strings.Map(func(r rune) rune {
		switch {
		case r >= '0' && r <= '9':
			return r
		case strings.ContainsRune("+ -().\u00a0", r):
			return -1
		default:
			return 'x'
		}
	}, string(value))
	if !phoneDigits.MatchString(digits) {
		return ""
	}
	return "+" + digits
}

var bsuid = regexp.MustCompile(`^[A-Z]{2}[.](ENT[.])?[A-Za-z0-9]{1,128}$`)

// sum reads a SHA-256 in hex or base64.
func sum(value text) []byte {
	const size = 32
	if raw, err := hex.DecodeString(string(value)); err == nil && len(raw) == size {
		return raw
	}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		if raw, err := encoding.DecodeString(string(value)); err == nil && len(raw) == size {
			return raw
		}
	}
	return nil
}

// language is written with an underscore in one half of the API and a dash in the other.
func language(value text) string { return strings.ReplaceAll(string(value), "-", "_") }

// line makes the network's text printable: one line, no control characters, at most 300 characters.
func line(words string) string {
	const most = 300
	words = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(words, ""), func(r rune) bool {
		return r <= ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u2028' || r == '\u2029'
	}), " ")
	if utf8.RuneCountInString(words) > most {
		words = string([]rune(words)[:most-1]) + "…"
	}
	return words
}

// storable replaces two kinds of escapes by U+FFFD: NUL, which PostgreSQL refuses, and a lone surrogate, which strict readers of
// JSON refuse.
func storable(content json.RawMessage) json.RawMessage {
	if !bytes.Contains(content, []byte(`\u0000`)) && !bytes.Contains(content, []byte(`\ud`)) && !bytes.Contains(content, []byte(`\uD`)) {
		return content
	}
	kept := make([]byte, 0, len(content))
	for len(content) > 0 {
		size := 1
		switch unit, isEscaped := escaped(content); {
		case isEscaped && unit == 0, isEscaped && utf16.IsSurrogate(unit):
			next, _ := escaped(content[len(`\u0000`):])
			if size = len(`\u0000`); utf16.DecodeRune(unit, next) == utf8.RuneError {
				kept = append(kept, `\ufffd`...)
				content = content[size:]
				continue
			}
			size *= 2
		case content[0] == '\\' && len(content) > 1:
			size = 2 // the second may be a backslash
		}
		kept = append(kept, content[:size]...)
		content = content[size:]
	}
	return kept
}

// escaped is the code unit that content begins with, if it is written as \uXXXX.
func escaped(content []byte) (unit rune, is bool) {
	if len(content) < len(`\u0000`) || content[0] != '\\' || content[1] != 'u' {
		return 0, false
	}
	value, err := strconv.ParseUint(string(content[2:6]), 16, 16)
	return rune(value), err == nil
}
