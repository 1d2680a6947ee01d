package accounts_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/factory"
)

// fixture is a cell with one organization.
type fixture struct {
	*factory.World

	org  orgs.ID
	team orgs.TeamID
}

func setup(t *testing.T) (context.Context, fixture) {
	t.Helper()
	b := fixture{World: factory.New(t)}
	b.org, b.team = b.Org(t)
	return t.Context(), b
}

func TestService_Attach_NewNumber_Connected(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	made := b.Account(t, b.org)
	require.Equal(t, accounts.Connected, made.Status)
	require.Nil(t, made.StatusReason)
	require.Equal(t, b.team, made.TeamID)
	found, err := b.Accounts.Find(ctx, b.org, *made.PhoneNumberID)
	require.NoError(t, err)
	require.Equal(t, made.Resource(), found.Resource())
	require.Equal(t, made.ConnectedAt, found.ConnectedAt)
	require.Equal(t, accounts.Embedded{PhoneNumber: made.PhoneNumber, PhoneNumberID: made.PhoneNumberID}, found.Embedded())
	require.NotContains(t, string(found.Token), canary.Token, "sealed")

	customer := b.Customer(t, b.org)
	theirs := b.AccountOf(t, b.org, &customer.ID)
	found, err = b.Accounts.Find(ctx, b.org, *theirs.PhoneNumberID)
	require.NoError(t, err)
	require.Equal(t, &accounts.Customer{ID: customer.ID, Name: customer.Name}, found.Embedded().Customer)
	require.Equal(t, customers.Pending, *found.CustomerStatus)
	require.Equal(t, customer.TeamID, found.TeamID)
}

func TestService_Attach_NumberOfAnotherOrganization_Refused(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	made := b.Account(t, b.org)
	stranger, _ := b.Org(t)
	draft := accounts.Draft{BusinessAccountID: made.BusinessAccountID, PhoneNumberID: *made.PhoneNumberID, Token: provider.NewToken("t")}
	_, err := b.Accounts.Attach(ctx, stranger, audit.Operator(), draft, provider.NumberState{}, b.Clock.Now())
	require.Equal(t, fault.AlreadyExists, fault.Of(err))
	_, err = b.Accounts.Find(ctx, stranger, *made.PhoneNumberID)
	require.Equal(t, fault.NotFound("account"), err)
	route, err := b.Directory.Reread(ctx, directory.PhoneNumber, []byte(*made.PhoneNumberID))
	require.NoError(t, err)
	require.Equal(t, b.org, route.OrgID)
	require.Equal(t, made.Generation, route.Generation)

	draft.PhoneNumberID = "999999999999999"
	draft.CustomerID = new(b.Customer(t, b.org).ID)
	_, err = b.Accounts.Attach(ctx, stranger, audit.Operator(), draft, provider.NumberState{}, b.Clock.Now())
	require.Equal(t, fault.NotFound("customer").At("customer_id"), err)
	_, err = b.Directory.Reread(ctx, directory.PhoneNumber, []byte(draft.PhoneNumberID))
	require.ErrorIs(t, err, directory.ErrUnknown, "the number of a refused attach is free")
}
