package e2e_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/testkit/proc"
	"github.com/parley-chat/parley/internal/testkit/proof"
)

// calledAtOnce is the most calls that a lane of sends has under way.
const calledAtOnce = 128

// TestSuspension_CustomerWithAQueue_NoCallAfterwards suspends a customer while 1,000 messages of its
// number are queued. What was begun before may still be called, for a second. All others fail.
func TestSuspension_CustomerWithAQueue_NoCallAfterwards(t *testing.T) {
	t.Parallel()
	f, queued := newSendFixture(t), sized(600, 1_000)
	org := f.org(t, unlimited)
	_, key := f.key(t, org)
	customer, err := f.home.Customers.Create(t.Context(), org, customers.Draft{Name: "Suspended"})
	require.NoError(t, err)
	from := f.number(t, org, &customer.ID)
	f.queue(t, from, "+3519100", 100, queued)
	proc.Eventually(t, proc.Patience, "sending has begun", func() bool { return f.sim.count() >= queued/10 })

	asked := time.Now()
	got, err := f.server.client(key).do(t.Context(), call{
		method: http.MethodPatch, path: "/customers/" + customer.ID.String(), body: `{"status":"suspended"}`,
	})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, got.status, "%s", got.body)
	committed := time.Now()
	count := func(sql string) int { return f.fixture.count(t, sql, org) }
	proc.Eventually(t, 3*proc.Patience, "all messages have ended", func() bool {
		return count(`SELECT count(*) FROM message_states WHERE org_id = $1 AND status IN ('queued', 'pending')`) == 0
	})
	calls, late, last := f.sim.of(from), 0, time.Duration(0)
	for _, one := range calls {
		if one.at.After(committed) {
			late++
		}
		last = max(last, one.at.Sub(committed))
	}
	sent := count(`SELECT count(*) FROM message_states WHERE org_id = $1 AND status = 'sent'`)
	failed := count(`SELECT count(*) FROM message_states WHERE org_id = $1 AND status = 'failed' AND error_code = 'customer_suspended' AND synthesized`)
	t.Logf("%d queued, %d called, %d of them after the suspension was answered (in %s), the last %s after; %d sent, %d failed",
		queued, len(calls), late, committed.Sub(asked).Round(time.Millisecond), last.Round(time.Millisecond), sent, failed)
	require.Equal(t, queued, sent+failed)
	require.Len(t, calls, sent, "a message that failed was not called, and none was called twice")
	require.Positive(t, failed)
	require.LessOrEqual(t, late, calledAtOnce, "only calls that were begun before")
	require.Equal(t, failed, count(`SELECT count(*) FROM send_attempts WHERE org_id = $1 AND outcome = 'not_called'`))
	require.Equal(t, failed, count(`SELECT count(*) FROM events WHERE org_id = $1 AND type = 'message.status'`))
	require.Equal(t, sent, count(`SELECT count(*) FROM events WHERE org_id = $1 AND type = 'message.sent'`))
	if proof.Full() {
		require.LessOrEqual(t, last, time.Second)
	}
}
