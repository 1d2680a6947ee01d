package state

import (
	"time"
)

// Pair is a business number and a user.
type Pair struct{ Number, User string } // id and digits

// Pair returns the pair of a number and a user.
func (n *Number) Pair(digits string) Pair { return Pair{n.ID, digits} }

// windows holds when a user last wrote to a number: the business may answer for 24 hours.
type windows struct{ opened map[Pair]time.Time }

const windowLength = 24 * time.Hour

func newWindows() *windows { return &windows{opened: map[Pair]time.Time{}} }

// Open starts the 24 hours of a pair again.
func (w *windows) Open(p Pair, at time.Time) {
	if _, found := w.opened[p]; !found && len(w.opened) >= maxWindows {
		makeRoom(w.opened, func(opened time.Time) bool { return at.Sub(opened) > windowLength })
	}
	w.opened[p] = at
}

// IsOpen tells whether the user wrote within 24 hours.
func (w *windows) IsOpen(p Pair, now time.Time) bool {
	opened, found := w.opened[p]
	return found && now.Sub(opened) < windowLength
}

// makeRoom deletes stale entries, and then any entries until an eighth is free, so that it
// does not run at every insert.
func makeRoom[V any](full map[Pair]V, stale func(V) bool) {
	spare := len(full) / 8
	before := len(full)
	for p, value := range full {
		if stale(value) {
			delete(full, p)
		}
	}
	for p := range full {
		if before-len(full) > spare {
			return
		}
		delete(full, p)
	}
}
