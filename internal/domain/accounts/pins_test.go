package accounts_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/testkit/canary"
)

// TestRegister_NumberConnectedAgain_KeepsItsCountOfPINs disconnects a number after five wrong PINs, lets its purge run and
// connects it again.
func TestRegister_NumberConnectedAgain_KeepsItsCountOfPINs(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	b.Work(t)
	pending := map[string]any{"status": "PENDING", "pin": canary.PIN}
	account := b.connect(t, pending)
	for range 5 {
		tried, err := b.Accounts.Register(ctx, b.org, number, provider.NewPIN(canary.WrongPIN))
		require.NoError(t, err)
		require.NotNil(t, tried.Refusal)
	}
	for range 2 {
		_, err := b.Accounts.Disconnect(ctx, b.org, audit.Operator(), number, nil)
		require.NoError(t, err)
		purged := b.Network.Calls(http.MethodDelete, "/subscribed_apps")
		b.Pass(t, time.Minute)
		require.Eventually(t, func() bool {
			b.Wake(t)
			return b.Network.Calls(http.MethodDelete, "/subscribed_apps") > purged
		}, 3*time.Minute, 20*time.Millisecond, "the purge has not come to its end")

		b.connect(t, pending)
		_, err = b.Accounts.Register(ctx, b.org, number, provider.NewPIN(canary.PIN))
		require.Equal(t, fault.RegistrationFailed, fault.Of(err), "%v", err)
		require.Greater(t, fault.As(err).RetryAfter, 55*time.Minute)
		require.Equal(t, 5, b.Network.Calls(http.MethodPost, "/register"), "the sixth PIN was not tried")
	}
	b.Pass(t, time.Hour)
	b.gone(t, account)
	done, err := b.Accounts.Register(ctx, b.org, number, provider.NewPIN(canary.PIN))
	require.NoError(t, err)
	require.Nil(t, done.Refusal)
}
