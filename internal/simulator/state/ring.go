package state

// Ring keeps the newest entries, up to its size. It allocates as it fills.
type Ring[T any] struct {
	size    int
	entries []T
	oldest  int // index of the entry that is overwritten next
}

func newRing[T any](size int) *Ring[T] { return &Ring[T]{size: size} }

// Add stores an entry and returns the oldest one when that had to be removed.
func (r *Ring[T]) Add(entry T) (removed T, evicted bool) {
	if len(r.entries) < r.size {
		r.entries = append(r.entries, entry)
		return removed, false
	}
	removed, r.entries[r.oldest] = r.entries[r.oldest], entry
	r.oldest = (r.oldest + 1) % r.size
	return removed, true
}

// Len counts the entries.
func (r *Ring[T]) Len() int { return len(r.entries) }

// Newest iterates from the newest entry to the oldest.
func (r *Ring[T]) Newest(yield func(T) bool) {
	count := len(r.entries)
	for i := range count {
		if !yield(r.entries[(r.oldest-1-i+2*count)%count]) {
			return
		}
	}
}
