package api_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/apitest"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/proof"
)

func TestIdempotency_SameRequest_RepeatsTheAnswer(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	first := client.Post(t, "/labels", `{"name":"VIP"}`, "Idempotency-Key", "k1")
	require.Equal(t, 201, first.Status)
	require.Empty(t, first.Header.Get("Idempotent-Replayed"))

	s.Clock.Move(24*time.Hour - time.Millisecond)
	second := client.Post(t, "/labels", `{"name":"VIP"}`, "Idempotency-Key", "k1")
	require.Equal(t, first.Status, second.Status)
	require.Equal(t, string(first.Body), string(second.Body), "the same bytes")
	require.Equal(t, first.Header.Get("X-Request-Id"), second.Header.Get("X-Request-Id"))
	require.Equal(t, "true", second.Header.Get("Idempotent-Replayed"))

	s.Clock.Move(time.Millisecond)
	third := client.Post(t, "/labels", `{"name":"VIP"}`, "Idempotency-Key", "k1")
	require.Equal(t, "already_exists", third.Code(), "after 24 hours the key is free and the request runs again")
}

func TestIdempotency_OtherRequestOrKey_Rules(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client, otherClient := s.Client(t), s.Client(t)
	require.Equal(t, 201, client.Post(t, "/labels", `{"name":"VIP"}`, "Idempotency-Key", "k").Status)

	reuse := refusal{422, "invalid_request_error", "idempotency_key_reuse", ""}
	requireRefusal(t, reuse, client.Post(t, "/labels", `{"name":"vip"}`, "Idempotency-Key", "k"))
	requireRefusal(t, reuse, client.Post(t, "/labels", `{"name":"VIP"} `, "Idempotency-Key", "k"))

	require.Equal(t, 201, otherClient.Post(t, "/labels", `{"name":"VIP"}`, "Idempotency-Key", "k").Status,
		"keys belong to an organization")
	require.Equal(t, 201, client.Post(t, "/labels", `{"name":"other"}`).Status, "without a key nothing is remembered")

	malformed := refusal{400, "invalid_request_error", "invalid_field_value", "Idempotency-Key"}
	for _, key := range []string{" ", "two words", "ümlaut", strings.Repeat("k", 256)} {
		requireRefusal(t, malformed, client.Post(t, "/labels", `{"name":"x"}`, "Idempotency-Key", key))
	}
	require.Equal(t, 201, client.Post(t, "/labels", `{"name":"long"}`, "Idempotency-Key", strings.Repeat("~", 255)).Status)
	label := client.Post(t, "/labels", `{"name":"patched"}`).Data(t)
	require.Equal(t, 200, client.Do(t, "PATCH", "/labels/"+label["id"].(string), `{"color":"red"}`, "Idempotency-Key", "k").Status,
		"only POST takes a key")
}

func TestIdempotency_Refusal_ReleasesTheKey(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	taken := client.Post(t, "/labels", `{"name":"VIP"}`).Data(t)
	require.Equal(t, 409, client.Post(t, "/labels", `{"name":"VIP"}`, "Idempotency-Key", "k").Status)
	require.Equal(t, 400, client.Post(t, "/labels", `{"name":""}`, "Idempotency-Key", "k").Status)
	require.Equal(t, 200, client.Do(t, "DELETE", "/labels/"+taken["id"].(string), nil).Status)
	require.Equal(t, 201, client.Post(t, "/labels", `{"name":"VIP"}`, "Idempotency-Key", "k").Status)
}

// TestIdempotency_ConcurrentDuplicates_OneEffect sends rounds of identical requests at the same time.
func TestIdempotency_ConcurrentDuplicates_OneEffect(t *testing.T) {
	t.Parallel()
	rounds, twins := proof.Sized(40, 200), 50
	s := apitest.New(t)
	client := s.Client(t)
	codes := map[string]int{}
	for round := range rounds {
		answers := make([]apitest.Answer, twins)
		var ready, done sync.WaitGroup
		ready.Add(1)
		for i := range twins {
			done.Go(func() {
				ready.Wait()
				answers[i] = client.Post(t, "/labels", fmt.Sprintf(`{"name":"round %d"}`, round), "Idempotency-Key", fmt.Sprint("round-", round))
			})
		}
		ready.Done()
		done.Wait()
		s.Clock.Move(time.Second) // refills the bucket
		bodies := map[string]bool{}
		for _, answer := range answers {
			if answer.Status == 201 {
				bodies[string(answer.Body)] = true
				codes["201"]++
				continue
			}
			require.Equal(t, 409, answer.Status, "%s", answer.Body)
			require.Equal(t, "idempotency_in_progress", answer.Code())
			codes["409"]++
		}
		require.Len(t, bodies, 1, "every success is the same answer")
	}
	page, err := s.Labels.List(t.Context(), client.Org, paging.Slice[labels.ID]{Limit: 1000})
	require.NoError(t, err)
	require.Len(t, page.Items, rounds, "exactly one effect a round")
	t.Logf("%d rounds of %d: %v", rounds, twins, codes)
}

func TestIdempotency_FirstStillRunning_InProgress(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	release := holdTeams(t, s, client)
	var background sync.WaitGroup
	var first apitest.Answer
	background.Go(func() { first = client.Post(t, "/labels", `{"name":"VIP"}`, "Idempotency-Key", "k") })
	waitForLock(t, s, 1)
	requireRefusal(t, refusal{409, "conflict", "idempotency_in_progress", ""},
		client.Post(t, "/labels", `{"name":"VIP"}`, "Idempotency-Key", "k"))
	release()
	background.Wait()
	require.Equal(t, 201, first.Status)
	require.Equal(t, string(first.Body), string(client.Post(t, "/labels", `{"name":"VIP"}`, "Idempotency-Key", "k").Body))
}

func TestIdempotency_StoredAnswer_IsSealed(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	require.Equal(t, 201, client.Post(t, "/labels", `{"name":"canary-in-the-answer"}`, "Idempotency-Key", "k").Status)
	rows, err := postgres.Many[string](t.Context(), s.DB.Of(client.Org),
		`SELECT row_to_json(k)::text || encode(k.answer, 'escape') FROM idempotency_keys k WHERE org_id = @org_id`, nil)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	require.NotContains(t, rows[0], "canary")
	require.NotContains(t, rows[0], "req_")
}

func TestIdempotency_MasterKeyRotated_AnswerIsRepeated(t *testing.T) {
	t.Parallel()
	const newer = "YSBuZXdlciBtYXN0ZXIga2V5IHdpdGggMzIgYnl0ZXM="
	old := apitest.New(t)
	client := old.Client(t)
	first := client.Post(t, "/labels", `{"name":"VIP"}`, "Idempotency-Key", "k")
	rotated := apitest.With(t, apitest.Options{Beside: old, Masters: []string{newer, canary.Master}})
	again := rotated.Client(t).WithKey(client.Key()).Post(t, "/labels", `{"name":"VIP"}`, "Idempotency-Key", "k")
	require.Equal(t, string(first.Body), string(again.Body))
}

// holdTeams locks the client's team, so that transactions that create labels wait until release is
// called.
func holdTeams(t *testing.T, s *apitest.Server, client *apitest.Client) (release func()) {
	t.Helper()
	held, free, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ctx := context.WithoutCancel(t.Context())
		_, err := postgres.InTx(ctx, s.DB, client.Org, func(tx *postgres.Tx) (int, error) {
			_, err := tx.Exec(ctx, `SELECT FROM teams WHERE org_id = @org_id FOR UPDATE`, nil)
			close(held)
			<-free
			return 0, err
		})
		done <- err
	}()
	<-held
	release = sync.OnceFunc(func() {
		close(free)
		require.NoError(t, <-done)
	})
	t.Cleanup(release)
	return release
}

// waitForLock returns once that many statements of this database wait for a lock.
func waitForLock(t *testing.T, s *apitest.Server, count int) {
	t.Helper()
	require.Eventually(t, func() bool {
		waiting, err := postgres.One[int](t.Context(), s.DB.System("test"),
			`SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`, nil)
		return err == nil && waiting >= count
	}, 3*time.Minute, 2*time.Millisecond)
}
