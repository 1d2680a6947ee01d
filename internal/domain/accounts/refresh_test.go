package accounts_test

import (
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/network"
	"github.com/parley-chat/parley/schema"
)

const (
	business = "400000000000077"
	number   = "100000000000077"
)

// connect has the network's number connected for the organization.
func (b fixture) connect(t testing.TB, with map[string]any) accounts.Account {
	t.Helper()
	b.Network.Number(t, business, number, with)
	account, err := b.Accounts.Connect(t.Context(), b.org, audit.Operator(), draft())
	require.NoError(t, err)
	return account
}

func draft() accounts.Draft {
	return accounts.Draft{BusinessAccountID: business, PhoneNumberID: number, Token: network.Token()}
}

func TestService_Connect_Again_SameAccount(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	made := b.connect(t, map[string]any{
		"display_phone_number": "+351 21 000 0001", "verified_name": "Harbour Coffee", "quality_rating": "YELLOW", "messaging_limit": "TIER_2K",
	})
	require.Equal(t, accounts.Connected, made.Status)
	require.Equal(t, []string{"+351210000001", "Harbour Coffee", "CONNECTED", "YELLOW", "2000", "standard"}, []string{
		*made.PhoneNumber, *made.Name, *made.ProviderStatus, *made.Quality, *made.MessagingLimit, *made.Throughput,
	})
	subscribed, err := b.Network.Subscribed(ctx, provider.BusinessAccount{ID: business, Token: network.Token()})
	require.NoError(t, err)
	require.True(t, subscribed)
	opened, err := b.Accounts.Number(b.org, made)
	require.NoError(t, err)
	require.Equal(t, network.Token().Reveal(), opened.Token.Reveal())

	again, err := b.Accounts.Connect(ctx, b.org, audit.Operator(), draft())
	require.NoError(t, err)
	require.Equal(t, made.ID, again.ID, "with another token, it is the same account")
	require.NotEqual(t, made.Token, again.Token)
	stranger, _ := b.Org(t)
	_, err = b.Accounts.Connect(ctx, stranger, audit.Operator(), draft())
	require.Equal(t, fault.AlreadyExists, fault.Of(err))
	customer := b.Customer(t, b.org)
	of := draft()
	of.CustomerID = &customer.ID
	_, err = b.Accounts.Connect(ctx, b.org, audit.Operator(), of)
	require.Equal(t, fault.AlreadyExists, fault.Of(err), "nor does it change hands inside of the organization")

	entries, err := b.Audit.List(ctx, b.org, b.Clock.Now().Add(-time.Hour), 10)
	require.NoError(t, err)
	actions := map[string]int{}
	for _, entry := range entries {
		actions[entry.Action]++
		require.NotContains(t, string(entry.Detail), network.Token().Reveal())
	}
	require.Equal(t, 1, actions["account.connected"])
	require.Equal(t, 1, actions["account.reconnected"])
}

func TestService_Connect_Refusals(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	b.Network.Number(t, business, number, nil)
	for name, test := range map[string]struct {
		change func(*accounts.Draft)
		want   fault.Code
	}{
		"no number":        {func(d *accounts.Draft) { d.PhoneNumberID = "" }, fault.MissingRequiredField},
		"no account":       {func(d *accounts.Draft) { d.BusinessAccountID = "" }, fault.MissingRequiredField},
		"no token":         {func(d *accounts.Draft) { d.Token = provider.Token{} }, fault.MissingRequiredField},
		"unknown number":   {func(d *accounts.Draft) { d.PhoneNumberID = "100000000000078" }, fault.UpstreamError},
		"unknown account":  {func(d *accounts.Draft) { d.BusinessAccountID = "400000000000078" }, fault.UpstreamError},
		"a bad token":      {func(d *accounts.Draft) { d.Token = provider.NewToken("canary-bad-token") }, fault.UpstreamError},
		"unknown customer": {func(d *accounts.Draft) { d.CustomerID = new(b.Customer(t, b.stranger(t)).ID) }, fault.ResourceNotFound},
	} {
		given := draft()
		test.change(&given)
		_, err := b.Accounts.Connect(ctx, b.org, audit.Operator(), given)
		require.Equal(t, test.want, fault.Of(err), "%s: %v", name, err)
		require.NotContains(t, err.Error(), "canary")
	}
	b.Network.Twist(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	_, err := b.Accounts.Connect(ctx, b.org, audit.Operator(), draft())
	require.Equal(t, fault.ProviderUpstreamError, fault.Of(err))
	_, err = b.Accounts.Find(ctx, b.org, number)
	require.Equal(t, fault.ResourceNotFound, fault.Of(err))
}

func TestService_Refresh_StatusFollowsTheProvider(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	made := b.connect(t, nil)
	refresh := func() accounts.Account {
		b.Clock.Move(time.Minute)
		refreshed, err := b.Accounts.Refresh(ctx, b.org, made.ID)
		require.NoError(t, err)
		require.Equal(t, b.now(t, made).Resource(), refreshed.Resource())
		return refreshed
	}
	for _, test := range []struct {
		provider string
		status   accounts.Status
		reason   string
	}{
		{"FLAGGED", accounts.Degraded, "number_flagged"},
		{"RESTRICTED", accounts.Degraded, "number_restricted"},
		{"RATE_LIMITED", accounts.Degraded, "number_rate_limited"},
		{"PENDING", accounts.Degraded, "number_pending"},
		{"UNVERIFIED", accounts.Degraded, "number_unverified"},
		{"DISCONNECTED", accounts.Disconnected, "number_disconnected"},
		{"BANNED", accounts.Disconnected, "number_banned"},
		{"CONNECTED", accounts.Connected, ""},
	} {
		b.Network.Number(t, business, number, map[string]any{"status": test.provider, "verified_name": "Named " + test.provider})
		refreshed := refresh()
		require.Equal(t, []any{test.status, test.reason, test.provider, "Named " + test.provider},
			[]any{refreshed.Status, orNothing(refreshed.StatusReason), *refreshed.ProviderStatus, *refreshed.Name})
	}

	require.NoError(t, b.Network.Unsubscribe(ctx, provider.BusinessAccount{ID: business, Token: network.Token()}))
	require.Equal(t, accounts.Connected, refresh().Status, "it subscribes again")
	require.NoError(t, b.Network.Unsubscribe(ctx, provider.BusinessAccount{ID: business, Token: network.Token()}))
	b.Network.Twist(func(w http.ResponseWriter, r *http.Request, network http.Handler) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		network.ServeHTTP(w, r)
	})
	degraded := refresh()
	require.Equal(t, []any{accounts.Degraded, "not_subscribed"}, []any{degraded.Status, orNothing(degraded.StatusReason)})
	b.Network.Twist(nil)
	require.Equal(t, accounts.Connected, refresh().Status)

	b.Network.Twist(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(http.StatusBadGateway) })
	_, err := b.Accounts.Refresh(ctx, b.org, made.ID)
	require.Error(t, err, "it is asked again later")
	require.Equal(t, accounts.Connected, b.now(t, made).Status, "a provider that is away changes nothing")
	b.Network.Twist(nil)

	b.Network.Control(t, "tokens", map[string]any{"access_token": network.Token().Reveal(), "revoke": true})
	refused := refresh()
	require.Equal(t, []any{accounts.Disconnected, "token_invalid"}, []any{refused.Status, orNothing(refused.StatusReason)})
}

func TestService_FailedTx_StatusByError(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	account := b.Account(t, b.org)
	fail := func(failed *provider.Error) accounts.Account {
		_, err := postgres.InTx(ctx, b.DB, b.org, func(tx *postgres.Tx) (bool, error) {
			return true, b.Accounts.FailedTx(ctx, tx, account.ID, failed, b.Clock.Now())
		})
		require.NoError(t, err)
		return b.now(t, account)
	}
	require.Equal(t, accounts.Connected, fail(&provider.Error{Class: provider.Retryable}).Status)
	degraded := fail(&provider.Error{Effect: provider.EffectDegraded})
	require.Equal(t, []any{accounts.Degraded, "registration_required"}, []any{degraded.Status, orNothing(degraded.StatusReason)})
	lost := fail(&provider.Error{Effect: provider.EffectDisconnected, Code: provider.AuthExpired})
	require.Equal(t, []any{accounts.Disconnected, "token_invalid"}, []any{lost.Status, orNothing(lost.StatusReason)})
}

// TestService_FailedTx_OlderThanTheConnection_Ignored is told of failures from before the number was connected.
func TestService_FailedTx_OlderThanTheConnection_Ignored(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	b.Clock.Move(time.Hour)
	account := b.Account(t, b.org)
	for _, effect := range []provider.Effect{provider.EffectDegraded, provider.EffectDisconnected} {
		_, err := postgres.InTx(ctx, b.DB, b.org, func(tx *postgres.Tx) (bool, error) {
			return true, b.Accounts.FailedTx(ctx, tx, account.ID, &provider.Error{Effect: effect}, b.Clock.Now().Add(-time.Minute))
		})
		require.NoError(t, err)
		require.Equal(t, accounts.Connected, b.now(t, account).Status, effect)
		require.False(t, b.now(t, account).DueAt.After(b.Clock.Now()), "the provider is asked soon")
	}
}

// TestService_Register_RegistrationLost_Connected has a number that the provider wants registered again become
// connected by a registration, though the provider says all the time that it is.
func TestService_Register_RegistrationLost_Connected(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	made := b.connect(t, map[string]any{"pin": canary.PIN})
	_, err := postgres.InTx(ctx, b.DB, b.org, func(tx *postgres.Tx) (bool, error) {
		return true, b.Accounts.FailedTx(ctx, tx, made.ID, &provider.Error{Effect: provider.EffectDegraded}, b.Clock.Now())
	})
	require.NoError(t, err)
	refreshed, err := b.Accounts.Refresh(ctx, b.org, made.ID)
	require.NoError(t, err)
	require.Equal(t, accounts.Degraded, refreshed.Status)
	b.Clock.Move(time.Second)
	done, err := b.Accounts.Register(ctx, b.org, number, provider.NewPIN(canary.PIN))
	require.NoError(t, err)
	require.Nil(t, done.Refusal)
	require.Equal(t, accounts.Connected, done.Account.Status)
	require.Equal(t, 1, b.Network.Calls(http.MethodPost, "/register"))
}

// TestService_LookAfter_DueAccounts_OneJobEach has jobs ask about what is due, and about nothing else.
func TestService_LookAfter_DueAccounts_OneJobEach(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	made := b.connect(t, nil)
	look := func() int {
		begun, err := b.Accounts.LookAfter(ctx)
		require.NoError(t, err)
		return begun
	}
	require.Zero(t, look())
	b.Network.Number(t, business, number, map[string]any{"status": "FLAGGED"})
	b.Clock.Move(59 * time.Minute)
	require.Zero(t, look())
	b.Clock.Move(time.Minute)
	require.Equal(t, 1, look())
	require.Zero(t, look(), "once")
	b.Work(t)
	b.Wake(t)
	require.Eventually(t, func() bool { return b.now(t, made).Status == accounts.Degraded }, 3*time.Minute, 20*time.Millisecond)
	b.notify(t, b.org, b.said(t, business, "account_review_update", `{"decision":"APPROVED"}`, b.Clock.Now())...)
	require.Equal(t, 1, look(), "after a notification it is due at once")
}

func (b fixture) stranger(t testing.TB) orgs.ID {
	t.Helper()
	org, _ := b.Org(t)
	return org
}

// TestRegister_Concurrent_OnePINTried has many register one number at once: one PIN is tried.
func TestRegister_Concurrent_OnePINTried(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	b.connect(t, map[string]any{"status": "PENDING", "pin": canary.PIN})
	const callers = 4
	arrived, leave := make(chan struct{}, callers), make(chan struct{})
	b.Network.Twist(func(w http.ResponseWriter, r *http.Request, network http.Handler) {
		if strings.HasSuffix(r.URL.Path, "/register") {
			arrived <- struct{}{}
			<-leave
		}
		network.ServeHTTP(w, r)
	})
	codes := make(chan fault.Code, callers)
	for range callers {
		go func() {
			_, err := b.Accounts.Register(ctx, b.org, number, provider.NewPIN(canary.PIN))
			codes <- fault.Of(err)
		}()
	}
	<-arrived
	for range callers - 1 {
		require.Equal(t, fault.RegistrationInProgress, <-codes)
	}
	close(leave)
	require.Equal(t, fault.Code(""), <-codes)
	require.Equal(t, 1, b.Network.Calls(http.MethodPost, "/register"))
}

// A number that a process of an older version connected has no lanes: a refresh makes them, and so does
// the migration that brought them.
func TestService_Refresh_NumberWithoutLanes_GetsThem(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	made := b.connect(t, nil)
	lanes := func() []string {
		all, err := postgres.Many[string](ctx, b.DB.System("test"), `SELECT lane_id || ' ' || kind FROM lanes WHERE org_id = @org ORDER BY 1`,
			postgres.Args{"org": b.org})
		require.NoError(t, err)
		return all
	}
	whole := lanes()
	require.Len(t, whole, 2)
	migration, err := fs.ReadFile(schema.Migrations().Files, "0021_lanes_of_numbers.sql")
	require.NoError(t, err)
	for name, open := range map[string]func() error{
		"refresh": func() error { _, err := b.Accounts.Refresh(ctx, b.org, made.ID); return err },
		"migrate": func() error {
			_, err := postgres.Many[string](ctx, b.DB.System("test"), string(migration), nil)
			return err
		},
	} {
		_, err := postgres.Many[string](ctx, b.DB.System("test"), `DELETE FROM lanes WHERE org_id = @org`, postgres.Args{"org": b.org})
		require.NoError(t, err)
		require.Empty(t, lanes())
		for range 2 {
			require.NoError(t, open(), name)
			require.Equal(t, whole, lanes(), name)
		}
	}
}
