package messages_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// TestResend_CallbackAppliedMeanwhile_NoSecondCopy lets a begin wait for the lock of a message whose
// callback is being applied, at the end of the echo wait.
func TestResend_CallbackAppliedMeanwhile_NoSecondCopy(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	made := s.unproved(t)
	require.NoError(t, s.inTx(t, func(ctx context.Context, tx *postgres.Tx) error {
		_, err := tx.Exec(ctx, `
UPDATE message_states SET status = 'sent', begun_at = NULL, provider_id = 'wamid.echo', sent_at = @now WHERE org_id = @org_id AND id = @id`,
			postgres.Args{"id": made.ID, "now": s.Clock.Now()})
		s.Pass(t, echoWait)
		s.await(t, "the begin waits for the lock", func() bool {
			return s.count(t, `
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`, nil) > 0
		})
		return err
	}))
	s.awaitStatus(t, made, messages.Sent)
	require.Len(t, s.net.calls("+351910000001"), 1)
}
