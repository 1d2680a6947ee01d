// Package leaks fails the tests of a package that leave goroutines behind.
package leaks

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end, because the machine may be busy.
const patience = 3 * time.Minute

// Main runs the tests and returns the code with which the process exits.
func Main(m *testing.M) int {
	code := m.Run()
	if code != 0 {
		return code
	}
	for deadline := time.Now().Add(patience); ; {
		err := goleak.Find()
		if err == nil {
			return 0
		}
		if time.Now().After(deadline) {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
}
