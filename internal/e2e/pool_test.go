package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/proc"
)

const (
	crowd        = 100
	period       = time.Second
	exhaustedFor = 4 * time.Second
	answerWithin = 3 * time.Second
	healWithin   = 2 * time.Second
	healedFor    = 1500 * time.Millisecond
)

// A hundred clients share two connections while statements are slow. The test is not parallel,
// because its proof measures seconds.
func TestPoolExhausted_RequestsAreRefusedThenServed(t *testing.T) { //nolint:paralleltest // as above
	for name, exhaust := range map[string]func(*testing.T, *fixture, *proc.Proxy) (release func()){
		"by a slow database": func(_ *testing.T, _ *fixture, database *proc.Proxy) func() {
			database.Delay(150 * time.Millisecond)
			return func() { database.Delay(0) }
		},
		"by a locked table": func(t *testing.T, f *fixture, _ *proc.Proxy) func() {
			t.Helper()
			return f.hold(t, `LOCK TABLE labels IN ACCESS EXCLUSIVE MODE`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			_, key := f.key(t, f.org(t, unlimited))
			database := proc.NewProxy(t, f.databaseAddress(t))
			server := f.serve(t, f.through(t, database).With(proc.Settings{"PARLEY_DATABASE_CONNS": "2"}))
			release := exhaust(t, f, database)
			stop := startCrowd(t, server, key)
			unhealthy := server.health(t, exhaustedFor)
			release()
			ended := time.Now()
			server.health(t, healWithin+healedFor)
			seen := stop()

			require.Empty(t, seen.faults)
			healed, refused, asked := seen.healed(ended)
			t.Logf("%d requests by %d clients on 2 connections: %v, p50 %s, p99 %s, slowest %s; last 503 %s after the cause ended, then %d of %d",
				len(seen.answers), crowd, seen.byStatus(), seen.quantile(.5), seen.quantile(.99), seen.quantile(1), healed, refused, asked)
			assert.Positive(t, seen.byStatus()[http.StatusServiceUnavailable])
			assert.LessOrEqual(t, seen.quantile(1), within(answerWithin), "no answer may take longer")
			// On a slow machine two connections are not enough for all clients, so only the proof checks this.
			assert.LessOrEqual(t, refused, sized(asked, asked/10), "%s after the cause ended requests were still refused", healWithin)
			proc.Eventually(t, proc.Patience, "an answer after the crowd", func() bool {
				got, err := server.client(key).get(t.Context(), "/labels?limit=1")
				return err == nil && got.status == http.StatusOK
			})
			assert.Empty(t, unhealthy, "/v1/health is about the process alone; otherwise a supervisor would restart a busy process")
		})
	}
}

// startCrowd starts clients that each send a request per second until stop is called. Two
// connections are enough for them while statements are fast. stop returns all answers.
func startCrowd(t *testing.T, s *server, key string) (stop func() *answerLog) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	seen := &answerLog{}
	var all sync.WaitGroup
	for i := range crowd {
		all.Go(func() {
			caller := s.client(key)
			<-time.After(time.Duration(i) * period / crowd) // spreads the first requests over a period
			pace := time.NewTicker(period)
			defer pace.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				name := fmt.Sprintf("crowd %d %d", i, n)
				sent := []call{
					{method: http.MethodGet, path: "/labels?limit=1"}, creating(name, ""), creating(name, strings.ReplaceAll(name, " ", "-")),
				}[n%3]
				seen.note(caller.once(t.Context(), sent))
				select {
				case <-pace.C:
				case <-ctx.Done():
				}
			}
		})
	}
	return func() *answerLog {
		cancel()
		all.Wait()
		return seen
	}
}

// answerLog has the answers of several clients, and the errors among them.
type answerLog struct {
	mu      sync.Mutex
	answers []answer
	faults  []error
}

func (c *answerLog) note(got answer, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers = append(c.answers, got)
	switch {
	case err != nil:
	case got.status == http.StatusServiceUnavailable:
		err = got.malformed()
	case got.status != http.StatusOK && got.status != http.StatusCreated:
		err = fmt.Errorf("%d %s", got.status, got.body)
	}
	if err != nil {
		c.faults = append(c.faults, err)
	}
}

func (c *answerLog) byStatus() map[int]int {
	counts := map[int]int{}
	for _, got := range c.answers {
		counts[got.status]++
	}
	return counts
}

func (c *answerLog) quantile(q float64) time.Duration {
	took := make([]time.Duration, len(c.answers))
	for i, got := range c.answers {
		took[i] = got.took
	}
	return quantile(took, q)
}

// healed returns the time from ended to the start of the last refused request, and how many of the
// requests that began more than healWithin after ended were refused.
func (c *answerLog) healed(ended time.Time) (last time.Duration, refused, asked int) {
	for _, got := range c.answers {
		since, isRefused := got.started.Sub(ended), got.status == http.StatusServiceUnavailable
		if isRefused {
			last = max(last, since)
		}
		if since > healWithin {
			asked++
			if isRefused {
				refused++
			}
		}
	}
	return last, refused, asked
}

// health calls /v1/health again and again for a while, and counts the answers other than 200 by status.
func (s *server) health(t *testing.T, during time.Duration) map[int]int {
	t.Helper()
	caller, unhealthy := s.client(""), map[int]int{}
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for started := time.Now(); time.Since(started) < during; <-pace.C {
		got, err := caller.get(t.Context(), "/health")
		require.NoError(t, err)
		if got.status != http.StatusOK {
			unhealthy[got.status]++
		}
	}
	return unhealthy
}
