package e2e_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/parley-chat/parley/internal/testkit/proc"
	"github.com/parley-chat/parley/internal/testkit/proof"
)

// TestOverload_TwiceTheCapacity_ServesAtCapacity sends twice as many requests as a process can serve, first of one
// organization, then of sixteen, and clients do not wait for answers. The process goes on at its capacity and refuses the
// others, and an organization with few requests is not refused. A slow database makes the pool the bottleneck.
func TestOverload_TwiceTheCapacity_ServesAtCapacity(t *testing.T) { //nolint:paralleltest // the proof measures
	f := newFixture(t)
	var keys []string
	for range 17 {
		_, key := f.key(t, f.org(t, unlimited))
		keys = append(keys, key)
	}
	database := proc.NewProxy(t, f.databaseAddress(t))
	server := f.serve(t, f.through(t, database).With(proc.Settings{"PARLEY_DATABASE_CONNS": "4"}))
	database.Delay(5 * time.Millisecond)
	capacity := closedLoop(t, server, keys[0], sized(time.Second, 8*time.Second))
	t.Logf("capacity: %.0f/s", capacity)
	for _, crowded := range [][]string{keys[:1], keys[:16]} {
		neighbour := &answerLog{}
		stop := startPaced(t, server, keys[16:], 5, neighbour)
		offered := &answerLog{}
		stopCrowd := startPaced(t, server, crowded, max(10, 2*capacity), offered)
		time.Sleep(sized(time.Second, 25*time.Second))
		stopCrowd()
		stop()
		require.Empty(t, offered.faults)
		require.Empty(t, neighbour.faults)
		served := offered.servedPerSecond(sized(0, 5*time.Second))
		t.Logf("%d organizations: %d requests %v, served %.0f/s, p50 %s, p99 %s; neighbour: %v, p50 %s, p99 %s",
			len(crowded), len(offered.answers), offered.byStatus(), served, offered.quantile(.5), offered.quantile(.99),
			neighbour.byStatus(), neighbour.quantile(.5), neighbour.quantile(.99))
		assert.Positive(t, offered.byStatus()[http.StatusCreated])
		if proof.Full() {
			assert.GreaterOrEqual(t, served, 0.8*capacity)
			assert.Empty(t, neighbour.byStatus()[http.StatusServiceUnavailable])
		}
	}
}

// closedLoop returns how many labels a second eight clients create that wait for each answer.
func closedLoop(t *testing.T, s *server, key string, during time.Duration) float64 {
	t.Helper()
	seen, began := &answerLog{}, time.Now()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			caller := s.client(key)
			for n := 0; time.Since(began) < during; n++ {
				seen.note(caller.once(t.Context(), creating(fmt.Sprintf("closed %d %d", i, n), "")))
			}
		})
	}
	all.Wait()
	require.Empty(t, seen.faults)
	return float64(seen.byStatus()[http.StatusCreated]) / time.Since(began).Seconds()
}

// startPaced creates labels at a rate, whatever the answers are, by each key in turn. stop waits for all answers.
func startPaced(t *testing.T, s *server, keys []string, perSecond float64, seen *answerLog) (stop func()) {
	t.Helper()
	callers := make([]*client, len(keys))
	for i, key := range keys {
		callers[i] = s.client(key)
	}
	ended := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		pace := time.NewTicker(time.Duration(float64(time.Second) / perSecond))
		defer pace.Stop()
		began := time.Now().UnixNano()
		for n := 0; ; n++ {
			select {
			case <-ended:
				return
			case <-pace.C:
				all.Go(func() {
					seen.note(callers[n%len(callers)].once(t.Context(), creating(fmt.Sprintf("paced %d %d", began, n), "")))
				})
			}
		}
	})
	return sync.OnceFunc(func() {
		close(ended)
		all.Wait()
	})
}

// servedPerSecond is how many requests a second were served that began after the first part, which is left out.
func (c *answerLog) servedPerSecond(leftOut time.Duration) float64 {
	first, last, served := c.answers[0].started, c.answers[0].started, 0
	for _, one := range c.answers {
		if one.started.Before(first) {
			first = one.started
		}
		if one.started.After(last) {
			last = one.started
		}
	}
	for _, one := range c.answers {
		if one.status == http.StatusCreated && one.started.Sub(first) > leftOut {
			served++
		}
	}
	return float64(served) / (last.Sub(first) - leftOut).Seconds()
}

// TestOverload_CrowdComesBack_IsServed has many clients come at once, beside requests that go on. Each comes back after
// Retry-After until it is served. The process must serve them most of the time, and not refuse them again and again.
func TestOverload_CrowdComesBack_IsServed(t *testing.T) { //nolint:paralleltest // the proof measures
	f := newFixture(t)
	var keys []string
	for range 17 {
		_, key := f.key(t, f.org(t, unlimited))
		keys = append(keys, key)
	}
	server := f.serve(t, f.settings())
	capacity := closedLoop(t, server, keys[0], sized(time.Second, 8*time.Second))
	beside := &answerLog{}
	stop := startPaced(t, server, keys[16:], max(10, capacity*sized(.05, .6)), beside)
	crowd, came := sized(100, 12_000), time.Now()
	calls := comeUntilServed(t, server, keys[:16], crowd)
	took := time.Since(came)
	stop()
	t.Logf("capacity %.0f/s; a crowd of %d was served after %s, by %d calls; beside: %v", capacity, crowd, took.Round(time.Second/10),
		calls, beside.byStatus())
	if proof.Full() {
		require.LessOrEqual(t, calls, 3*crowd)
	}
}

// comeUntilServed has clients come at once, each until it has created a label, and returns how many requests they sent.
func comeUntilServed(t *testing.T, s *server, keys []string, clients int) int {
	t.Helper()
	callers := make([]*client, len(keys))
	for i, key := range keys {
		callers[i] = s.client(key)
	}
	var calls atomic.Int64
	var all errgroup.Group
	for n := range clients {
		all.Go(func() error {
			for {
				calls.Add(1)
				got, err := callers[n%len(callers)].once(t.Context(), creating(fmt.Sprintf("crowd %d", n), ""))
				if err != nil || got.status == http.StatusCreated {
					return err
				}
				if err := got.malformed(); err != nil {
					return err
				}
				time.Sleep(got.retryAfter())
			}
		})
	}
	require.NoError(t, all.Wait())
	return int(calls.Load())
}
