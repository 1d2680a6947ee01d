package e2e_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
