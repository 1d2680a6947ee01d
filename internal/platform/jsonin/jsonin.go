// Package jsonin decodes JSON request bodies. It parses them strictly, checks them against a
// schema of the contract, and returns the first fault with the path of its field. It knows neither
// routes nor resources. No other package may decode a request body, because encoding/json accepts
// bodies that must be refused (duplicate names, NUL, `TO` for `to`).
package jsonin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxBodyBytes is the largest body that a caller may pass to Parse.
const MaxBodyBytes = 1 << 20

const (
	maxDepth   = 32
	maxMembers = 1_000
	maxItems   = 10_000
	// maxValues is the largest number of values in a body. Each fault costs the validator up to
	// 2 KB, so half a million bad items would fill the memory.
	maxValues = 25_000
)

// Document is a parsed body. It is read-only and safe for concurrent use. The zero Document is a
// missing body, and is checked like `{}`.
type Document struct {
	raw   []byte
	value map[string]any
}

// Raw returns the bytes of the body, which have the order of the members.
func (d Document) Raw() []byte { return d.raw }

// Value returns the body as map[string]any, []any, string, json.Number, bool and nil.
func (d Document) Value() map[string]any { return d.value }

// Without returns the document without the members that drop chooses by their names.
func (d Document) Without(drop func(name string) bool) (Document, error) {
	lean := maps.Clone(d.value)
	maps.DeleteFunc(lean, func(name string, _ any) bool { return drop(name) })
	if len(lean) == len(d.value) {
		return d, nil
	}
	raw, err := json.Marshal(lean)
	return Document{raw: raw, value: lean}, err
}

// Parse parses a body, and refuses everything that two parsers could read differently. The
// document keeps body, so the caller must not change it afterwards.
func Parse(body []byte) (Document, error) {
	if err := checkOpening(body); err != nil {
		return Document{}, err
	}
	r, _ := readers.Get().(*reader)
	defer r.release()
	r.start(body)

	value, err := r.document()
	if err != nil {
		return Document{}, err
	}
	return Document{raw: body, value: value}, nil
}

// checkOpening reports three mistakes for which the tokenizer would only report an invalid
// character.
func checkOpening(body []byte) error {
	switch {
	case bytes.HasPrefix(body, []byte("\xef\xbb\xbf")):
		return refuse("", "must not start with a byte order mark; send plain UTF-8")
	case bytes.HasPrefix(body, []byte("\xff\xfe")), bytes.HasPrefix(body, []byte("\xfe\xff")):
		return refuse("", "must be encoded in UTF-8, not UTF-16 or UTF-32")
	case len(bytes.Trim(body, " \t\r\n")) == 0:
		return refuse("", "is empty; send a JSON object")
	}
	return nil
}

// readers are pooled because a tokenizer is large compared to a typical body.
var readers = sync.Pool{New: func() any {
	return &reader{tokens: jsontext.NewDecoder(new(bytes.Buffer), tokenizing())}
}}

// tokenizing turns off the tokenizer's check of duplicate names, because nameSet refuses them
// together with names that differ only in case.
func tokenizing() jsontext.Options { return jsontext.AllowDuplicateNames(true) }

// reader builds the value in one pass and stops at the first fault.
type reader struct {
	body   []byte
	buffer bytes.Buffer
	tokens *jsontext.Decoder
	path   []step
	names  []string
	values int
}

func (r *reader) start(body []byte) {
	r.body = body
	r.buffer = *bytes.NewBuffer(body)
	r.tokens.Reset(&r.buffer, tokenizing())
	r.path, r.names, r.values = r.path[:0], r.names[:0], 0
}

// release lets go of the body, which would otherwise live as long as the pool.
func (r *reader) release() {
	r.start(nil)
	clear(r.path[:cap(r.path)])
	clear(r.names[:cap(r.names)])
	readers.Put(r)
}

func (r *reader) document() (map[string]any, error) {
	token, err := r.tokens.ReadToken()
	if err != nil {
		return nil, r.syntaxFault(err)
	}
	if token.Kind() != jsontext.KindBeginObject {
		return nil, refuse("", "must be a JSON object")
	}
	value, err := r.object(1)
	if err != nil {
		return nil, err
	}
	if _, err := r.tokens.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, refuse("", "must hold one JSON object and nothing after it")
	}
	return value, nil
}
