package jsonin

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxParamRunes bounds the length of a field's path in responses and logs.
	maxParamRunes = 200
	// maxParamBytes is the length to which a name is cut before its characters are counted.
	maxParamBytes = (maxParamRunes + 1) * utf8.UTFMax
)

// step is one member or one item on the way to a value.
type step struct {
	name  string
	index int
	item  bool
}

func (r *reader) param() string { return param("", r.path) }

// FieldName returns the name of a field or of a parameter as answers show it: as it was sent, `""` for the empty name, at
// most 200 characters, and `?` for each character that cannot be printed.
func FieldName(name string) string { return param("", []step{{name: name}}) }

// param returns prefix and steps as a path: `interactive.action.buttons[0].reply.title`.
func param(prefix string, steps []step) string {
	var printed strings.Builder
	printed.WriteString(prefix)
	for _, s := range steps {
		if printed.Len() > maxParamBytes {
			break
		}
		switch {
		case s.item:
			printed.WriteByte('[')
			printed.WriteString(strconv.Itoa(s.index))
			printed.WriteByte(']')
			continue
		case printed.Len() > 0:
			printed.WriteByte('.')
		}
		if s.name == "" {
			printed.WriteString(`""`)
			continue
		}
		printed.WriteString(s.name[:min(len(s.name), maxParamBytes)])
	}
	return bounded(printed.String())
}

// steps turns the tokens of a JSON pointer into steps. It needs the value to know whether `0` is
// an index or the name of a member.
func steps(value any, tokens []string) []step {
	way := make([]step, 0, len(tokens))
	for _, token := range tokens {
		switch container := value.(type) {
		case []any:
			index, _ := strconv.Atoi(token)
			way = append(way, step{index: index, item: true})
			value = nil
			if index >= 0 && index < len(container) {
				value = container[index]
			}
		case map[string]any:
			way = append(way, step{name: token})
			value = container[token]
		default:
			way = append(way, step{name: token})
		}
	}
	return way
}

func bounded(text string) string {
	text = printable(text)
	if len(text) <= maxParamRunes || utf8.RuneCountInString(text) <= maxParamRunes {
		return text
	}
	return string([]rune(text)[:maxParamRunes-1]) + "…"
}

// printable replaces control and direction characters, which could change how a text is shown.
func printable(text string) string {
	return strings.Map(func(char rune) rune {
		if char == utf8.RuneError || !unicode.IsPrint(char) {
			return '?'
		}
		return char
	}, text)
}
