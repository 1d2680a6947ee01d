// Package proof tells tests whether they run as a proof (make proof-NAME): with large numbers, and
// with checks of durations, on a machine without other work.
package proof

import "os"

// Full is true in a proof.
func Full() bool { return os.Getenv("PARLEY_PROOF") == "full" }

// Sized returns full in a proof, and short in CI.
func Sized[T any](short, full T) T {
	if Full() {
		return full
	}
	return short
}
