package jsonin

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-chat/parley/internal/fault"
)

const (
	ruleDepth   = "is nested too deep: a body may have at most 32 levels"
	ruleMembers = "has too many members: an object may have at most 1,000"
	ruleItems   = "has too many items: an array may have at most 10,000"
	ruleValues  = "has too many values: split it into several requests"
	ruleNUL     = "must not contain the NUL character"
	ruleUTF8    = "must be valid UTF-8"
	ruleHalf    = "must not contain half a surrogate pair (\\uD800 to \\uDFFF)"
	ruleEnds    = "ends before its JSON is complete"
)

// value reads the value at the current path. Depth is the depth of its container.
func (r *reader) value(depth int) (any, error) {
	if r.values++; r.values > maxValues {
		return nil, refuse("", ruleValues)
	}
	token, err := r.tokens.ReadToken()
	if err != nil {
		return nil, r.syntaxFault(err)
	}
	switch token.Kind() {
	case jsontext.KindBeginObject:
		return r.object(depth + 1)
	case jsontext.KindBeginArray:
		return r.array(depth + 1)
	case jsontext.KindString:
		text := token.String()
		if strings.IndexByte(text, 0) >= 0 {
			return nil, refuse(r.param(), ruleNUL)
		}
		return text, nil
	case jsontext.KindNumber:
		text := token.String()
		if rule := numberRule(text); rule != "" {
			return nil, refuse(r.param(), rule)
		}
		return json.Number(text), nil
	case jsontext.KindTrue:
		return true, nil
	case jsontext.KindFalse:
		return false, nil
	default:
		return nil, nil //nolint:nilnil // null is a value too
	}
}

func (r *reader) object(depth int) (map[string]any, error) {
	if depth > maxDepth {
		return nil, refuse(r.param(), ruleDepth)
	}
	members := make(map[string]any)
	names := nameSet{start: len(r.names)}
	for r.tokens.PeekKind() != jsontext.KindEndObject {
		token, err := r.tokens.ReadToken()
		if err != nil {
			return nil, r.syntaxFault(err)
		}
		name := token.String()
		if len(members) == maxMembers {
			return nil, refuse(r.param(), ruleMembers)
		}
		twin, repeated := names.add(r, name)
		r.path = append(r.path, step{name: name})
		switch {
		case strings.IndexByte(name, 0) >= 0:
			return nil, refuse(r.param(), "has a name that contains the NUL character")
		case repeated && twin == name:
			return nil, refuse(r.param(), "is given more than once")
		case repeated:
			return nil, refuse(r.param(), "differs only in upper and lower case from another field of the same object")
		}
		value, err := r.value(depth)
		if err != nil {
			return nil, err
		}
		members[name] = value
		r.path = r.path[:len(r.path)-1]
	}
	r.names = r.names[:names.start]
	if _, err := r.tokens.ReadToken(); err != nil {
		return nil, r.syntaxFault(err)
	}
	return members, nil
}

func (r *reader) array(depth int) ([]any, error) {
	if depth > maxDepth {
		return nil, refuse(r.param(), ruleDepth)
	}
	items := []any{}
	for r.tokens.PeekKind() != jsontext.KindEndArray {
		if len(items) == maxItems {
			return nil, refuse(r.param(), ruleItems)
		}
		r.path = append(r.path, step{index: len(items), item: true})
		item, err := r.value(depth)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
		r.path = r.path[:len(r.path)-1]
	}
	if _, err := r.tokens.ReadToken(); err != nil {
		return nil, r.syntaxFault(err)
	}
	return items, nil
}

// syntaxFault returns a message of its own for each kind of syntax error.
func (r *reader) syntaxFault(err error) error {
	syntactic, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok || errors.Is(err, io.ErrUnexpectedEOF) {
		return refuse("", ruleEnds)
	}
	at := min(int(syntactic.ByteOffset), len(r.body))
	rest := r.body[at:]
	if bad, size := utf8.DecodeRune(rest); bad == utf8.RuneError && size == 1 {
		return refuse(r.param(), ruleUTF8)
	}
	if opensSurrogate(rest) {
		return refuse(r.param(), ruleHalf)
	}
	// The message does not quote the body, which may contain a secret.
	return fault.New(fault.InvalidFieldValue, "The body is not valid JSON: look at byte %d.", at)
}

func opensSurrogate(rest []byte) bool {
	return len(rest) >= 4 && rest[0] == '\\' && rest[1] == 'u' &&
		(rest[2] == 'd' || rest[2] == 'D') && strings.IndexByte("89abcdefABCDEF", rest[3]) >= 0
}

// refuse returns the fault of a field, or of the whole body when param is empty.
func refuse(param, rule string) *fault.Error {
	if param == "" {
		return fault.New(fault.InvalidFieldValue, "The body %s.", rule)
	}
	return fault.Invalid(param, rule)
}
