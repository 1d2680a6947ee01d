// Package textkey makes the keys by which texts are compared without regard to case. A key is
// stored in a column beside its text, so that a plain index works and PostgreSQL's own case rules
// do not matter.
package textkey

import "golang.org/x/text/cases"

// Fold returns the same key for texts that differ only in case: `Straße` and `STRASSE`.
func Fold(text string) string { return cases.Fold().String(text) }
