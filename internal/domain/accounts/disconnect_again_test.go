package accounts_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// TestDisconnect_AnotherMeanwhile_WaitsForItsResult holds the row of the number, so that one of two requests has announced the
// release and not made it.
func TestDisconnect_AnotherMeanwhile_WaitsForItsResult(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	account := b.connect(t, nil)
	held, free, errs := make(chan struct{}), make(chan struct{}), make(chan error, 3)
	go func() {
		_, err := postgres.InTx(ctx, b.DB, b.org, func(tx *postgres.Tx) (int64, error) {
			locked, err := tx.Exec(ctx, `SELECT id FROM accounts WHERE org_id = @org_id AND id = @id FOR UPDATE`, postgres.Args{"id": account.ID})
			close(held)
			<-free
			return locked, err
		})
		errs <- err
	}()
	<-held
	release := sync.OnceFunc(func() { close(free) })
	defer release()
	answers := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := b.Accounts.Disconnect(ctx, b.org, audit.Operator(), number, nil)
			answers <- err
		}()
	}
	require.Eventually(t, func() bool {
		waiting, err := postgres.One[int64](ctx, b.DB.System("test"),
			`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`, nil)
		require.NoError(t, err)
		return waiting == 2 || len(answers) > 0
	}, 3*time.Minute, 10*time.Millisecond)
	require.Empty(t, answers, "both wait for the row")
	release()
	require.NoError(t, <-errs)
	first, second := <-answers, <-answers
	if first != nil {
		first, second = second, first
	}
	require.NoError(t, first)
	require.Equal(t, fault.NotFound("account"), second)
}
