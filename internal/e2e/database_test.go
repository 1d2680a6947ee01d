package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/proc"
)

const recoverWithin = 3 * time.Second

// A process starts while its database is down, answers 503 meanwhile, and recovers by itself.
func TestDatabaseDown_RequestsAreRefusedUntilItReturns(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct{ away, back func(*testing.T, *proc.Proxy) }{
		"refuses connections": {
			away: func(_ *testing.T, p *proc.Proxy) { p.Off() },
			back: func(t *testing.T, p *proc.Proxy) { t.Helper(); p.On(t) },
		},
		"accepts connections and does not answer": {
			away: func(_ *testing.T, p *proc.Proxy) { p.Mute(true) },
			back: func(_ *testing.T, p *proc.Proxy) { p.Mute(false) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			_, key := f.key(t, f.org(t, unlimited))
			database := proc.NewProxy(t, f.databaseAddress(t))
			fault.away(t, database)
			server := f.launch(t, f.through(t, database))
			slowest := server.requireUnavailable(t, key)

			fault.back(t, database)
			recovered := server.requireRecovered(t, key)

			fault.away(t, database) // the second time with a warm pool
			again := server.requireUnavailable(t, key)
			stopping := time.Now()
			server.stop(t)
			t.Logf("slowest of 2 × 50 refusals %s and %s; recovered in %s; stopped in %s while away",
				slowest, again, recovered, time.Since(stopping))
		})
	}
}

// requireUnavailable checks the answers of a process while its database is down.
func (s *server) requireUnavailable(t *testing.T, key string) (slowest time.Duration) {
	t.Helper()
	healthy, err := s.client("").get(t.Context(), "/health")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, healthy.status)
	ready, err := s.ask(t.Context(), "/readyz")
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, ready.status, "%s", ready.body)
	require.Contains(t, string(ready.body), "the database does not answer")

	took := make([]time.Duration, 50)
	require.NoError(t, each(len(took), func(i int) error {
		caller := s.client(key)
		sent := call{method: http.MethodGet, path: "/labels"}
		if i%2 == 0 {
			sent = creating(fmt.Sprint("away ", i), fmt.Sprint("away-", i))
		}
		got, err := caller.once(t.Context(), sent)
		if err != nil {
			return err
		}
		took[i] = got.took
		return got.malformed()
	}))
	slowest = quantile(took, 1)
	require.Less(t, slowest, within(recoverWithin), "a refusal does not wait for the database")
	return slowest
}

func (s *server) requireRecovered(t *testing.T, key string) time.Duration {
	t.Helper()
	returned, caller := time.Now(), s.client(key)
	ctx, cancel := context.WithTimeout(t.Context(), within(recoverWithin))
	defer cancel()
	proc.Eventually(t, within(recoverWithin), "an answer after the return", func() bool {
		got, err := caller.get(ctx, "/labels")
		return err == nil && got.status == http.StatusOK
	})
	took := time.Since(returned)
	var ready answer
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	for ; time.Since(returned) < within(recoverWithin) && ready.status != http.StatusOK; <-pace.C {
		if got, err := s.ask(ctx, "/readyz"); err == nil {
			ready = got
		}
	}
	assert.Equal(t, http.StatusOK, ready.status, "%s after the return /readyz still says %s", recoverWithin, ready.body)
	made, err := caller.create(t.Context(), "after the return", "after-the-return")
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, made.status, "%s", made.body)
	return took
}

// Entries of the API log that cannot be written are dropped and counted. Requests do not wait for
// them.
func TestDatabaseDown_APILogEntriesAreDroppedAndCounted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	org := f.org(t, unlimited)
	_, key := f.key(t, org)
	database := proc.NewProxy(t, f.databaseAddress(t))
	server := f.serve(t, f.through(t, database))
	caller, sent := server.client(key), 0
	for try := 0; try < 5 && droppedTotal(t, server) == 0; try++ { // the log is written each second, perhaps just before the cut
		for range 20 {
			got, err := caller.get(t.Context(), "/labels")
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, got.status)
			sent++
		}
		database.Off()
		server.requireUnavailable(t, key)
		proc.Eventually(t, proc.Patience, "every request is written or counted as dropped", func() bool {
			return f.count(t, `SELECT count(*) FROM api_log WHERE org_id = $1`, org.String())+droppedTotal(t, server) >= sent
		})
		database.On(t)
		server.requireRecovered(t, key)
	}
	dropped := droppedTotal(t, server)
	require.Positive(t, dropped)
	server.stop(t)
	t.Logf("%d entries dropped and counted", dropped)
}

// droppedTotal reads the metric of dropped entries.
func droppedTotal(t *testing.T, s *server) int { return s.metric(t, "parley_apilog_dropped_total") }
