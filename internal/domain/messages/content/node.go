package content

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// node is a JSON value that knows its place in the body. Its children keep the order in which they
// were sent, because faults are answered in that order. A nil node is a missing value.
type node struct {
	kind   jsontext.Kind
	parent *node
	// name is the member's name, or "" for an item of an array.
	name string
	// index is the place in an array.
	index int
	// position counts the values of the body that start before this one.
	position int
	// depth is the number of names and indexes in the path.
	depth int
	// text is the value of a string, or the literal of a number, true, false or null.
	text     string
	children []*node
}

// read builds the tree of a body that jsonin has parsed, so that no token can be wrong.
func read(body []byte) *node {
	positions := 0
	return readValue(jsontext.NewDecoder(bytes.NewBuffer(body)), &node{}, &positions)
}

func readValue(tokens *jsontext.Decoder, n *node, positions *int) *node {
	token, err := tokens.ReadToken()
	if err != nil {
		return n
	}
	n.kind, n.position = token.Kind(), *positions
	*positions++
	switch n.kind {
	case jsontext.KindBeginObject, jsontext.KindBeginArray:
	default:
		n.text = token.String()
		return n
	}
	for more(tokens) {
		child := &node{parent: n, index: len(n.children), depth: n.depth + 1}
		if n.kind == jsontext.KindBeginObject {
			name, err := tokens.ReadToken()
			if err != nil {
				return n
			}
			child.name = name.String()
		}
		n.children = append(n.children, readValue(tokens, child, positions))
	}
	_, _ = tokens.ReadToken() // the closing brace or bracket
	return n
}

// more tells whether the object or array has another value.
func more(tokens *jsontext.Decoder) bool {
	switch tokens.PeekKind() {
	case jsontext.KindEndObject, jsontext.KindEndArray, jsontext.KindInvalid:
		return false
	default:
		return true
	}
}

// append writes the value without blanks, with strings escaped no more than JSON requires.
func (n *node) append(to []byte) []byte {
	switch n.kind {
	case jsontext.KindBeginObject, jsontext.KindBeginArray:
	case jsontext.KindString:
		to, _ = jsontext.AppendQuote(to, n.text) // fails for invalid UTF-8 only
		return to
	default:
		return append(to, n.text...)
	}
	to = append(to, byte(n.kind))
	for i, child := range n.children {
		if i > 0 {
			to = append(to, ',')
		}
		if n.kind == jsontext.KindBeginObject {
			to, _ = jsontext.AppendQuote(to, child.name)
			to = append(to, ':')
		}
		to = child.append(to)
	}
	return append(to, byte(n.kind)+2) // '{' + 2 is '}', '[' + 2 is ']'
}

// member returns a member of an object, or nil.
func (n *node) member(name string) *node {
	if n == nil || n.kind != jsontext.KindBeginObject {
		return nil
	}
	for _, child := range n.children {
		if child.name == name {
			return child
		}
	}
	return nil
}

// items returns the items of an array.
func (n *node) items() []*node {
	if n == nil || n.kind != jsontext.KindBeginArray {
		return nil
	}
	return n.children
}

// string returns the value of a member that is a string, or "".
func (n *node) string(name string) string {
	if value := n.member(name); value != nil && value.kind == jsontext.KindString {
		return value.text
	}
	return ""
}

func (n *node) is(value bool) bool {
	return n != nil && (n.kind == jsontext.KindTrue && value || n.kind == jsontext.KindFalse && !value)
}

// param returns the path: `interactive.action.buttons[0].reply.title`.
func (n *node) param() string {
	switch {
	case n.parent == nil:
		return ""
	case n.parent.kind == jsontext.KindBeginArray:
		return n.parent.param() + "[" + strconv.Itoa(n.index) + "]"
	default:
		return n.memberParam()
	}
}

func (n *node) memberParam() string { return below(n.parent, n.name) }

// below returns the path of a member that may not exist.
func below(object *node, name string) string {
	if path := object.param(); path != "" {
		return path + "." + name
	}
	return name
}
