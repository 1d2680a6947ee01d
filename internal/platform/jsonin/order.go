package jsonin

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// earliest returns the finding that comes first in the body. The order of the members is read
// again from the raw bytes, only here, so that valid bodies do not pay for it.
func (a answer) earliest(found []finding) finding {
	if len(found) == 1 || a.raw == nil {
		return found[0]
	}
	tokens := jsontext.NewDecoder(bytes.NewBuffer(a.raw), tokenizing())
	for depth := 0; ; depth++ {
		below := make(map[string][]finding)
		for _, f := range found {
			if len(f.at) == depth {
				return f
			}
			below[f.at[depth]] = append(below[f.at[depth]], f)
		}
		next, ok := descend(tokens, below)
		if !ok {
			return found[0]
		}
		found = next
	}
}

// descend moves to the first member or item of the next container that has findings.
func descend(tokens *jsontext.Decoder, below map[string][]finding) ([]finding, bool) {
	opening, err := tokens.ReadToken()
	if err != nil {
		return nil, false
	}
	isObject := opening.Kind() == jsontext.KindBeginObject
	for index := 0; ; index++ {
		name := strconv.Itoa(index)
		if isObject {
			token, err := tokens.ReadToken()
			if err != nil || token.Kind() != jsontext.KindString {
				return nil, false
			}
			name = token.String()
		}
		if found, ok := below[name]; ok {
			return found, true
		}
		if err := tokens.SkipValue(); err != nil {
			return nil, false
		}
	}
}
