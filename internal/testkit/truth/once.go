package truth

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
)

const (
	markPrefix = "mark_"
	markLength = len(markPrefix) + 16
)

// Mark returns a unique string. A change that contains it can be found in every row, event and
// webhook that came from it.
func Mark() string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	return markPrefix + hex.EncodeToString(random[:])
}

// marksIn returns the different marks in a text.
func marksIn(text []byte) (found []string) {
	seen := map[string]bool{}
	for {
		at := bytes.Index(text, []byte(markPrefix))
		if at < 0 || len(text)-at < markLength {
			return found
		}
		if mark := string(text[at : at+markLength]); !seen[mark] {
			found, seen[mark] = append(found, mark), true
		}
		text = text[at+markLength:]
	}
}

// checkOnce checks that each key has one response and one effect. Scan checks that no mark is in
// two rows of a table.
func (c *checker) checkOnce() {
	type name struct{ org, key string }
	first := map[name]Call{}
	for _, call := range c.Calls {
		if call.Key == "" || call.Status == 0 {
			continue
		}
		before, known := first[name{call.Org, call.Key}]
		switch {
		case !known:
			first[name{call.Org, call.Key}] = call
		case before.Status != call.Status:
			c.violated(Once, "the key %q of %s was answered %d and %d", call.Key, call.Org, before.Status, call.Status)
		case !bytes.Equal(before.Body, call.Body):
			c.violated(Once, "the key %q of %s was answered by two bodies that differ at byte %d",
				call.Key, call.Org, differAt(before.Body, call.Body))
		}
	}
}

// differAt returns the index of the first byte in which two texts differ.
func differAt(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
