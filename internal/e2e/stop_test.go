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

// outcome is one request as its caller saw it.
type outcome struct {
	answer
	marker string
	err    error
}

var stops = sized(2, 5)

// Whatever the process took in is in its API log: each such request must have been
// answered in full, with the id that the log has.
func TestAStopUnderLoadAnswersWhatItAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := w.serve(t, nil)
	for range stops {
		org := w.org(t, unlimited)
		_, key := w.key(t, org)
		seen, took := server.stopUnderLoad(t, key)
		entries, err := w.logs.List(t.Context(), org, 1_000_000)
		require.NoError(t, err)
		accepted := map[string]string{}
		for _, entry := range entries {
			require.NotContains(t, accepted, entry.UserAgent, "a request was taken in twice: its first answer was lost")
			accepted[entry.UserAgent] = entry.ID.String()
		}
		answered := 0
		for _, o := range seen {
			if o.err != nil {
				require.NotContains(t, accepted, o.marker, "accepted, and then: %v", o.err)
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

// stopUnderLoad stops a process in the middle of its work.
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

// A load balancer must be able to see that the process leaves while it still answers.
func TestReadinessSaysStoppingWhileTheLastRequestsFinish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, key := w.key(t, w.org(t, unlimited))
	server := w.serve(t, proc.Settings{"PARLEY_DATABASE_URL": pgtest.Patient(t, w.databaseURL)}) // the lock is waited for
	caller := server.client(key)
	label, err := caller.create(t.Context(), "held", "")
	require.NoError(t, err)
	id := label.data(t)["id"].(string)

	release := w.hold(t, `SELECT 1 FROM labels WHERE name = 'held' FOR UPDATE`)
	patched := make(chan outcome, 1)
	go func() {
		got, err := caller.do(t.Context(), call{method: http.MethodPatch, path: "/labels/" + id, body: `{"name":"let go"}`})
		patched <- outcome{answer: got, err: err}
	}()
	w.waitBlocked(t, 1)
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

// hold takes a lock on a connection of its own until it is released.
func (w *world) hold(t *testing.T, sql string) (release func()) {
	t.Helper()
	tx, err := w.sql.Begin(t.Context())
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
func (w *world) waitBlocked(t *testing.T, n int) {
	t.Helper()
	proc.Eventually(t, proc.Patience, "a statement that waits for a lock", func() bool {
		return w.count(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) >= n
	})
}
