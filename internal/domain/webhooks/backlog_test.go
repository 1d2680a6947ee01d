package webhooks_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/proof"
)

// fill gives the subscription count deliveries that wait, with their rows in its lane, made over the last hour.
func (s *fixture) fill(t *testing.T, count int) {
	t.Helper()
	const portion = 50_000
	for from := 0; from < count; from += portion {
		s.exec(t, `-- locks: webhook_deliveries
WITH made AS (
    INSERT INTO webhook_deliveries (org_id, id, subscription_id, event_id, event_key, event_type, status)
    SELECT @org_id, one.id, @subscription_id, one.id, one.id::text, 'contact.updated', 'pending'
    FROM (SELECT ulid(@now::timestamptz - interval '1 hour' * n / @count::int) AS id
          FROM generate_series(@from::int + 1, least(@from::int + @portion::int, @count::int)) AS n) one
    RETURNING id
)
INSERT INTO lane_rows (lane_id, priority, due_at, id)
SELECT @subscription_id, ('x' || right(id::text, 1))::bit(4)::int / 12, timestamptz 'epoch' + interval '1 ms' * ('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint, id
FROM made`, postgres.Args{"subscription_id": s.Subscription.ID, "now": s.Clock.Now(), "count": count, "from": from, "portion": portion})
	}
}

func (s *fixture) waitingRows(t *testing.T) int {
	t.Helper()
	return s.count(t, `SELECT count(*) FROM lane_rows WHERE lane_id = @id AND @org_id::uuid IS NOT NULL`, postgres.Args{"id": s.Subscription.ID})
}

// lockBacklog locks the waiting deliveries and their rows in the lane until release is called.
func (s *fixture) lockBacklog(t *testing.T) (release func()) {
	t.Helper()
	held, free, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ctx := context.WithoutCancel(t.Context())
		_, err := postgres.InTx(ctx, s.DB, s.org, func(tx *postgres.Tx) (int64, error) {
			args := postgres.Args{"id": s.Subscription.ID}
			locked, err := tx.Exec(ctx, `-- locks: webhook_deliveries
SELECT FROM webhook_deliveries WHERE org_id = @org_id AND subscription_id = @id FOR UPDATE`, args)
			if err == nil {
				_, err = tx.Exec(ctx, `SELECT FROM lane_rows WHERE lane_id = @id AND @org_id::uuid IS NOT NULL FOR UPDATE`, args)
			}
			close(held)
			<-free
			return locked, err
		})
		done <- err
	}()
	<-held
	release = sync.OnceFunc(func() {
		close(free)
		assert.NoError(t, <-done)
	})
	t.Cleanup(release)
	return release
}

// Deleting a subscription, or discarding its backlog, answers at once however many deliveries wait. Neighbours are
// served meanwhile, and nothing of the backlog is sent.
func TestBacklog_AMillionDeliveries_DeleteAndDiscardAnswerAtOnce(t *testing.T) {
	t.Parallel()
	count := proof.Sized(12_000, 1_000_000)
	for name, end := range map[string]func(s *fixture) error{
		"delete": func(s *fixture) error {
			_, err := s.Webhooks.Delete(t.Context(), s.org, s.Subscription.ID)
			return err
		},
		"discard": func(s *fixture) error {
			_, err := s.Webhooks.Update(t.Context(), s.org, s.Subscription.ID,
				webhooks.Patch{Status: to(webhooks.Active), Backlog: to(webhooks.Discard)})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t)
			s.pause(t)
			s.fill(t, count)
			s.Clock.Move(time.Millisecond)
			release := func() {}
			if !proof.Full() {
				release = s.lockBacklog(t) // the answer does not wait for a row of the backlog
			}
			watch := clock.StartWatch()
			require.NoError(t, end(s))
			took := watch.Elapsed()
			release()
			if proof.Full() {
				require.Less(t, took, time.Second)
			}
			s.Wake(t)
			require.Eventually(t, func() bool {
				require.NoError(t, s.Lanes.Sweep(t.Context()))
				return s.waitingRows(t) == 0
			}, proof.Sized(patience, 10*time.Minute), 100*time.Millisecond)
			cleared := watch.Elapsed()
			require.Eventually(t, func() bool {
				return s.count(t, `
SELECT count(*) FROM webhook_deliveries WHERE org_id = @org_id AND subscription_id = @id AND status IN ('pending', 'failed')`,
					postgres.Args{"id": s.Subscription.ID}) == 0
			}, proof.Sized(patience, 10*time.Minute), 100*time.Millisecond)
			t.Logf("%s of %d deliveries: answered after %s, rows of the lane gone after %s, deliveries after %s",
				name, count, took, cleared, watch.Elapsed())
			require.Empty(t, s.receiver.Events())
			if name == "discard" {
				s.barrier(t)
			}
		})
	}
}

// A new URL answers at once however many deliveries wait for their retry: it makes some of them due, and a job the others.
func TestBacklog_AMillionRetries_NewURLAnswersAtOnce(t *testing.T) {
	t.Parallel()
	count := proof.Sized(12_000, 1_000_000)
	s := newIdleFixture(t)
	s.fill(t, count)
	s.exec(t, `
UPDATE lane_rows
SET due_at = @now::timestamptz + interval '1 hour' + (@now::timestamptz - due_at)
WHERE lane_id = @id AND @org_id::uuid IS NOT NULL`, postgres.Args{"id": s.Subscription.ID, "now": s.Clock.Now()})
	retries := func() int { // those of an hour from now; a post that finds no turn waits for a second
		return s.count(t, `
SELECT count(*) FROM lane_rows WHERE lane_id = @id AND due_at > @now::timestamptz + interval '30 minutes' AND @org_id::uuid IS NOT NULL`,
			postgres.Args{"id": s.Subscription.ID, "now": s.Clock.Now()})
	}
	watch := clock.StartWatch()
	s.patch(t, webhooks.Patch{URL: to(s.receiver.URL + "/new")})
	took, left := watch.Elapsed(), retries()
	if proof.Full() {
		require.Less(t, took, time.Second)
	}
	require.Positive(t, left, "the answer does not wait for all of them")
	s.Work(t)
	require.Eventually(t, func() bool { return retries() == 0 }, proof.Sized(patience, 10*time.Minute), 10*time.Millisecond)
	t.Logf("%d retries: answered after %s with %d left, all due after %s", count, took, left, watch.Elapsed())
}

func TestBacklog_PausedSubscription_ExpiresAfterThirtyDays(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.pause(t)
	s.fill(t, 100)
	s.Clock.Move(29 * 24 * time.Hour)
	expired, err := s.Webhooks.ExpireWaiting(t.Context())
	require.NoError(t, err)
	require.Zero(t, expired)
	s.Clock.Move(24 * time.Hour)
	expired, err = s.Webhooks.ExpireWaiting(t.Context())
	require.NoError(t, err)
	require.Equal(t, 100, expired)
	require.Zero(t, s.waitingRows(t))
}
