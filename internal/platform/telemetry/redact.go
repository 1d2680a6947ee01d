package telemetry

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
)

// keyPrefix is the prefix of every API key. Any characters after it are masked, also when the key
// is truncated.
const keyPrefix = "svc_live_"

// maskingWriter masks API keys in finished lines, so that it finds them in values of any type.
type maskingWriter struct{ w io.Writer }

// Write masks one line. Slog's handlers write one line at a time.
func (m maskingWriter) Write(line []byte) (int, error) {
	if !bytes.Contains(line, []byte(keyPrefix)) {
		return m.w.Write(line)
	}
	if _, err := m.w.Write(maskKeys(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

func maskKeys(text []byte) []byte {
	masked := make([]byte, 0, len(text))
	for {
		before, after, found := bytes.Cut(text, []byte(keyPrefix))
		masked = append(masked, before...)
		if !found {
			return masked
		}
		masked = append(masked, keyPrefix...)
		text = bytes.TrimLeftFunc(after, urlSafe)
		if len(text) < len(after) {
			masked = append(masked, hidden...)
		}
	}
}

func urlSafe(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

// replace is called by the handlers for every attribute that is not a group.
func replace(groups []string, attr slog.Attr) slog.Attr {
	if len(groups) == 0 && attr.Key == slog.TimeKey && attr.Value.Kind() == slog.KindTime {
		return slog.String(slog.TimeKey, attr.Value.Time().UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	if namesSecret(attr.Key) || slices.ContainsFunc(groups, namesSecret) {
		return slog.String(attr.Key, hidden)
	}
	switch attr.Value.Kind() {
	case slog.KindString:
		attr.Value = maskString(attr.Value.String())
	case slog.KindAny:
		attr.Value = replaceAny(attr.Value)
	default:
	}
	return attr
}

// maskString masks a value before the line is made, because tint drops a character after an
// escape, and that may be the first character of a key.
func maskString(text string) slog.Value {
	if strings.Contains(text, keyPrefix) {
		text = string(maskKeys([]byte(text)))
	}
	return slog.StringValue(text)
}

// replaceAny masks values that a handler would print as a whole: errors, bytes, Stringers.
func replaceAny(value slog.Value) slog.Value {
	switch v := value.Any().(type) {
	case []byte:
		// The JSON handler would print base64, in which the mask would not find a key.
		return maskString(string(v))
	case error:
		return maskString(textOf(v))
	case http.Header:
		return slog.AnyValue(replaceIn(v, []string{hidden}))
	case map[string][]string:
		return slog.AnyValue(replaceIn(v, []string{hidden}))
	case map[string]string:
		return slog.AnyValue(replaceIn(v, hidden))
	case map[string]any:
		return slog.AnyValue(replaceIn(v, any(hidden)))
	default:
		return value
	}
}

// textOf returns the text of an error. Like slog it survives a nil pointer of an error type.
func textOf(err error) (text string) {
	defer func() {
		if recover() != nil {
			text = "<nil>"
		}
	}()
	return err.Error()
}

func replaceIn[M ~map[string]V, V any](values M, instead V) M {
	safe := make(M, len(values))
	for name, value := range values {
		if namesSecret(name) {
			value = instead
		}
		safe[name] = value
	}
	return safe
}

// namesSecret reports whether the last word of a name means a secret: app_secret, X-Api-Key.
func namesSecret(name string) bool {
	word := name[strings.LastIndexAny(name, "_-. ")+1:]
	switch len(word) {
	case 3:
		return strings.EqualFold(word, "pin") || strings.EqualFold(word, "key") && namesAPIKey(name)
	case 5:
		return strings.EqualFold(word, "token")
	case 6:
		return strings.EqualFold(word, "secret") || strings.EqualFold(word, "apikey")
	case 8:
		return strings.EqualFold(word, "password")
	case 13:
		return strings.EqualFold(word, "authorization")
	default:
		return false
	}
}

func namesAPIKey(name string) bool {
	const length = len("api_key")
	if len(name) < length {
		return false
	}
	tail := name[len(name)-length:]
	return strings.EqualFold(tail[:3], "api") && strings.ContainsRune("_-. ", rune(tail[3]))
}
