package webhooks_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// A move leaves the jobs in the old cell. The deliveries that one of them was to end are ended in the new cell.
func TestForget_OrganizationMoved_GoesOn(t *testing.T) {
	t.Parallel()
	const count = 700 // more than a portion
	for name, one := range map[string]struct {
		end  func(t *testing.T, s *fixture)
		dead int
	}{
		"delete": {func(t *testing.T, s *fixture) {
			t.Helper()
			_, err := s.Webhooks.Delete(t.Context(), s.org, s.Subscription.ID)
			require.NoError(t, err)
		}, 0},
		"discard": {func(t *testing.T, s *fixture) {
			t.Helper()
			s.patch(t, webhooks.Patch{Status: to(webhooks.Active), Backlog: to(webhooks.Discard)})
		}, count},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newIdleFixture(t)
			s.pause(t)
			s.fill(t, count)
			s.Clock.Move(time.Millisecond)
			one.end(t, s)
			s.moveAway(t)
			s.Work(t)
			require.Eventually(t, func() bool {
				return s.count(t, `SELECT count(*) FROM webhook_deliveries WHERE org_id = @org_id AND status IN ('pending', 'failed')`, nil) == 0
			}, patience, tick, "deliveries still wait")
			s.awaitCount(t, webhooks.Dead, one.dead)
			require.Eventually(t, func() bool {
				return s.count(t, `SELECT count(*) FROM webhook_forgets WHERE org_id = @org_id`, nil) == 0
			}, patience, tick, "it is over")
		})
	}
}

// Most deliveries of a subscription were received long ago. Each portion reads some of them, and the next goes on after it.
func TestForget_MostDeliveriesReceived_OnlyTheOthersEnd(t *testing.T) {
	t.Parallel()
	const received, waiting = 12_000, 100 // several portions that end nothing
	s := newIdleFixture(t)
	s.fill(t, received)
	s.exec(t, `UPDATE webhook_deliveries SET status = 'succeeded' WHERE org_id = @org_id AND subscription_id = @id`,
		postgres.Args{"id": s.Subscription.ID})
	s.pause(t)
	s.Clock.Move(2 * time.Hour)
	s.fill(t, waiting)
	s.Clock.Move(time.Millisecond)
	s.patch(t, webhooks.Patch{Status: to(webhooks.Active), Backlog: to(webhooks.Discard)})
	s.Work(t)
	s.awaitCount(t, webhooks.Dead, waiting)
	s.awaitCount(t, webhooks.Succeeded, received)
}

// moveAway does with the organization what a move does: its jobs are gone, and its lanes are made again.
func (s *fixture) moveAway(t *testing.T) {
	t.Helper()
	_, err := postgres.InSystemTx(t.Context(), s.DB, "test", func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(t.Context(), `DELETE FROM `+jobs.Table, nil)
	})
	require.NoError(t, err)
	s.RebuildLanes(t, s.org)
}
