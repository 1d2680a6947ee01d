package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// times calls verb with 0 to total-1, from several clients at once, and returns their errors.
func times(clients, total int, verb func(i int) error) error {
	var next atomic.Int64
	return together(clients, func(int) (more bool, err error) {
		i := int(next.Add(1)) - 1
		if i >= total {
			return false, nil
		}
		return true, verb(i)
	})
}

// during has several clients call verb again and again for a while.
func during(clients int, span time.Duration, verb func(client int) error) sample {
	started, delays := time.Now(), make([][]time.Duration, clients)
	check(together(clients, func(client int) (more bool, err error) {
		began := time.Now()
		err = verb(client)
		delays[client] = append(delays[client], time.Since(began))
		return time.Since(started) < span, err
	}))
	elapsed, all := time.Since(started), []time.Duration{}
	for _, some := range delays {
		all = append(all, some...)
	}
	return sample{rate: float64(len(all)) / elapsed.Seconds()}.withDelays(all)
}

func together(clients int, verb func(client int) (more bool, err error)) error {
	var group sync.WaitGroup
	failures := make([]error, clients)
	for client := range clients {
		group.Go(func() {
			for more := true; more && failures[client] == nil; {
				more, failures[client] = verb(client)
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

// fed is how many calls of feed may be under way: fewer than there are connections.
const fed = poolConns * 3 / 4

// feed calls verb at a steady rate, whether earlier calls have ended or not, as long as they
// are not too many, and returns once all have.
func feed(ctx context.Context, perSecond int, span time.Duration, verb func() error) {
	var group sync.WaitGroup
	var once sync.Once
	var failed error
	room := make(chan struct{}, fed)
	started := time.Now()
	for next := started; time.Since(started) < span && ctx.Err() == nil; next = next.Add(time.Second / time.Duration(perSecond)) {
		time.Sleep(time.Until(next))
		room <- struct{}{}
		group.Go(func() {
			defer func() { <-room }()
			if err := verb(); err != nil {
				once.Do(func() { failed = err })
			}
		})
	}
	group.Wait()
	check(errors.Join(failed, ctx.Err()))
}

// feedMeter feeds, and returns what the meter shows of the time after the warm-up.
func feedMeter[K comparable](ctx context.Context, seen *meter[K], perSecond int, warm, span time.Duration, verb func() error) sample {
	from := time.Now().Add(warm)
	feed(ctx, perSecond, warm+span, verb)
	until := time.Now()
	seen.wait()
	return seen.shows(from, until)
}

// counter counts what is done, and knows when the first and the last were.
type counter struct{ count, first, last atomic.Int64 }

func (c *counter) add() {
	now := time.Now().UnixNano()
	if c.count.Add(1) == 1 {
		c.first.Store(now)
	}
	c.last.Store(now)
}

// await waits until so many were counted.
func (c *counter) await(ctx context.Context, want int) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for c.count.Load() < int64(want) {
		select {
		case <-ctx.Done():
			check(fmt.Errorf("only %d of %d were done in time", c.count.Load(), want))
		case <-time.After(time.Millisecond):
		}
	}
}

// pace is how many were counted per second, from the first to the last: how long it took to
// start is not compared.
func (c *counter) pace() sample {
	return sample{rate: float64(c.count.Load()-1) / time.Duration(c.last.Load()-c.first.Load()).Seconds()}
}

// meter knows when each of many things was committed and when it was reached.
type meter[K comparable] struct {
	// patience is how long the last of them may take to be reached.
	patience time.Duration

	mu             sync.Mutex
	added, reached map[K]time.Time
}

func newMeter[K comparable](patience time.Duration) *meter[K] {
	return &meter[K]{patience: patience, added: map[K]time.Time{}, reached: map[K]time.Time{}}
}

func (m *meter[K]) add(key K, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.added[key] = at
}

func (m *meter[K]) reach(key K, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reached[key] = at
}

// forget starts over.
func (m *meter[K]) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.added)
	clear(m.reached)
}

// wait lets the last of what was added be reached.
func (m *meter[K]) wait() {
	for started, missing := time.Now(), true; missing && time.Since(started) < m.patience; time.Sleep(10 * time.Millisecond) {
		missing = false
		m.mu.Lock()
		for key := range m.added {
			missing = missing || m.reached[key].IsZero()
		}
		m.mu.Unlock()
	}
}

// shows is what was reached per second in a span, and the delays of what was added in it.
// What was not reached has waited until now.
func (m *meter[K]) shows(from, until time.Time) sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	within := func(at time.Time) bool { return !at.Before(from) && !at.After(until) }
	now, count, delays := time.Now(), 0, []time.Duration{}
	for key, added := range m.added {
		reached, found := m.reached[key]
		if !found {
			reached = now
		}
		if within(added) {
			delays = append(delays, max(0, reached.Sub(added)))
		}
		if found && within(reached) {
			count++
		}
	}
	return sample{rate: float64(count) / until.Sub(from).Seconds()}.withDelays(delays)
}

// post sends JSON and returns the answer, which must have the status that is wanted.
func post(ctx context.Context, client *http.Client, url string, header http.Header, body []byte, want int) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	header.Set("Content-Type", "application/json")
	request.Header = header
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != want {
		err = fmt.Errorf("answered %s", response.Status)
	}
	return answer, err
}
