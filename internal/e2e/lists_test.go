package e2e_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/testkit/proof"
)

// TestLists_WorstListsOfAnOrganization_NeighbourNotDelayed: 64 clients of one organization ask for lists that no index
// serves and that match nothing. The requests of another organization take at most twice as long, and none is refused.
func TestLists_WorstListsOfAnOrganization_NeighbourNotDelayed(t *testing.T) { //nolint:paralleltest // the proof measures time
	f := newFixture(t)
	large, small := f.org(t, unlimited), f.org(t, unlimited)
	_, largeKey := f.key(t, large)
	_, smallKey := f.key(t, small)
	f.exec(t, `
INSERT INTO webhook_deliveries (org_id, id, subscription_id, event_id, event_key, event_type, status)
SELECT $1, ulid(now() - interval '5 days' * n / $2), gen_random_uuid(), gen_random_uuid(), n::text, 'message.status', 'succeeded'
FROM generate_series(1, $2::int) AS n`, large, proof.Sized(5_000, 500_000))
	f.exec(t, `ANALYZE`)
	server := f.serve(t, nil)
	neighbour := server.client(smallKey)
	running := 0 // the most lists that were seen to run at once
	ask := func() []time.Duration {
		took := make([]time.Duration, proof.Sized(20, 500))
		for i := range took {
			sent := call{method: http.MethodGet, path: "/labels?limit=1"}
			if i%5 == 0 {
				sent = call{method: http.MethodGet, path: "/webhook_deliveries?limit=10"}
			}
			got, err := neighbour.once(t.Context(), sent)
			require.NoError(t, err)
			if proof.Full() || got.status != http.StatusServiceUnavailable { // a machine that stands still refuses requests
				require.Equal(t, http.StatusOK, got.status, "%s", got.body)
			}
			took[i] = got.took
			if !proof.Full() {
				running = max(running, f.count(t, `
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND state = 'active'
  AND query LIKE '%webhook_deliveries%' AND pid <> pg_backend_pid()`))
			}
		}
		return took
	}
	ask()
	var ratios, bare []float64
	seen := &answerLog{}
	for range proof.Sized(1, 5) {
		quiet := ask()
		stop := startLists(t, server, largeKey, proof.Sized(8, 64), seen)
		time.Sleep(proof.Sized(0, time.Second))
		beside := ask()
		stop()
		ratios = append(ratios, float64(quantile(beside, 0.99))/float64(quantile(quiet, 0.99)))
		t.Logf("quiet: %s; beside the lists: %s", spread(quiet), spread(beside))
		if proof.Full() {
			stop = startBareLists(t, f.databaseURL, large)
			bare = append(bare, float64(quantile(ask(), 0.99))/float64(quantile(quiet, 0.99)))
			stop()
		}
	}
	slices.Sort(ratios)
	slices.Sort(bare)
	t.Logf("p99 beside the lists against quiet: median %.2f of %.2f", ratios[len(ratios)/2], ratios)
	t.Logf("beside one bare connection that reads the same rows, on the same cores: %.2f", bare)
	t.Logf("the lists: %v, p50 %s, p99 %s", seen.byStatus(), seen.quantile(.5), seen.quantile(.99))
	require.Empty(t, seen.faults)
	require.LessOrEqual(t, running, 1, "the lists of an organization run one after another")
	if proof.Full() {
		require.LessOrEqual(t, ratios[len(ratios)/2], 2.0)
	}
}

// startLists lets clients ask for lists that match nothing, each one after another, until stop is called.
func startLists(t *testing.T, s *server, key string, clients int, seen *answerLog) (stop func()) {
	t.Helper()
	ended := make(chan struct{})
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			caller := s.client(key)
			for {
				select {
				case <-ended:
					return
				default:
					seen.note(caller.once(t.Context(), call{method: http.MethodGet, path: "/webhook_deliveries?event_type=contact.updated&limit=100"}))
				}
			}
		})
	}
	return func() {
		close(ended)
		all.Wait()
	}
}

// startBareLists reads the rows of the lists over one connection, without the API, until stop is called. What it costs the
// neighbour is what the machine makes of one busy connection.
func startBareLists(t *testing.T, databaseURL string, org orgs.ID) (stop func()) {
	t.Helper()
	connection, err := pgx.Connect(t.Context(), databaseURL)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_, _ = connection.Exec(ctx, `
SELECT count(*) FROM (SELECT event_type FROM webhook_deliveries WHERE org_id = $1 ORDER BY id DESC LIMIT 10000) AS read
WHERE event_type = 'contact.updated'`, org) // it ends with an error
		}
	}()
	return func() {
		cancel()
		<-ended
		_ = connection.Close(t.Context())
	}
}
