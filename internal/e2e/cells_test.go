package e2e_test

import (
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/proc"
)

const (
	awayFor = 5 * time.Second
	calmFor = time.Second
	noReply = "the database does not answer"
)

// What happens to one cell is felt in no other, and the directory may be away for whoever
// was here before. It is about seconds and runs beside no other test.
func TestACellThatIsAwayIsFeltInNoOther(t *testing.T) { //nolint:paralleltest // as above
	e := newEstate(t)
	inMain, inSecond := e.settle(t, 4)
	server := e.serve(t, nil)
	endMain, endSecond := drive(t, server, e.keysFor(inMain)), drive(t, server, e.keysFor(inSecond))
	require.Empty(t, server.health(t, calmFor))
	away := during(t, server, e.second, awayFor, func() {
		proc.Eventually(t, within(recoverWithin), "/readyz tells which cell is away", func() bool {
			cells, status := server.readiness(t)
			t.Logf("/readyz while the second cell is away: %d %v", status, cells)
			return maps.Equal(cells, map[string]string{"main": "ready", "second": noReply})
		})
	})
	require.Empty(t, server.health(t, recoverWithin+calmFor))
	server.waitReady(t)
	ofMain, ofSecond := endMain(), endSecond()

	require.Empty(t, ofMain.faults)
	require.Empty(t, ofSecond.faults, "a refusal is a well-formed 503 with Retry-After")
	felt := &crush{answers: away.inside(ofSecond.answers)}
	unfelt := &crush{answers: away.inside(ofMain.answers)}
	recovered := away.refusedAfter(ofSecond.answers)
	t.Logf("main: %d requests, of them %d in the outage: 0 errors, %d refused; p50 %s, p99 %s, slowest %s in the outage",
		len(ofMain.answers), len(unfelt.answers), ofMain.byStatus()[http.StatusServiceUnavailable],
		unfelt.quantile(.5), unfelt.quantile(.99), unfelt.quantile(1))
	t.Logf("second: %d requests %v, in the outage %v, slowest of these %s; last refusal %s after the return",
		len(ofSecond.answers), ofSecond.byStatus(), felt.byStatus(), felt.quantile(1), recovered)
	requireServed(t, unfelt, ofMain, "the other cell notices nothing")
	assert.Equal(t, map[int]int{http.StatusServiceUnavailable: len(felt.answers)}, felt.byStatus(), "nothing works without a database")
	assert.Less(t, felt.quantile(1), within(recoverWithin), "a refusal does not wait for the database")
	assert.Less(t, recovered, within(recoverWithin))
	cells, status := server.readiness(t)
	assert.Equal(t, map[string]string{"main": "ready", "second": "ready"}, cells)
	assert.Equal(t, http.StatusOK, status)
}

// requireServed: requests were answered during an outage that is not theirs. That none at all was
// refused is a promise about the machine too, and is held by the proof.
func requireServed(t *testing.T, inside, all *crush, why string) {
	t.Helper()
	assert.Positive(t, inside.byStatus()[http.StatusOK], why)
	assert.Positive(t, inside.byStatus()[http.StatusCreated], why)
	assert.Zero(t, sized(0, all.byStatus()[http.StatusServiceUnavailable]), why)
}

// This one too is about seconds.
func TestADirectoryThatIsAwayIsMissedByNewcomersOnly(t *testing.T) { //nolint:paralleltest // as above
	e := newEstate(t)
	inMain, inSecond := e.settle(t, 4)
	server := e.serve(t, nil)
	all := slices.Concat(inMain, inSecond)
	known, unseen := e.keysFor(all), e.keysFor(all)
	end := drive(t, server, known)
	require.Empty(t, server.health(t, calmFor))
	var slowest time.Duration
	away := during(t, server, e.registry, awayFor, func() {
		for _, key := range unseen {
			got, err := server.client(key).once(t.Context(), me())
			require.NoError(t, err)
			require.NoError(t, got.malformed())
			slowest = max(slowest, got.took)
		}
	})
	waited := time.Duration(0)
	for _, key := range unseen {
		proc.Eventually(t, within(recoverWithin), "a key that was not seen works after the return", func() bool {
			got, err := server.client(key).once(t.Context(), me())
			require.NoError(t, err)
			return got.status == http.StatusOK
		})
		waited = time.Since(away.to)
	}
	seen := end()

	require.Empty(t, seen.faults)
	inside := &crush{answers: away.inside(seen.answers)}
	t.Logf("keys that were seen: %d requests, of them %d in the outage: %d refused; p50 %s, p99 %s, slowest %s in the outage",
		len(seen.answers), len(inside.answers), seen.byStatus()[http.StatusServiceUnavailable],
		inside.quantile(.5), inside.quantile(.99), inside.quantile(1))
	t.Logf("keys that were not: %d of %d refused, slowest %s; all work %s after the return", len(unseen), len(unseen), slowest, waited)
	requireServed(t, inside, seen, "what leads from a key never changes")
	assert.Less(t, slowest, within(recoverWithin), "a refusal does not wait for the directory")
	assert.Less(t, waited, within(recoverWithin))
}

func TestOrganizationsGoToTheEmptiestCell(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	for _, due := range []string{"main", "second", "main", "second", "main"} {
		made := e.operator.object("org", "create", "--name", "Acme", "--plan", "starter")["id"].(string)
		require.Equal(t, due, e.cells()[made], "of equals the first by name")
	}
	require.Len(t, e.cells(), 5)
	table := proc.Run(t, e.operator.settings, "admin", "org", "list")
	require.Regexp(t, `^ID.* CELL`, table.Stdout)
}

func TestDoctorLooksAtTheDirectoryAndEachCell(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	diagnosis := proc.Run(t, e.operator.settings, "doctor")
	require.Equal(t, 0, diagnosis.Code, diagnosis.Stdout)
	for _, line := range []string{
		"directory", "postgres", "schema", "partitions",
		"postgres of cell second", "schema of cell second", "partitions of cell second",
	} {
		require.Contains(t, diagnosis.Stdout, "ok   "+line+":")
	}
	for line, away := range map[string]*proc.Proxy{"FAIL postgres of cell second:": e.second, "FAIL directory:": e.registry} {
		away.Off()
		diagnosis = proc.Run(t, e.operator.settings, "doctor")
		away.On(t)
		require.Equal(t, 1, diagnosis.Code)
		require.Len(t, ailments(diagnosis), 1, diagnosis.Stdout)
		require.Contains(t, ailments(diagnosis)[0], line)
	}
}

func TestAProcessServesOnlyItsCells(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	inMain, inSecond := e.settle(t, 2)
	key, strange := e.keyFor(inMain[0]), e.keyFor(inSecond[0])
	server := e.serve(t, proc.Settings{"PARLEY_CELLS": "main"})
	cells, _ := server.readiness(t)
	require.Equal(t, map[string]string{"main": "ready"}, cells)
	for range 2 { // the second time from memory
		got, err := server.client(key).do(t.Context(), me())
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, got.status, "%s", got.body)
		got, err = server.client(strange).once(t.Context(), me())
		require.NoError(t, err)
		require.NoError(t, got.malformed())
	}
	both := e.serve(t, proc.Settings{"PARLEY_CELLS": "main,second"})
	got, err := both.client(strange).do(t.Context(), me())
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, got.status, "%s", got.body)
}
