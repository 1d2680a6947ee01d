package jsonin

import (
	"strings"
	"unicode"

	"github.com/parley-chat/parley/internal/fault"
)

// Name refuses a name of a person or a thing that is not one line, and one of which people would see nothing.
func Name(param, name string) error {
	switch {
	case strings.ContainsFunc(name, breaksLine):
		return fault.Invalid(param, "must be one line without control characters, such as tabs and line breaks")
	case strings.TrimFunc(name, invisible) == "":
		return fault.Invalid(param, "must contain something visible")
	default:
		return nil
	}
}

// breaksLine tells that a character is a control character or separates lines.
func breaksLine(char rune) bool {
	return unicode.IsControl(char) || unicode.In(char, unicode.Zl, unicode.Zp)
}

// invisible tells that a character shows nothing: spaces, formatting, and fillers that Unicode counts as letters.
func invisible(char rune) bool {
	return unicode.IsSpace(char) || unicode.In(char, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point) || char == '\u2800'
}
