package simulator

// ring keeps the newest entries, up to its size; it grows only as far as it is filled.
type ring[T any] struct {
	size    int
	entries []T
	next    int
}

func newRing[T any](size int) *ring[T] { return &ring[T]{size: size} }

// add returns what had to go.
func (r *ring[T]) add(entry T) (gone T, evicted bool) {
	if len(r.entries) < r.size {
		r.entries = append(r.entries, entry)
		return gone, false
	}
	gone, r.entries[r.next] = r.entries[r.next], entry
	r.next = (r.next + 1) % r.size
	return gone, true
}

func (r *ring[T]) len() int { return len(r.entries) }

// newest walks from the newest to the oldest until yield says no.
func (r *ring[T]) newest(yield func(T) bool) {
	count := len(r.entries)
	for i := range count {
		if !yield(r.entries[(r.next-1-i+2*count)%count]) {
			return
		}
	}
}
