package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
)

// meter knows when each row was committed and when it was reached.
type meter struct {
	mu             sync.Mutex
	added, reached map[ids.Any]time.Time
}

func newMeter() *meter {
	return &meter{added: map[ids.Any]time.Time{}, reached: map[ids.Any]time.Time{}}
}

func (m *meter) add(row ids.Any, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.added[row] = at
}

func (m *meter) reach(row ids.Any, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reached[row] = at
}

// wait lets the last rows arrive, for as long as is fair.
func (m *meter) wait(most time.Duration) {
	for started := time.Now(); time.Since(started) < most; time.Sleep(10 * time.Millisecond) {
		m.mu.Lock()
		missing := 0
		for row := range m.added {
			if m.reached[row].IsZero() {
				missing++
			}
		}
		m.mu.Unlock()
		if missing == 0 {
			return
		}
	}
}

// delays are those of the rows that were committed in a span, sorted. A row that was not
// reached has waited until now.
func (m *meter) delays(from, until time.Time) []time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	var delays []time.Duration
	now := time.Now()
	for row, added := range m.added {
		if added.Before(from) || added.After(until) {
			continue
		}
		reached, found := m.reached[row]
		if !found {
			reached = now
		}
		delays = append(delays, max(0, reached.Sub(added)))
	}
	slices.Sort(delays)
	return delays
}

// reachedIn counts rows reached in a span.
func (m *meter) reachedIn(from, until time.Time) (count int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for row, at := range m.reached {
		if _, ours := m.added[row]; ours && at.After(from) && at.Before(until) {
			count++
		}
	}
	return count
}

// spread is how long most and nearly all of something took, in milliseconds.
type spread struct{ p50, p99 float64 }

func (s spread) String() string { return fmt.Sprintf("p50 %.1f ms, p99 %.1f ms", s.p50, s.p99) }

func spreadOf(sorted []time.Duration) (spread, error) {
	if len(sorted) == 0 {
		return spread{}, errors.New("nothing was measured")
	}
	at := func(share float64) float64 {
		return float64(sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]) / float64(time.Millisecond)
	}
	return spread{p50: at(0.50), p99: at(0.99)}, nil
}

// fed is how many calls of feed may be under way: fewer than there are connections.
const fed = stageConns * 3 / 4

// feed calls a verb at a steady rate, whether earlier calls have ended or not, as long as
// they are not too many, and returns once all have.
func feed(ctx context.Context, rate int, span time.Duration, verb func() error) error {
	var group sync.WaitGroup
	var once sync.Once
	var failure error
	room := make(chan struct{}, fed)
	started := time.Now()
	for next := started; time.Since(started) < span && ctx.Err() == nil; next = next.Add(time.Second / time.Duration(rate)) {
		time.Sleep(time.Until(next))
		room <- struct{}{}
		group.Go(func() {
			defer func() { <-room }()
			if err := verb(); err != nil {
				once.Do(func() { failure = err })
			}
		})
	}
	group.Wait()
	return errors.Join(failure, ctx.Err())
}
