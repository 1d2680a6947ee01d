package api_test

import (
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/apitest"
)

// TestContacts_ConcurrentBulkCalls_CountsAddUp: 50 clients label overlapping contacts in random order, a
// hundred calls each in the proof. No call may deadlock or be refused, and the counts must add up to the
// rows at the end. In CI a client repeats a call that answers 503, because on a busy machine a call may
// wait for a lock longer than its timeout.
func TestContacts_ConcurrentBulkCalls_CountsAddUp(t *testing.T) {
	t.Parallel()
	calls, proof := 2, os.Getenv("PARLEY_PROOF") == "full"
	if proof {
		calls = 100
	}
	n := numberOf(t, apitest.New(t))
	label := n.s.Label(t, n.Org)
	var ids []string
	for range 60 {
		ids = append(ids, n.s.Contact(t, n.Org, n.account).ID.String())
	}
	eventCount := len(deliveredEvents(t, n.s, n.Client))
	var attached, detached, trouble atomic.Int64
	var group sync.WaitGroup
	for caller := range 50 {
		group.Go(func() {
			for call := range calls {
				some := make([]string, 0, 40)
				for _, i := range rand.Perm(len(ids))[:40] {
					some = append(some, ids[i])
				}
				n.s.Clock.Move(10 * time.Millisecond) // refills the bucket
				operation := []string{"attach", "detach"}[(caller+call)%2]
				ask := func() apitest.Answer {
					return n.Post(t, n.path+"/contacts/bulk_label", map[string]any{"contact_ids": some, "label_id": label.ID, "operation": operation})
				}
				answer := ask()
				for began := clock.StartWatch(); !proof && answer.Status == 503 && began.Elapsed() < 2*time.Minute; {
					answer = ask()
				}
				if answer.Status != 200 {
					trouble.Add(1)
					t.Errorf("%d %s", answer.Status, answer.Body)
					return
				}
				counts := answer.Data(t)
				changed, _ := counts[operation+"ed"].(float64)
				if counts["requested"] != 40.0 || counts["skipped_cross_org"] != 0.0 || counts["unchanged"].(float64)+changed != 40 {
					t.Errorf("%v", counts)
				}
				if operation == "attach" {
					attached.Add(int64(changed))
				} else {
					detached.Add(int64(changed))
				}
			}
		})
	}
	group.Wait()
	require.Zero(t, trouble.Load())
	deadlocks, err := postgres.One[int](t.Context(), n.s.DB.System("test"), `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`, nil)
	require.NoError(t, err)
	require.Zero(t, deadlocks)
	left := walk(t, n.Client, n.path+"/contacts?limit=100&label_id="+label.ID.String())
	require.Equal(t, attached.Load()-detached.Load(), int64(len(left)))
	require.Equal(t, attached.Load()+detached.Load(), int64(len(deliveredEvents(t, n.s, n.Client))-eventCount), "each change records one event")
	t.Logf("%d calls: %d attached, %d detached, %d left", 50*calls, attached.Load(), detached.Load(), len(left))
}
