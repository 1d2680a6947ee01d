package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

// outcome is one request with its answer or error.
type outcome struct {
	answer
	marker string
	err    error
}

var stops = sized(2, 5)

// Every request that the process accepted is in its API log. Each of them must have been answered
// completely, with the request id that the log has.
func TestStop_UnderLoad_AcceptedRequestsAreAnswered(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	server := f.serve(t, nil)
	for range stops {
		org := f.org(t, unlimited)
		_, key := f.key(t, org)
		seen, took := server.stopUnderLoad(t, key)
		entries, err := f.logs.List(t.Context(), org, 1_000_000)
		require.NoError(t, err)
		accepted := map[string]string{}
		for _, entry := range entries {
			require.NotContains(t, accepted, entry.UserAgent, "a request was accepted twice, so its first answer was lost")
			accepted[entry.UserAgent] = entry.ID.String()
		}
		answered := 0
		for _, o := range seen {
			if o.err != nil {
				require.NotContains(t, accepted, o.marker, "accepted but failed: %v", o.err)
				continue
			}
			if o.status == http.StatusServiceUnavailable {
				require.NoError(t, o.malformed())
				if accepted[o.marker] == "" { // refused before its organization was known
					continue
				}
			}
			answered++
			require.Contains(t, []int{http.StatusOK, http.StatusCreated, http.StatusServiceUnavailable}, o.status, "%s", o.body)
			require.Equal(t, o.header.Get("X-Request-Id"), accepted[o.marker], "every answer is in the log")
		}
		require.Len(t, accepted, answered)
		t.Logf("stopped in %s under %d clients: %d requests accepted, all answered; %d not accepted", took, stoppedClients, answered, len(seen)-answered)
		server.restart(t)
	}
}

const stoppedClients = 16

// stopUnderLoad stops a process while clients send requests.
func (s *server) stopUnderLoad(t *testing.T, key string) (all []outcome, took time.Duration) {
	t.Helper()
	var served atomic.Int64
	seen := make([][]outcome, stoppedClients)
	ended := make(chan error, 1)
	go func() {
		ended <- each(stoppedClients, func(i int) error {
			seen[i] = untilRefused(t.Context(), s.client(key), i, &served)
			return nil
		})
	}()
	proc.Eventually(t, proc.Patience, "load", func() bool { return served.Load() > 200 })
	stopping := time.Now()
	s.stop(t)
	took = time.Since(stopping)
	require.NoError(t, <-ended)
	return slices.Concat(seen...), took
}

// untilRefused sends requests until one is not answered.
func untilRefused(ctx context.Context, caller *client, number int, served *atomic.Int64) []outcome {
	seen := []outcome{}
	for n := range 100_000 {
		o := outcome{marker: fmt.Sprintf("client-%d-%d", number, n)}
		sent := call{method: http.MethodGet, path: "/labels?limit=20", header: map[string]string{"User-Agent": o.marker}}
		if n%2 == 0 {
			sent = call{method: http.MethodPost, path: "/labels", body: fmt.Sprintf(`{"name":%q}`, o.marker), header: sent.header}
		}
		o.answer, o.err = caller.once(ctx, sent)
		seen = append(seen, o)
		if o.err != nil {
			return seen
		}
		served.Add(1)
	}
	return seen
}

// A load balancer must see that the process is stopping while it still answers.
func TestStop_RequestsStillRunning_ReadyzSaysStopping(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, key := f.key(t, f.org(t, unlimited))
	server := f.serve(t, proc.Settings{"PARLEY_DATABASE_URL": pgtest.Patient(t, f.databaseURL)}) // statements wait long enough for the lock
	caller := server.client(key)
	label, err := caller.create(t.Context(), "held", "")
	require.NoError(t, err)
	id := label.data(t)["id"].(string)

	release := f.hold(t, `SELECT 1 FROM labels WHERE name = 'held' FOR UPDATE`)
	patched := make(chan outcome, 1)
	go func() {
		got, err := caller.do(t.Context(), call{method: http.MethodPatch, path: "/labels/" + id, body: `{"name":"let go"}`})
		patched <- outcome{answer: got, err: err}
	}()
	f.waitBlocked(t, 1)
	stopping := time.Now()
	server.Stop()

	last, said := "", 0
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	for since := time.Duration(0); since < 20*time.Second && said < 20; since = time.Since(stopping) {
		<-pace.C
		got, err := server.ask(t.Context(), "/readyz")
		last = fmt.Sprintf("after %s: %d %s %v", since, got.status, got.body, err)
		if err == nil && got.status == http.StatusServiceUnavailable && strings.Contains(string(got.body), "stopping") {
			said++
		}
	}
	release()
	done := <-patched
	require.NoError(t, done.err, "a request in flight is answered")
	require.Equal(t, http.StatusOK, done.status, "%s", done.body)
	require.Equal(t, 0, server.ExitCode(t, stopWithin))
	require.Equal(t, 20, said, "/readyz must say that the process is stopping for as long as it answers; last %s", last)
}

// hold takes a lock on another connection, until release is called.
func (f *fixture) hold(t *testing.T, sql string) (release func()) {
	t.Helper()
	tx, err := f.sql.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), sql)
	require.NoError(t, err)
	var once atomic.Bool
	release = func() {
		if once.CompareAndSwap(false, true) {
			require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context())))
		}
	}
	t.Cleanup(release)
	return release
}

// waitBlocked waits until n statements of this database wait for a lock.
func (f *fixture) waitBlocked(t *testing.T, n int) {
	t.Helper()
	proc.Eventually(t, proc.Patience, "a statement that waits for a lock", func() bool {
		return f.count(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) >= n
	})
}
