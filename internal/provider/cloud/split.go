package cloud

import (
	"encoding/json"
	"strings"
)

// A callback is nested six deep, and encoding/json reads every level several times. These
// functions split valid JSON in one pass and without copying.

// elements are those of an array; nil when it is none.
func elements(raw json.RawMessage) list {
	i := space(raw, 0)
	if i == len(raw) || raw[i] != '[' {
		return nil
	}
	found := list{}
	for i = space(raw, i+1); i < len(raw) && raw[i] != ']'; {
		end := value(raw, i)
		if end == i {
			return nil // not valid after all
		}
		found = append(found, raw[i:end:end])
		if i = space(raw, end); i < len(raw) && raw[i] == ',' {
			i = space(raw, i+1)
		}
	}
	return found
}

// fieldsOf are those of an object, the last of each name; nil when it is none.
func fieldsOf(raw json.RawMessage) members {
	i := space(raw, 0)
	if i == len(raw) || raw[i] != '{' {
		return nil
	}
	found := members{}
	for i = space(raw, i+1); i < len(raw) && raw[i] != '}'; {
		end := value(raw, i)
		name := raw[i:end]
		if len(name) < 2 {
			return nil // not valid after all
		}
		i = space(raw, min(space(raw, end)+1, len(raw))) // over the colon
		end = value(raw, i)
		found[unquoted(name)] = raw[i:end:end]
		if i = space(raw, end); i < len(raw) && raw[i] == ',' {
			i = space(raw, i+1)
		}
	}
	return found
}

// unquoted is a string as text.
func unquoted(raw []byte) string {
	if inside := string(raw[1 : len(raw)-1]); !strings.Contains(inside, `\`) {
		return inside
	}
	var text string
	loose(raw, &text)
	return text
}

// space is the next place that is none.
func space(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\t' || raw[i] == '\r') {
		i++
	}
	return i
}

// value is the place after the value that begins at i, and never past the end.
func value(raw []byte, i int) int {
	for depth := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i = quote(raw, i+1)
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth == 0 {
				return i // the end of the object or array that holds a number or a literal
			}
			depth--
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return min(i+1, len(raw))
		}
	}
	return i
}

// quote is the place of the quote that ends a string.
func quote(raw []byte, i int) int {
	for ; i < len(raw) && raw[i] != '"'; i++ {
		if raw[i] == '\\' {
			i++
		}
	}
	return i
}
