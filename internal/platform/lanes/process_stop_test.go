package lanes_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

const stopRows, atOnce = 150, 8

func callsPlan(name string) plan {
	return plan{
		Name: name, Workers: 8, Least: atOnce, Most: atOnce,
		Shortest: 150 * time.Millisecond, Longest: 250 * time.Millisecond,
	}
}

// stopped is a worker that stands still, and how it was when it began to.
type stopped struct {
	*worker

	rows     []ids.Any
	at       time.Time
	notes    []note
	settled  int
	inFlight int
}

// TestProcess_StoppedWorkers stops a worker among its calls, the very one that watches
// over the lanes, and another in the transaction that settles, which locks its lane. A
// third takes both lanes over; then the two go on, and it is too late for them.
func TestProcess_StoppedWorkers(t *testing.T) {
	t.Parallel()
	s := newSite(t, pgtest.URL(t), plan{}.kind(nil), 2)
	caller := &stopped{worker: s.start(t, callsPlan("caller"))}
	s.stop(t, caller, amongCalls)
	settles := callsPlan("settler")
	settles.Settling = 300 * time.Millisecond
	settler := &stopped{worker: s.start(t, settles)}
	s.stop(t, settler, inSettlement)
	other := s.start(t, callsPlan("other"))
	s.awaitEnd(t, time.Now())

	finished := time.Now()
	time.Sleep(sized(0, 90*time.Second) - time.Since(settler.at))
	for _, victim := range []*stopped{caller, settler} {
		t.Logf("%s stood still for %.0f s with %d of its %d rows in flight and %d untouched: finished by another after %.1f s",
			victim.Name, time.Since(victim.at).Seconds(), victim.inFlight, stopRows,
			stopRows-victim.inFlight-victim.settled, finished.Sub(victim.at).Seconds())
		victim.goOn(t)
	}
	time.Sleep(5 * time.Second)
	excused := func(before, again *call) bool {
		return slices.ContainsFunc([]*stopped{caller, settler}, func(victim *stopped) bool {
			return before.by == victim.Name && again.started.After(victim.at)
		})
	}
	found := s.tally(t, excused)
	for _, victim := range []*stopped{caller, settler} {
		require.Equal(t, count(victim.notes, started), count(victim.worker.notes(t), started), "%s starts no call", victim.Name)
		require.Equal(t, victim.settled, s.settledBy(t, victim), "%s commits nothing", victim.Name)
		log, err := victim.log.Stat()
		require.NoError(t, err)
		require.Less(t, log.Size(), int64(64<<10), "%s gives up instead of trying in vain for ever", victim.Name)
		require.Equal(t, victim.inFlight, found.by[victim.Name], "what %s was at is done by another", victim.Name)
		t.Logf("%s went on: 0 calls started, 0 rows settled, %d rows called again by the other", victim.Name, found.by[victim.Name])
	}

	other.kill()
	s.add(t, 100)
	s.await(t, settledWithin(), s.ended) // by the two, who are none the worse
	s.tally(t, excused)
}

// amongCalls is while more than half of a lane's calls are under way: the next ones start
// only when half are done, so that none is about to.
func amongCalls(notes []note) bool {
	return count(notes, started)-count(notes, ended) > atOnce/2
}

func inSettlement(notes []note) bool { return count(notes, settling) > count(notes, settled) }

// stop gives a worker a lane that nobody else is there to take, and stops it at such a
// moment, after it has settled some rows.
func (s *site) stop(t *testing.T, victim *stopped, moment func([]note) bool) {
	t.Helper()
	before := len(s.rows)
	s.addTo(t, s.open[before/stopRows], stopRows)
	victim.rows = s.rows[before:]
	s.awaitProgress(t, s.standing(t).Settled+stopRows/8, settledWithin())
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		require.Less(t, time.Since(began), settledWithin(), "there was no moment to stop %s", victim.Name)
		if !moment(victim.worker.notes(t)) {
			continue
		}
		victim.at = time.Now()
		victim.halt(t)
		s.awaitSilence(t, victim)
		if victim.notes = victim.worker.notes(t); moment(victim.notes) {
			break
		}
		victim.goOn(t)
	}
	victim.settled = s.settledBy(t, victim)
	victim.inFlight = count(victim.notes, started) - victim.settled
	require.Greater(t, stopRows-victim.settled, victim.inFlight, "some rows are untouched")
}

// awaitSilence waits until the database has done what a worker that stands still had asked for.
func (s *site) awaitSilence(t *testing.T, victim *stopped) {
	t.Helper()
	for quiet, began := 0, time.Now(); quiet < 3; time.Sleep(20 * time.Millisecond) {
		require.Less(t, time.Since(began), settledWithin())
		busy, err := postgres.One[int](t.Context(), s.db.System("test"), `
			SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = @name AND state = 'active'
			  AND wait_event_type IS DISTINCT FROM 'Lock' AND wait_event_type IS DISTINCT FROM 'Client'`,
			postgres.Args{"name": victim.Name})
		require.NoError(t, err)
		if quiet++; busy > 0 {
			quiet = 0
		}
	}
}

func (s *site) settledBy(t *testing.T, victim *stopped) (rows int) {
	t.Helper()
	results := s.results(t)
	for _, row := range victim.rows {
		if results[row].By == victim.Name {
			rows++
		}
	}
	return rows
}
