package webhooks_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/receiver"
)

// Deliveries that the lane sets aside are dead, with a reason, and can be replayed. A
// delivery that has succeeded stays so.
func TestSetAside_DeliveriesBecomeDead(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	succeeded := s.await(t, s.customers(t, 1)[0], webhooks.Succeeded, 1)
	s.receiver.Answer(receiver.Always(receiver.Answer{Status: 500}))
	failed := s.await(t, s.customers(t, 1)[0], webhooks.Failed, 1)
	s.pause(t)
	pending := s.of(t, s.customers(t, 1)[0])
	untouched := s.of(t, s.customers(t, 1)[0])

	aside := []webhooks.DeliveryID{succeeded.ID, failed.ID, pending.ID}
	setAside := func(ctx context.Context, tx *postgres.Tx) error {
		return s.Webhooks.SetAsideTx(ctx, tx, aside, "panic: boom")
	}
	require.Error(t, s.inTx(t, func(ctx context.Context, tx *postgres.Tx) error {
		require.NoError(t, setAside(ctx, tx))
		return errAfter
	}))
	require.Empty(t, s.list(t, webhooks.Filter{Status: new(webhooks.Dead)}), "it is part of its transaction")
	require.NoError(t, s.inTx(t, setAside))

	dead := s.list(t, webhooks.Filter{Status: new(webhooks.Dead)})
	require.Len(t, dead, 2)
	for i, before := range []webhooks.Delivery{pending, failed} {
		require.Equal(t, before.ID, dead[i].ID)
		require.Equal(t, before.AttemptCount, dead[i].AttemptCount, "no attempt was made")
		require.Equal(t, before.LastAttemptAt, dead[i].LastAttemptAt)
		require.Nil(t, dead[i].NextAttemptAt)
		resource := dead[i].Resource()
		require.Equal(t, "internal", *resource.ErrorCode)
		require.NotContains(t, resource.ErrorMessage, "boom", "the reason is for the log")
		require.Contains(t, resource.ErrorMessage, "Replay")
	}
	detail, err := s.Webhooks.Delivery(t.Context(), s.org, succeeded.ID)
	require.NoError(t, err)
	require.Equal(t, webhooks.Succeeded, detail.Status)
	detail, err = s.Webhooks.Delivery(t.Context(), s.org, untouched.ID)
	require.NoError(t, err)
	require.Equal(t, webhooks.Pending, detail.Status)
	require.Equal(t, 2, s.replayDead(t, webhooks.ReplayDraft{}).Matched)
}
