package e2e_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/proc"
)

// settled waits until no send has arrived for a while, and returns how many have.
func (f *sendFixture) settled(t *testing.T) (arrived int) {
	t.Helper()
	const quiet = 3 * time.Second
	since := time.Now()
	proc.Eventually(t, proc.Patience, "sends end", func() bool {
		time.Sleep(50 * time.Millisecond)
		if now := f.sim.count(); now != arrived {
			arrived, since = now, time.Now()
		}
		return time.Since(since) > quiet
	})
	return arrived
}

func (f *sendFixture) command(t *testing.T, args ...string) proc.Result {
	t.Helper()
	return proc.Run(t, f.server.settings, args...)
}

// TestHold_WrittenByAnotherProcess_Obeyed: a process that was started without --hold, and sends, stops within seconds
// when another one holds the cell. It goes on by itself when the hold is released, and has sent everything once.
func TestHold_WrittenByAnotherProcess_Obeyed(t *testing.T) {
	t.Parallel()
	const count = 400
	f := newSendFixture(t)
	from := f.number(t, f.org(t, unlimited), nil)
	_, key := f.key(t, from.org)
	caller := f.server.client(key)
	f.queue(t, from, "+35191000", count, count)
	proc.Eventually(t, proc.Patience, "some are sent", func() bool { return f.sim.count() >= 20 })
	holder := proc.Start(t, f.server.settings.With(proc.Settings{"PARLEY_OPERATOR_LISTEN": proc.FreeAddress(t)}), "work", "--hold")
	proc.Eventually(t, proc.Patience, "the hold is written", func() bool { return strings.Contains(holder.Log(t), "cell.held") })
	proc.Eventually(t, proc.Patience, "the sender obeys it", func() bool { return strings.Contains(f.server.Log(t), "hold.changed") })
	f.settled(t)
	proc.Eventually(t, proc.Patience, "each begun attempt ends", func() bool {
		return f.count(t, `SELECT count(*) FROM message_states WHERE begun_at IS NOT NULL`) == 0
	})
	before := f.sim.count()
	require.Less(t, before, count, "the rest waits")
	unsent := f.count(t, `SELECT count(*) FROM message_states WHERE status IN ('queued', 'pending')`)
	require.Equal(t, count-before, unsent, "what did not arrive waits")

	f.requireHeldShown(t)
	f.reply(t, from, caller, "+351920000001") // 202
	holder.Stop()
	require.Equal(t, 0, holder.ExitCode(t, stopWithin))
	require.Equal(t, before, f.settled(t), "the hold outlives the process that wrote it")

	released := f.command(t, "admin", "--json", "--as", "grace", "hold", "release", "--unsent", "send", "--cell", "main")
	require.Equal(t, 0, released.Code, released.Stderr)
	var cells []struct {
		Cell, Unsent string
		Messages     int
	}
	require.NoError(t, json.Unmarshal([]byte(released.Stdout), &cells))
	require.Equal(t, "main", cells[0].Cell)
	require.Equal(t, count-before, cells[0].Messages, "not the one that was accepted during the hold")
	proc.Eventually(t, proc.Patience, "everything is sent", func() bool {
		return f.count(t, `SELECT count(*) FROM message_states WHERE status = 'sent'`) == count+1
	})
	require.Equal(t, count+1, f.settled(t), "each once")
	require.Zero(t, f.count(t, `SELECT count(*) FROM lane_faults`))
	again := f.command(t, "admin", "hold", "release")
	require.Equal(t, 1, again.Code)
	require.Contains(t, again.Stderr, "no cell is on hold")
}

// requireHeldShown checks that doctor, /readyz and the log of each process say that the cell is on hold.
func (f *sendFixture) requireHeldShown(t *testing.T) {
	t.Helper()
	diagnosis := f.command(t, "doctor").Stdout
	require.Contains(t, diagnosis, "WARN hold: on hold since ")
	require.Contains(t, diagnosis, "parley admin hold release")
	got, err := f.server.ask(t.Context(), "/readyz")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, got.status, "%s", got.body)
	var body struct{ Warnings map[string]string }
	require.NoError(t, json.Unmarshal(got.body, &body))
	require.Contains(t, body.Warnings["main"], "on hold since ")
	proc.Eventually(t, proc.Patience, "the log says so", func() bool { return strings.Contains(f.server.Log(t), "cell.on_hold") })
	refused := f.command(t, "admin", "hold", "release", "--unsent", "perhaps")
	require.Equal(t, 1, refused.Code)
	require.Contains(t, refused.Stderr, `--unsent: must be wait, fail or send; got "perhaps"`)
}
