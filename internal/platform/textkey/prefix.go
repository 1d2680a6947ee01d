package textkey

import (
	"slices"
	"strings"
	"unicode"
)

// After is the end of a range: the texts that start with prefix are those from prefix up
// to, and without, After(prefix), in the order of their bytes.
func After(prefix string) string {
	runes := []rune(prefix)
	for i, last := range slices.Backward(runes) {
		if next := last + 1; next <= unicode.MaxRune {
			if unicode.Is(unicode.Cs, next) {
				next = 0xE000 // surrogates are no characters
			}
			return string(runes[:i]) + string(next)
		}
	}
	return strings.Repeat(string(unicode.MaxRune), 1_000) // nothing but last characters: longer than any key
}
