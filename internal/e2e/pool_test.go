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
	crowd         = 100
	period        = time.Second
	starvationFor = 4 * time.Second
	answerWithin  = 3 * time.Second
	healWithin    = 2 * time.Second
	healedFor     = 1500 * time.Millisecond
)

// Two connections, statements that take their time, and a hundred callers. It is about
// seconds and runs beside no other test.
func TestAPoolThatIsExhausted(t *testing.T) { //nolint:paralleltest // as above
	for name, starve := range map[string]func(*testing.T, *world, *proc.Proxy) (feed func()){
		"by a slow database": func(_ *testing.T, _ *world, database *proc.Proxy) func() {
			database.Delay(150 * time.Millisecond)
			return func() { database.Delay(0) }
		},
		"by a locked table": func(t *testing.T, w *world, _ *proc.Proxy) func() {
			t.Helper()
			return w.hold(t, `LOCK TABLE labels IN ACCESS EXCLUSIVE MODE`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			_, key := w.key(t, w.org(t, unlimited))
			database := proc.NewProxy(t, w.databaseAddress(t))
			server := w.serve(t, w.through(t, database).With(proc.Settings{"PARLEY_DATABASE_CONNS": "2"}))
			feed := starve(t, w, database)
			calledOff := press(t, server, key)
			unhealthy := server.health(t, starvationFor)
			feed()
			ended := time.Now()
			server.health(t, healWithin+healedFor)
			seen := calledOff()

			require.Empty(t, seen.faults)
			healed, refused, asked := seen.healed(ended)
			t.Logf("%d requests by %d clients on 2 connections: %v, p50 %s, p99 %s, slowest %s; last 503 %s after the cause ended, then %d of %d",
				len(seen.answers), crowd, seen.byStatus(), seen.quantile(.5), seen.quantile(.99), seen.quantile(1), healed, refused, asked)
			assert.Positive(t, seen.byStatus()[http.StatusServiceUnavailable])
			assert.LessOrEqual(t, seen.quantile(1), within(answerWithin), "no answer may take longer")
			// Whether two connections are enough for the crowd is up to the machine.
			assert.LessOrEqual(t, refused, sized(asked, asked/10), "%s after the cause ended requests were still refused", healWithin)
			proc.Eventually(t, proc.Patience, "an answer after the crush", func() bool {
				got, err := server.client(key).get(t.Context(), "/labels?limit=1")
				return err == nil && got.status == http.StatusOK
			})
			assert.Empty(t, unhealthy, "/v1/health is about the process alone: whoever watches it would kill a busy process")
		})
	}
}

// press lets a crowd of clients send one request after another until it is called off;
// without the cause of the crush the two connections would be enough for it.
func press(t *testing.T, s *server, key string) (calledOff func() *crush) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	seen := &crush{}
	var all sync.WaitGroup
	for i := range crowd {
		all.Go(func() {
			caller := s.client(key)
			<-time.After(time.Duration(i) * period / crowd) // not all in one instant
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
	return func() *crush {
		cancel()
		all.Wait()
		return seen
	}
}

// crush is what a crowd saw.
type crush struct {
	mu      sync.Mutex
	answers []answer
	faults  []error
}

func (c *crush) note(got answer, err error) {
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

func (c *crush) byStatus() map[int]int {
	counts := map[int]int{}
	for _, got := range c.answers {
		counts[got.status]++
	}
	return counts
}

func (c *crush) quantile(q float64) time.Duration {
	took := make([]time.Duration, len(c.answers))
	for i, got := range c.answers {
		took[i] = got.took
	}
	return quantile(took, q)
}

// healed tells when after the cause ended the last request began that was refused, and
// how many were refused of those that began once all should be well.
func (c *crush) healed(ended time.Time) (last time.Duration, refused, asked int) {
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

// health asks a process how it is for so long, and returns the answers that were not 200, by status.
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
