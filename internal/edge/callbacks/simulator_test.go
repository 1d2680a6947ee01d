package callbacks_test

import (
	"context"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/orgs"
	edge "github.com/parley-chat/parley/internal/edge/callbacks"
	"github.com/parley-chat/parley/internal/simulator"
)

// listen has the simulator push to the ingress over HTTP.
func (s *fixture) listen(t *testing.T) {
	t.Helper()
	server := httptest.NewServer(s.ingress)
	s.Network.Simulator.SetCallbackURL(server.URL + edge.Path)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = s.Network.Simulator.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		server.Close()
	})
}

// connected is a number of the simulator with callbacks.
func (s *fixture) connected(t *testing.T, org orgs.ID) accounts.Account {
	t.Helper()
	account := s.Account(t, org)
	s.Network.Number(t, account.BusinessAccountID, *account.PhoneNumberID, map[string]any{"display_phone_number": (*account.PhoneNumber)[1:]})
	return account
}

// TestApply_AccountNotifications_StatusFollows sends every notification that changes an account from
// the simulator through the ingress into the row.
func TestApply_AccountNotifications_StatusFollows(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.listen(t)
	s.Work(t)
	org, _ := s.Org(t)
	for _, test := range []struct {
		name, back string
		more       map[string]any
		status     accounts.Status
		reason     string
	}{
		{"PARTNER_REMOVED", "PARTNER_ADDED", nil, accounts.Disconnected, "partner_removed_account_disconnected"},
		{"PARTNER_APP_UNINSTALLED", "PARTNER_APP_INSTALLED", nil, accounts.Disconnected, "partner_app_uninstalled"},
		{"ACCOUNT_DELETED", "", nil, accounts.Disconnected, "account_deleted"},
		{"ACCOUNT_OFFBOARDED", "ACCOUNT_RECONNECTED", nil, accounts.Disconnected, "account_offboarded"},
		{"DISABLED_UPDATE", "", nil, accounts.Disconnected, "account_disabled"},
		{"ACCOUNT_RESTRICTION", "", nil, accounts.Connected, ""},
		{"ACCOUNT_VIOLATION", "", nil, accounts.Connected, ""},
	} {
		account, other := s.connected(t, org), s.connected(t, org)
		tell := func(event string) {
			s.Clock.Move(time.Second)
			s.Network.Control(t, "accounts", map[string]any{"id": account.BusinessAccountID, "subscribed": []any{simulator.DefaultAppID}})
			s.Network.Control(t, "account-update", map[string]any{"waba_id": account.BusinessAccountID, "event": event})
		}
		now := func(of accounts.Account) accounts.Account {
			found, err := s.Accounts.Get(t.Context(), org, of.ID)
			require.NoError(t, err)
			return found
		}
		tell(test.name)
		s.await(t, test.name+" is applied", func() bool { return now(account).UpdatedAt.After(account.UpdatedAt) })
		moved := now(account)
		require.Equal(t, test.status, moved.Status, test.name)
		if test.reason == "" {
			require.Nil(t, moved.StatusReason, test.name)
		} else {
			require.NotNil(t, moved.StatusReason, test.name)
			require.Equal(t, test.reason, *moved.StatusReason)
		}
		require.Equal(t, accounts.Connected, now(other).Status, "%s is another's", test.name)
		if test.back != "" {
			tell(test.back)
			s.await(t, test.back+" is applied", func() bool { return now(account).Status == accounts.Connected })
		}
	}
	require.Empty(t, s.quarantined(t))
}
