// Package textkey makes the form in which texts are compared without regard to case. It
// is stored beside the text, because an index on it is plain and the rules are ours.
package textkey

import "golang.org/x/text/cases"

// Fold is equal for texts that differ only in case: `Straße` and `STRASSE`.
func Fold(text string) string { return cases.Fold().String(text) }
