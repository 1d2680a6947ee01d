package jsonin

import (
	"errors"
	"strings"
	"unicode"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

var errNoEmail = errors.New("is not an email address")

// Email returns the format `email`: a local part, `@`, and a domain whose labels are separated by dots. How long an address
// may be is for each schema to say.
func Email() *jsonschema.Format {
	return &jsonschema.Format{Name: "email", Validate: func(value any) error {
		text, ok := value.(string)
		if !ok || isEmail(text) {
			return nil
		}
		return errNoEmail
	}}
}

func isEmail(text string) bool {
	at := strings.LastIndexByte(text, '@')
	if at < 1 {
		return false
	}
	local, domain := text[:at], text[at+1:]
	for label := range strings.SplitSeq(domain, ".") {
		if label == "" || strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") {
			return false
		}
		other := func(char rune) bool {
			return char != '-' && !unicode.IsLetter(char) && !unicode.IsDigit(char) && !unicode.IsMark(char)
		}
		if strings.ContainsFunc(label, other) {
			return false
		}
	}
	hidden := func(char rune) bool { return unicode.IsSpace(char) || !unicode.IsPrint(char) || char == '@' }
	return !strings.ContainsFunc(local, hidden)
}
