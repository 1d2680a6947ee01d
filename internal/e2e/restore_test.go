package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/testkit/proc"
	"github.com/parley-chat/parley/internal/testkit/truth"
)

const (
	// ambiguousSends is how many answers the provider drops in each cell.
	ambiguousSends = 3
	// restoreLatency is how long the provider takes for its answers, so that attempts are under way and messages wait.
	restoreLatency = 4 * time.Second

	sqlQueued = `SELECT count(*) FROM message_states WHERE status = 'queued'`
	sqlBegun  = `SELECT count(*)` + sqlUnderWay
	// sqlAttempts names each attempt that is under way.
	sqlAttempts = `SELECT coalesce(array_agg(st.id || ' ' || st.attempt), '{}')` + sqlUnderWay
	sqlUnderWay = `
FROM message_states st
WHERE begun_at IS NOT NULL AND NOT EXISTS (SELECT FROM send_attempts a WHERE a.message_id = st.id AND a.attempt = st.attempt)`
	sqlAmbiguous = `
SELECT count(*) FROM message_states st
WHERE begun_at IS NOT NULL AND EXISTS (SELECT FROM send_attempts a WHERE a.message_id = st.id AND a.attempt = st.attempt AND outcome = 'unknown')`
	// sqlMakeDue makes the checks of numbers and the syncs of templates due, and adds a job that waits.
	sqlMakeDue = `
WITH checks AS (
    UPDATE accounts SET due_at = now() RETURNING org_id, id
), syncs AS (
    UPDATE template_syncs SET due_at = now()
), jobs AS (
    INSERT INTO river.river_job (state, queue, kind, args, max_attempts, scheduled_at)
    SELECT 'available', 'maintenance', 'templates_sync', jsonb_build_object('org', org_id, 'account', id), 12, now() FROM checks
    RETURNING id
)
SELECT count(*) FROM jobs`
	sqlJobs      = `SELECT count(*) FROM river.river_job WHERE queue = 'maintenance' AND state = 'available'`
	sqlUnsent    = `SELECT count(*) FROM message_states WHERE status IN ('queued', 'pending')`
	sqlProved    = `SELECT count(*) FROM message_states WHERE status IN ('sent', 'delivered', 'read')`
	sqlApplied   = `SELECT count(*) FROM lane_rows JOIN lanes USING (lane_id) WHERE kind = 'callbacks'`
	sqlDelivered = `SELECT count(*) + (SELECT count(*) FROM webhook_deliveries WHERE status NOT IN ('pending', 'failed')) FROM webhook_attempts`
)

// TestRestore_Held_NothingIsSentTwice restores three cells from a base backup and WAL to a moment at which messages are
// queued, begun and ambiguous, after which the provider took more of them. During the hold the provider is not called.
// Released with wait or fail none is doubled; with send at most those that the provider took after that moment.
func TestRestore_Held_NothingIsSentTwice(t *testing.T) {
	t.Parallel()
	f := newRestoreFixture(t)
	f.database.Script(t, restoreBlock(t, "backup"), f.variables)
	lost := f.loseTraffic(t)
	f.restore(t, lost.Begin)
	for _, one := range f.tenants {
		queued, begun, ambiguous := f.count(t, one, sqlQueued), f.count(t, one, sqlBegun), f.count(t, one, sqlAmbiguous)
		t.Logf("%s: restored with %d queued, %d begun, %d ambiguous; the provider took %d messages after that moment",
			one.cell, queued, begun, ambiguous, len(f.took(t, one, lost)))
		require.Positive(t, min(queued, begun, ambiguous), "in %s", one.cell)
	}
	delivered := f.receiver.Count()
	f.hold(t)
	unproved := map[string]int{}
	for _, one := range f.tenants {
		unproved[one.cell] = f.count(t, one, sqlUnsent)
		f.release(t, one)
	}
	f.await(t, "no message waits", func(of *restoreTenant) bool { return f.count(t, of, sqlUnsent) == 0 })
	f.awaitQuiet(t, func() (rows int) {
		for _, one := range f.tenants {
			rows += f.count(t, one, `SELECT count(*) FROM lane_rows`)
		}
		return rows
	})
	require.Greater(t, f.receiver.Count(), delivered, "deliveries go on")
	for _, one := range f.tenants {
		f.check(t, one, lost, unproved[one.cell])
	}
}

// loseTraffic sends, and returns the time that the restore will lose: the provider takes messages in it, and some of
// their callbacks arrive and are lost, too.
func (f *restoreFixture) loseTraffic(t *testing.T) truth.Span {
	t.Helper()
	known, waiting := sized(40, 400), sized(64, 640)
	f.send(t, known)
	f.await(t, "messages are sent and called back", func(of *restoreTenant) bool {
		return f.count(t, of, `SELECT count(*) FROM message_states WHERE status = 'read'`) == known
	})
	f.callbacks.Off()
	f.dropAnswers(t)
	f.set(t, "script", map[string]any{"match": map[string]any{}, "outcome": map[string]any{"latency_ms": restoreLatency.Milliseconds()}})
	f.await(t, "ambiguous attempts", func(of *restoreTenant) bool { return f.count(t, of, sqlAmbiguous) == ambiguousSends })
	f.queue(t, waiting)
	lost := truth.Span{Begin: f.restorable(t, waiting/2)}

	f.send(t, 5) // these messages are gone after the restore
	f.callbacks.On(t)
	f.await(t, "messages are sent that will be forgotten", func(of *restoreTenant) bool { return len(f.took(t, of, lost)) > waiting/4 })
	f.await(t, "callbacks arrive that will be forgotten", func(of *restoreTenant) bool { return f.count(t, of, sqlProved) > known+waiting/16 })
	f.callbacks.Off()
	before := map[string]int{}
	for _, one := range f.tenants {
		before[one.cell] = len(f.took(t, one, lost))
	}
	f.await(t, "messages are sent whose callbacks come after the restore", func(of *restoreTenant) bool {
		return len(f.took(t, of, lost)) > before[of.cell]
	})
	f.killAll()
	f.archive(t)
	f.database.Crash()
	lost.End = time.Now()
	return lost
}

// restorable returns a moment at which every cell has attempts under way and messages that wait. An attempt that is under way
// before and after a moment is under way at it. If this test stood still until less waits, it queues more.
func (f *restoreFixture) restorable(t *testing.T, waiting int) (moment time.Time) {
	t.Helper()
	few := func(of *restoreTenant) bool { return f.count(t, of, sqlQueued) < waiting }
	proc.Eventually(t, 3*proc.Patience, "attempts under way, and messages that wait, in all cells", func() bool {
		if slices.ContainsFunc(f.tenants, few) {
			f.queue(t, waiting)
		}
		before := map[string][]string{}
		for _, one := range f.tenants {
			before[one.cell] = ask[[]string](t, f, one, sqlAttempts)
		}
		moment = f.databaseTime(t)
		return !slices.ContainsFunc(f.tenants, func(of *restoreTenant) bool {
			after := ask[[]string](t, f, of, sqlAttempts)
			begun := slices.ContainsFunc(before[of.cell], func(one string) bool { return slices.Contains(after, one) })
			return !begun || few(of)
		})
	})
	return moment
}

// dropAnswers sends messages of each tenant whose answers the provider drops after it took them.
func (f *restoreFixture) dropAnswers(t *testing.T) {
	t.Helper()
	for i, one := range f.tenants {
		for n := range ambiguousSends {
			to := fmt.Sprintf("+35192%d%07d", i, n)
			f.set(t, "script", map[string]any{"match": map[string]any{"to": to}, "outcome": map[string]any{"drop_answer": true}})
			require.NoError(t, one.send(t.Context(), f.client(one), to))
		}
	}
}

func (f *restoreFixture) databaseTime(t *testing.T) (now time.Time) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), f.database.URL("postgres"))
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&now))
	return now
}

// archive waits until all WAL so far is in the archive.
func (f *restoreFixture) archive(t *testing.T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), f.database.URL("postgres"))
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	var last string
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT pg_walfile_name(pg_switch_wal())`).Scan(&last))
	proc.Eventually(t, proc.Patience, "the WAL is archived", func() bool {
		archived := ""
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT coalesce(max(last_archived_wal), '') FROM pg_stat_archiver`).Scan(&archived))
		return archived >= last
	})
}

// restore recovers the cells into a new server, with the commands of docs/operations.md, and starts processes there: two
// with --hold and one without it.
func (f *restoreFixture) restore(t *testing.T, until time.Time) {
	t.Helper()
	f.variables["UNTIL"] = until.UTC().Format("2006-01-02 15:04:05.999999-07")
	f.useDatabase(proc.Recovered(t, restoreBlock(t, "recover"), f.variables))
	_, err := f.control(t.Context(), http.MethodDelete, "script", nil)
	require.NoError(t, err)
	f.calls.Store(0)
	f.settings["PARLEY_SEND_ECHO_WAIT"] = "5s"
}

// hold checks that nothing is sent or delivered while callbacks are applied and messages accepted.
func (f *restoreFixture) hold(t *testing.T) {
	t.Helper()
	delivered, proved, attempts, jobs := f.receiver.Count(), map[string]int{}, map[string]int{}, map[string]int{}
	for _, one := range f.tenants {
		f.count(t, one, sqlMakeDue)
		jobs[one.cell] = f.count(t, one, sqlJobs)
		proved[one.cell], attempts[one.cell] = f.count(t, one, sqlProved), f.count(t, one, sqlDelivered)
	}
	held := f.start(t, restoreCommand(t, "serve")...)
	f.start(t, restoreCommand(t, "work")...)
	f.start(t, "work")
	f.callbacks.On(t)
	f.await(t, "callbacks that came after the restore prove messages", func(of *restoreTenant) bool {
		return f.idle(t) && f.count(t, of, sqlApplied) == 0 && f.count(t, of, sqlProved) > proved[of.cell]
	})
	f.send(t, 4)
	time.Sleep(sized(3*time.Second, 30*time.Second))
	require.Zero(t, f.calls.Load(), "calls of the provider")
	require.Equal(t, delivered, f.receiver.Count(), "deliveries")
	for _, one := range f.tenants {
		require.Equal(t, attempts[one.cell], f.count(t, one, sqlDelivered), "attempts of deliveries")
		require.Zero(t, f.count(t, one, `SELECT count(*) FROM lane_faults`))
		require.Equal(t, jobs[one.cell], f.count(t, one, sqlJobs), "jobs that wait")
		refused, err := f.client(one).once(t.Context(), call{method: http.MethodPost, path: "/" + one.number + "/templates/sync"})
		require.NoError(t, err)
		require.NoError(t, refused.malformed())
		require.Contains(t, string(refused.body), "on hold")
		t.Logf("%s: held, 0 calls of the provider; %d messages proved by callbacks meanwhile", one.cell, f.count(t, one, sqlProved)-proved[one.cell])
	}
	require.Contains(t, proc.Run(t, f.settings, restoreCommand(t, "doctor")...).Stdout, "WARN hold: on hold since ")
	require.Contains(t, held.Log(t), "cell.held")
}

// release releases the cell of a tenant.
func (f *restoreFixture) release(t *testing.T, of *restoreTenant) {
	t.Helper()
	command := restoreCommand(t, "release")
	command[len(command)-1] = of.unsent // the document shows wait
	released := proc.Run(t, f.settings, append(command, "--cell", of.cell)...)
	require.Equal(t, 0, released.Code, released.Stderr)
}

// check compares what the provider took with the restored cell.
func (f *restoreFixture) check(t *testing.T, of *restoreTenant, lost truth.Span, unproved int) {
	t.Helper()
	run := truth.Run{
		Cells: map[string]string{of.cell: f.settings[of.setting]}, Logs: f.logs, EchoWait: 5 * time.Second, Kills: f.kills,
		Keys: []string{of.key}, Lost: lost, SentAgain: of.unsent == "send",
	}
	kept, gone, after := f.messages(t, of), 0, 0
	close(of.calls)
	for one := range of.calls {
		var body struct{ Data struct{ ID string } }
		require.NoError(t, json.Unmarshal(one.Body, &body))
		if kept[body.Data.ID] {
			run.Calls = append(run.Calls, one)
		} else {
			gone++
		}
	}
	for message := range f.took(t, of, lost) {
		if kept[message] {
			after++
		}
	}
	for _, one := range truth.SimulatorSends(t, f.simulator) {
		if message, _, _ := strings.Cut(one.Reference, ":"); kept[message] {
			run.Sends = append(run.Sends, one)
		}
	}
	found := truth.Require(t, run)
	t.Logf("%s, released with %s: %d messages, %d more are lost by the restore; %d unproved at the release; %d taken by the provider after the "+
		"moment of the restore; doubled %d; failed %d", of.cell, of.unsent, found.Messages, gone, unproved, after, found.Doubled,
		f.count(t, of, `SELECT count(*) FROM message_states WHERE status = 'failed'`))
	if of.unsent == "send" {
		require.LessOrEqual(t, found.Doubled, after)
	} else {
		require.Zero(t, found.Doubled)
	}
}

// messages are the ids of the messages that the cell of a tenant has.
func (f *restoreFixture) messages(t *testing.T, of *restoreTenant) map[string]bool {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), f.settings[of.setting])
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	rows, err := conn.Query(t.Context(), `SELECT id FROM messages`)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[messages.ID])
	require.NoError(t, err)
	found := map[string]bool{}
	for _, id := range all {
		found[id.String()] = true
	}
	return found
}
