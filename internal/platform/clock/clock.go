// Package clock is the only package that reads the machine's clock. Code that needs the time gets
// a Clock, which tests can move.
package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

// Clock returns the time in UTC, truncated to milliseconds, so that a time that was printed and
// parsed again compares equal.
type Clock interface {
	Now() time.Time
}

// Synced is the production clock: this process's monotonic time plus the measured
// offset to a database, so that all processes of a cell agree.
type Synced struct {
	started time.Time
	offset  atomic.Int64
}

// NewSynced returns a clock without an offset: until the first Adjust it shows the machine's time.
func NewSynced() *Synced { return &Synced{started: time.Now()} }

// Now adds the monotonic time since the start to the wall clock read at the start, so that a step
// of the machine's clock has no effect until it is measured as an offset.
func (s *Synced) Now() time.Time {
	offset := time.Duration(s.offset.Load())
	return s.started.Add(time.Since(s.started) + offset).UTC().Truncate(time.Millisecond)
}

// Adjust records that the reference clock showed reference when this one's monotonic
// time was between asked and answered, and returns by how much the offset jumped.
func (s *Synced) Adjust(reference time.Time, asked, answered time.Duration) time.Duration {
	middle := s.started.Add((asked + answered) / 2)
	next := int64(reference.Sub(middle))
	return time.Duration(next - s.offset.Swap(next))
}

// Elapsed returns the monotonic time since the start, for the arguments of Adjust.
func (s *Synced) Elapsed() time.Duration { return time.Since(s.started) }

// Manual is a clock that tests move.
type Manual struct {
	mu  sync.Mutex
	now time.Time
}

// NewManual returns a clock that stands at start.
func NewManual(start time.Time) *Manual {
	return &Manual{now: start.UTC().Truncate(time.Millisecond)}
}

// Now returns the time that the clock shows.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Move moves the clock by a duration, which may be negative.
func (m *Manual) Move(by time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(by).Truncate(time.Millisecond)
}

// Stamp is a time in a response or an event: RFC 3339 in UTC with milliseconds.
type Stamp time.Time

// StampOrNil returns the stamp of an optional time.
func StampOrNil(t *time.Time) *Stamp {
	if t == nil {
		return nil
	}
	stamp := Stamp(*t)
	return &stamp
}

func (s Stamp) String() string { return time.Time(s).UTC().Format("2006-01-02T15:04:05.000Z") }

// MarshalText prints the stamp.
func (s Stamp) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText printed.
func (s *Stamp) UnmarshalText(text []byte) error {
	return (*time.Time)(s).UnmarshalText(text)
}

// Watch measures a duration by monotonic time. Steps of the machine's clock and manual clocks do
// not affect it.
type Watch struct{ started time.Time }

// StartWatch starts to measure.
func StartWatch() Watch { return Watch{started: time.Now()} }

// Elapsed is the time since the start.
func (w Watch) Elapsed() time.Duration { return time.Since(w.started) }
