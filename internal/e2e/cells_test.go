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
	noReply = "the database does not answer: start PostgreSQL or correct PARLEY_CELL_SECOND_DATABASE_URL"
)

// While the database of one cell is down, requests to the other cell succeed. The test is not
// parallel, because its proof measures seconds.
func TestCellDown_OtherCellUnaffected(t *testing.T) { //nolint:paralleltest // as above
	f := newCellsFixture(t)
	inMain, inSecond := f.createOrgs(t, 4)
	server := f.serve(t, nil)
	endMain, endSecond := startClients(t, server, f.keysFor(inMain)), startClients(t, server, f.keysFor(inSecond))
	require.Empty(t, server.health(t, calmFor))
	away := during(t, server, f.second, awayFor, func() {
		proc.Eventually(t, within(recoverWithin), "/readyz names the cell that is down", func() bool {
			cells, status := server.readiness(t)
			t.Logf("/readyz while the second cell is down: %d %v", status, cells)
			return maps.Equal(cells, map[string]string{"main": "ready", "second": noReply})
		})
	})
	require.Empty(t, server.health(t, recoverWithin+calmFor))
	server.waitReady(t)
	ofMain, ofSecond := endMain(), endSecond()

	require.Empty(t, ofMain.faults)
	require.Empty(t, ofSecond.faults, "a refusal is a well-formed 503 with Retry-After")
	duringSecond := &answerLog{answers: away.inside(ofSecond.answers)}
	duringMain := &answerLog{answers: away.inside(ofMain.answers)}
	recovered := away.refusedAfter(ofSecond.answers)
	t.Logf("main: %d requests, of them %d in the outage: 0 errors, %d refused; p50 %s, p99 %s, slowest %s in the outage",
		len(ofMain.answers), len(duringMain.answers), ofMain.byStatus()[http.StatusServiceUnavailable],
		duringMain.quantile(.5), duringMain.quantile(.99), duringMain.quantile(1))
	t.Logf("second: %d requests %v, in the outage %v, slowest of these %s; last refusal %s after the return",
		len(ofSecond.answers), ofSecond.byStatus(), duringSecond.byStatus(), duringSecond.quantile(1), recovered)
	requireServed(t, duringMain, ofMain, "requests to the other cell succeed")
	assert.Equal(t, map[int]int{http.StatusServiceUnavailable: len(duringSecond.answers)}, duringSecond.byStatus(), "every request needs the database")
	assert.Less(t, duringSecond.quantile(1), within(recoverWithin), "a refusal does not wait for the database")
	assert.Less(t, recovered, within(recoverWithin))
	cells, status := server.readiness(t)
	assert.Equal(t, map[string]string{"main": "ready", "second": "ready"}, cells)
	assert.Equal(t, http.StatusOK, status)
}

// requireServed checks that requests succeeded during the outage of something that they do not need.
// Only the proof checks that none was refused, because a machine that stands still refuses some.
func requireServed(t *testing.T, inside, all *answerLog, why string) {
	t.Helper()
	assert.Positive(t, inside.byStatus()[http.StatusOK], why)
	assert.Positive(t, inside.byStatus()[http.StatusCreated], why)
	assert.Zero(t, sized(0, all.byStatus()[http.StatusServiceUnavailable]), why)
}

// While the directory is down, keys that the process has seen before still work. The test is not
// parallel, because its proof measures seconds.
func TestDirectoryDown_OnlyUncachedKeysFail(t *testing.T) { //nolint:paralleltest // as above
	f := newCellsFixture(t)
	inMain, inSecond := f.createOrgs(t, 4)
	server := f.serve(t, nil)
	all := slices.Concat(inMain, inSecond)
	known, unseen := f.keysFor(all), f.keysFor(all)
	end := startClients(t, server, known)
	require.Empty(t, server.health(t, calmFor))
	var slowest time.Duration
	away := during(t, server, f.directory, awayFor, func() {
		for _, key := range unseen {
			got, err := server.client(key).once(t.Context(), me())
			require.NoError(t, err)
			require.NoError(t, got.malformed())
			slowest = max(slowest, got.took)
		}
	})
	waited := time.Duration(0)
	for _, key := range unseen {
		proc.Eventually(t, within(recoverWithin), "a key that was not cached works after the outage", func() bool {
			got, err := server.client(key).once(t.Context(), me())
			require.NoError(t, err)
			return got.status == http.StatusOK
		})
		waited = time.Since(away.to)
	}
	seen := end()

	require.Empty(t, seen.faults)
	inside := &answerLog{answers: away.inside(seen.answers)}
	t.Logf("keys that were seen: %d requests, of them %d in the outage: %d refused; p50 %s, p99 %s, slowest %s in the outage",
		len(seen.answers), len(inside.answers), seen.byStatus()[http.StatusServiceUnavailable],
		inside.quantile(.5), inside.quantile(.99), inside.quantile(1))
	t.Logf("keys that were not: %d of %d refused, slowest %s; all work %s after the return", len(unseen), len(unseen), slowest, waited)
	requireServed(t, inside, seen, "the cell of a key is cached")
	assert.Less(t, slowest, within(recoverWithin), "a refusal does not wait for the directory")
	assert.Less(t, waited, within(recoverWithin))
}

func TestAdmin_CreateOrganization_GoesToTheEmptiestCell(t *testing.T) {
	t.Parallel()
	f := newCellsFixture(t)
	for _, due := range []string{"main", "second", "main", "second", "main"} {
		made := f.operator.object("org", "create", "--name", "Acme", "--plan", "starter")["id"].(string)
		require.Equal(t, due, f.cells()[made], "with equal counts, the first cell by name")
	}
	require.Len(t, f.cells(), 5)
	made := f.operator.object("org", "create", "--name", "Acme", "--plan", "starter")["id"].(string)
	f.operator.object("org", "move", "--org", made, "--to", "main")
	require.Len(t, f.operator.list("org", "list"), 6, "the copy that a move leaves is not listed")
	require.Equal(t, "main", f.cells()[made])
	require.Contains(t, f.operator.refused("jobs", "retry", "--id", "1", "--cell", "nowhere"), `there is no cell "nowhere"`)
	require.Contains(t, f.operator.refused("callbacks", "reprocess", "--state", "dead", "--limit", "-5"), "must be a number from 1 on")
	table := proc.Run(t, f.operator.settings, "admin", "org", "list")
	require.Regexp(t, `^ID.* CELL`, table.Stdout)
}

func TestDoctor_TwoCells_ChecksDirectoryAndEachCell(t *testing.T) {
	t.Parallel()
	f := newCellsFixture(t)
	diagnosis := proc.Run(t, f.operator.settings, "doctor")
	require.Equal(t, 0, diagnosis.Code, diagnosis.Stdout)
	for _, line := range []string{
		"directory", "postgres", "schema", "partitions",
		"postgres of cell second", "schema of cell second", "partitions of cell second",
	} {
		require.Contains(t, diagnosis.Stdout, "ok   "+line+":")
	}
	for line, away := range map[string]*proc.Proxy{"FAIL postgres of cell second:": f.second, "FAIL directory:": f.directory} {
		away.Off()
		diagnosis = proc.Run(t, f.operator.settings, "doctor")
		away.On(t)
		require.Equal(t, 1, diagnosis.Code)
		require.Len(t, failedChecks(diagnosis), 1, diagnosis.Stdout)
		require.Contains(t, failedChecks(diagnosis)[0], line)
	}
}

func TestServe_OneOfTwoCells_RefusesTheOther(t *testing.T) {
	t.Parallel()
	f := newCellsFixture(t)
	inMain, inSecond := f.createOrgs(t, 2)
	key, strange := f.keyFor(inMain[0]), f.keyFor(inSecond[0])
	server := f.serve(t, proc.Settings{"PARLEY_CELLS": "main"})
	cells, _ := server.readiness(t)
	require.Equal(t, map[string]string{"main": "ready"}, cells)
	for range 2 { // the second time from the cache
		got, err := server.client(key).do(t.Context(), me())
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, got.status, "%s", got.body)
		got, err = server.client(strange).once(t.Context(), me())
		require.NoError(t, err)
		require.NoError(t, got.malformed())
	}
	both := f.serve(t, proc.Settings{"PARLEY_CELLS": "main,second"})
	got, err := both.client(strange).do(t.Context(), me())
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, got.status, "%s", got.body)
}
