package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/proc"
	"github.com/parley-chat/parley/internal/testkit/proof"
	"github.com/parley-chat/parley/internal/testkit/truth"
)

// settledWithin is how long after the last kill no message waits any more.
const settledWithin = 2 * time.Minute

// TestSends_ProcessesKilled_NoneIsLostOrDoubled kills processes while clients send, and while the
// provider reports statuses in any order, some of them twice.
func TestSends_ProcessesKilled_NoneIsLostOrDoubled(t *testing.T) {
	t.Parallel()
	found := killDuringSends(t, 0)
	if proof.Full() {
		require.Zero(t, found.Doubled, "every callback came, so that no message was sent twice")
	}
}

// TestSends_CallbacksDropped_DoubledOnlyWithoutCallback does the same while the provider never
// reports a status of 5 % of the messages.
func TestSends_CallbacksDropped_DoubledOnlyWithoutCallback(t *testing.T) {
	t.Parallel()
	found := killDuringSends(t, 0.05)
	if proof.Full() {
		require.LessOrEqual(t, found.Doubled, found.Silent)
	}
}

// killDuringSends is one run. The checker ends it: it knows which copies are allowed.
func killDuringSends(t *testing.T, dropped float64) truth.Found {
	t.Helper()
	count, kills, seed := sized(150, 10_000), sized(2, 20), seedOf(t)
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	f := newSendsFixture(t, sized(10*time.Second, 30*time.Second), 2*count/sendTenants)
	f.set(t, "settings", map[string]any{
		"window": "off", "throughput_limit": false, "pair_limit": false, "redeliver_after_ms": 500, "redeliver_max_ms": 500,
		"shuffle": true, "duplicate": 0.05, "drop_messages": dropped,
	})
	f.script(t, nil, 0)
	began := time.Now()
	acknowledged := f.sendAll(t.Context(), count)
	for kill := range kills {
		f.awaitAcked(t, (kill+1)*count/(kills+1))
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		f.cutAnswers(t, kill)
		f.kill(t, f.victim(random, kill))
	}
	lastKill := time.Now()
	require.NoError(t, acknowledged())
	took := time.Since(began)
	proc.Eventually(t, sized(5*proc.Patience, settledWithin-time.Since(lastKill)), "no message waits", func() bool {
		time.Sleep(100 * time.Millisecond)
		return f.unsettled(t) == 0
	})
	settled := time.Since(lastKill)
	f.awaitApplied(t)
	f.requireReadable(t, count)
	f.requireReceived(t, count/writesEach)
	found := truth.Require(t, f.run(t))
	require.Equal(t, count, found.Messages)
	lost := found.Messages - (found.Sends - found.Extra)
	t.Logf("%d sends in %.0f s (%s), %d kills, callbacks of %.0f %% of the messages dropped: lost %d, doubled %d; "+
		"ambiguous attempts whose callbacks were dropped %d, sent again %d; settled %.1f s after the last kill",
		count, took.Seconds(), rateOf(count, took), kills, dropped*100, lost, found.Doubled, found.Silent, found.Resent, settled.Seconds())
	require.Zero(t, lost)
	return found
}

// awaitAcked waits until that many sends were acknowledged, or a client failed.
func (f *sendsFixture) awaitAcked(t *testing.T, wanted int) {
	t.Helper()
	proc.Eventually(t, 5*proc.Patience, fmt.Sprint(wanted, " sends"), func() bool { return f.failed.Load() || f.acked.Load() >= int64(wanted) })
}

// victim is the process that a kill meets. The first two kills meet one of each role.
func (f *sendsFixture) victim(random *rand.Rand, kill int) *sendProcess {
	at := random.IntN(len(f.processes))
	switch kill {
	case 0:
		at = 2 + at%2
	case 1:
		at %= 2
	}
	return f.processes[at]
}

// cutAnswers lets the provider close some connections before a kill: after it took the message, and
// before it looked at it. A call cannot tell these apart.
func (f *sendsFixture) cutAnswers(t *testing.T, kill int) {
	t.Helper()
	outcomes := []map[string]any{{"drop_request": true}, {"drop_answer": true}}
	f.script(t, outcomes[kill%2], 3)
}

// script sets what the provider does with the next calls; with all others it takes its time.
func (f *sendsFixture) script(t *testing.T, outcome map[string]any, times int) {
	t.Helper()
	_, err := f.control(t.Context(), http.MethodDelete, "script", nil)
	require.NoError(t, err)
	if outcome != nil {
		f.set(t, "script", map[string]any{"match": map[string]any{}, "outcome": outcome, "times": times})
	}
	f.set(t, "script", map[string]any{"match": map[string]any{}, "outcome": map[string]any{"latency_ms": providerLatency.Milliseconds()}})
}

// requireReceived checks that each message that a person wrote is stored and counted once.
func (f *sendsFixture) requireReceived(t *testing.T, count int) {
	t.Helper()
	require.Len(t, f.written, count)
	require.Equal(t, count, f.count(t, `SELECT count(*) FROM messages WHERE direction = 'inbound'`))
	require.Equal(t, count, f.count(t, `SELECT sum(unread_count) FROM conversations`))
}

// requireReadable checks that clients can read each message, once: those that were acknowledged, and those
// that people wrote.
func (f *sendsFixture) requireReadable(t *testing.T, count int) {
	t.Helper()
	seen := f.readAll(t)
	require.Len(t, f.calls, count)
	require.Len(t, seen, count+len(f.written))
	for _, sent := range f.calls {
		var body struct{ Data struct{ ID string } }
		require.NoError(t, json.Unmarshal(sent.Body, &body))
		require.Equal(t, 1, seen[body.Data.ID], "%s", sent.Body)
	}
}
