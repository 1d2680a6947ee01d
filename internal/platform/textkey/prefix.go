package textkey

import (
	"slices"
	"strings"
	"unicode"
)

// After returns the end of a range in byte order: the texts that start with prefix are >= prefix
// and < After(prefix).
func After(prefix string) string {
	runes := []rune(prefix)
	for i, last := range slices.Backward(runes) {
		if next := last + 1; next <= unicode.MaxRune {
			if unicode.Is(unicode.Cs, next) {
				next = 0xE000 // the first code point after the surrogates, which UTF-8 cannot encode
			}
			return string(runes[:i]) + string(next)
		}
	}
	return strings.Repeat(string(unicode.MaxRune), 1_000) // prefix has only the last code point: greater than any key
}
