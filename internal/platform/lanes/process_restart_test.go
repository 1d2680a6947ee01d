package lanes_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// outage is a time without a database, or a little more.
type outage struct{ down, up time.Time }

// during tells that a call was in flight then: begun before the end, and not settled before the start.
func (o outage) during(before, again *call) bool {
	return before.started.Before(o.up) && again.started.After(o.down)
}

// TestProcess_RestartedDatabase crashes the database again and again while workers drain.
func TestProcess_RestartedDatabase(t *testing.T) {
	t.Parallel()
	rows, restarts := sized(10_000, 100_000), sized(1, 5)
	database := newServer(t)
	s := newSite(t, database.URL("postgres"), plan{}.kind(nil), 60)
	s.add(t, rows/2)
	for i := range 3 {
		s.start(t, busyPlan(fmt.Sprintf("worker-%d", i)))
	}
	var outages []outage
	began := time.Now()
	for restart := range restarts {
		s.awaitProgress(t, (restart+1)*rows*3/4/(restarts+1), settledWithin())
		down := time.Now()
		database.Crash()
		database.Start(t)
		outages = append(outages, outage{down: down, up: time.Now()})
		s.add(t, rows/2/restarts)
	}
	last := outages[len(outages)-1].up
	s.add(t, rows-len(s.rows))
	took := s.awaitEnd(t, last)

	found := s.tally(t, func(before, again *call) bool {
		return slices.ContainsFunc(outages, func(o outage) bool { return o.during(before, again) })
	})
	inFlight := s.inFlight(t, outages)
	require.LessOrEqual(t, found.all, inFlight)
	t.Logf("%d rows, %d restarts in %.0f s: 0 lost, %d repeated of %d in flight at a restart (%d of them done and not yet settled)",
		rows, restarts, last.Sub(began).Seconds(), found.all, inFlight, found.done)
	t.Logf("all settled %.1f s after the last restart", took.Seconds())
}

// inFlight counts calls begun before an outage ended whose rows were settled after it began.
func (s *site) inFlight(t *testing.T, outages []outage) (calls int) {
	t.Helper()
	results := s.results(t)
	for row, ofRow := range s.calls(t) {
		for _, one := range ofRow {
			if slices.ContainsFunc(outages, func(o outage) bool { return one.started.Before(o.up) && results[row].At.After(o.down) }) {
				calls++
			}
		}
	}
	return calls
}
