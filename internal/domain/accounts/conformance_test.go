package accounts_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/testkit/network"
)

// The provider has not said anything of the number yet. docs/conformance.md lists the rule that this test proves.
func TestConformance_NeverFetched_NoProviderStatus(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	made, err := b.Accounts.Attach(ctx, b.org, audit.Operator(), accounts.Draft{
		BusinessAccountID: business, PhoneNumberID: number, Token: network.Token(),
	}, provider.NumberState{}, b.Clock.Now())
	require.NoError(t, err)
	printed, err := json.Marshal(b.now(t, made).Resource())
	require.NoError(t, err)
	var shown map[string]any
	require.NoError(t, json.Unmarshal(printed, &shown))
	for _, field := range []string{"provider_status", "phone_number", "name", "customer_id"} {
		require.Contains(t, shown, field)
		require.Nil(t, shown[field], field)
	}
	require.Equal(t, number, shown["phone_number_id"])
}

// An organization with several teams. docs/conformance.md lists the rule that this test proves.
func TestConformance_DirectNumber_TeamChosenAtConnect(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	second, err := b.Orgs.CreateTeam(ctx, b.org, audit.Operator(), "Second")
	require.NoError(t, err)
	b.Network.Number(t, business, number, nil)
	_, err = b.Accounts.Connect(ctx, b.org, audit.Operator(), draft())
	require.Equal(t, "team_id", fault.As(err).Param)
	given := draft()
	given.TeamID = &second.ID
	made, err := b.Accounts.Connect(ctx, b.org, audit.Operator(), given)
	require.NoError(t, err)
	require.Equal(t, second.ID, made.TeamID)
}
