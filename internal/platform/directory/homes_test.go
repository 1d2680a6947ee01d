package directory_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/ids"
)

func TestChoose_EmptiestAcceptingCell(t *testing.T) {
	t.Parallel()
	a := newDirectory(t, "cedar", birch, amber)
	chosen := func() string {
		cell, err := a.Choose(t.Context())
		require.NoError(t, err)
		return cell
	}
	for range 2 {
		for _, next := range []string{amber, birch, "cedar"} {
			require.Equal(t, next, chosen(), "the fewest organizations, then the name")
			a.org(t, next)
		}
	}
	a.exec(t, `UPDATE directory.cells SET accepts_organizations = false WHERE name = 'amber'`)
	require.Equal(t, birch, chosen())
	a.org(t, birch)
	require.Equal(t, "cedar", chosen())
	a.exec(t, `UPDATE directory.cells SET accepts_organizations = false`)
	_, err := a.Choose(t.Context())
	require.ErrorIs(t, err, directory.ErrNoCell)
	require.NoError(t, a.EnsureCells(t.Context(), []string{amber, birch, "cedar", "damson"}))
	require.Equal(t, "damson", chosen(), "a cell that was closed stays closed")
	cells, err := a.Cells(t.Context())
	require.NoError(t, err)
	require.Equal(t, []directory.CellCount{
		{Name: "damson", AcceptsOrganizations: true},
		{Name: amber, Organizations: 2},
		{Name: "cedar", Organizations: 2},
		{Name: birch, Organizations: 3},
	}, cells)
}

func TestPlace_ClaimedThenConfirmed_OneHome(t *testing.T) {
	t.Parallel()
	a := newDirectory(t, amber, birch)
	org := ids.NewOrg(a.clock.Now())
	require.NoError(t, a.Branch(birch).Place(t.Context(), org, func(ctx context.Context) error {
		home, err := a.HomeOf(ctx, org)
		require.NoError(t, err)
		require.Equal(t, directory.Home{Cell: birch, Epoch: directory.FirstEpoch}, home, "a home counts before it is confirmed")
		return nil
	}))
	never := func(context.Context) error {
		t.Error("the commit ran without a claim")
		return nil
	}
	require.Error(t, a.Branch(amber).Place(t.Context(), org, never), "an organization has one home")
	home, err := a.HomeOf(t.Context(), org)
	require.NoError(t, err)
	require.Equal(t, birch, home.Cell)
	require.Error(t, a.Branch("nowhere").Place(t.Context(), ids.NewOrg(a.clock.Now()), never), "in a cell that exists")

	refused := ids.NewOrg(a.clock.Now())
	no := fault.New(fault.LimitReached, "no")
	require.ErrorIs(t, a.Branch(amber).Place(t.Context(), refused, func(context.Context) error { return no }), no)
	_, err = a.HomeOf(t.Context(), refused)
	require.ErrorIs(t, err, directory.ErrUnknown, "a refusal is undone at once")
}

func TestResolve_Homes_ConfirmedOrDeleted(t *testing.T) {
	t.Parallel()
	a := newDirectory(t, amber)
	unknown := errors.New("outcome unknown")
	there, gone := ids.NewOrg(a.clock.Now()), ids.NewOrg(a.clock.Now())
	for _, org := range []ids.Org{there, gone} {
		require.ErrorIs(t, a.Branch(amber).Place(t.Context(), org, func(context.Context) error { return unknown }), unknown)
		_, err := a.HomeOf(t.Context(), org)
		require.NoError(t, err)
	}
	holds := func(_ context.Context, step directory.Unresolved) (bool, error) {
		require.Empty(t, step.Kind)
		return step.OrgID == there, nil
	}
	for _, want := range []int{0, 2, 0} {
		resolved, err := a.Resolve(t.Context(), holds)
		require.NoError(t, err)
		require.Equal(t, want, resolved)
		a.clock.Move(5*time.Minute + time.Millisecond)
	}
	_, err := a.HomeOf(t.Context(), there)
	require.NoError(t, err)
	_, err = a.HomeOf(t.Context(), gone)
	require.ErrorIs(t, err, directory.ErrUnknown)
}

func TestResolve_CellDownOrNotServed_RouteStaysClaimed(t *testing.T) {
	t.Parallel()
	a := newDirectory(t, amber)
	org := a.org(t, amber)
	unknown := errors.New("outcome unknown")
	for _, number := range []string{"elsewhere", "down", "orphan", "held"} {
		err := a.Claim(t.Context(), directory.PhoneNumber, []byte(number), org, func(context.Context, int64) error { return unknown })
		require.ErrorIs(t, err, unknown)
	}
	a.clock.Move(6 * time.Minute)
	down := errors.New("the cell is down")
	resolved, err := a.Resolve(t.Context(), func(_ context.Context, step directory.Unresolved) (bool, error) {
		return true, map[string]error{"elsewhere": directory.ErrNotServed, "down": down, "orphan": directory.ErrUnknown}[string(step.Key)]
	})
	require.ErrorIs(t, err, down)
	require.NotErrorIs(t, err, directory.ErrNotServed)
	require.Equal(t, 2, resolved)
	for number, state := range map[string]string{"elsewhere": "claimed", "down": "claimed", "orphan": "released", "held": "confirmed"} {
		require.Equal(t, state, a.state(t, number), number)
	}
}

func TestMoveHome_EpochGrows_OldEpochRefused(t *testing.T) {
	t.Parallel()
	a, key := newDirectory(t, amber, birch), []byte("key")
	org := a.org(t, amber)
	require.NoError(t, a.Claim(t.Context(), directory.APIKey, key, org, taken))
	other := directory.New(a.db, a.clock)
	_, err := other.Find(t.Context(), directory.APIKey, key)
	require.NoError(t, err)
	for _, wrong := range []directory.Home{{Cell: amber, Epoch: 2}, {Cell: amber}, {Cell: birch, Epoch: 1}} {
		_, err := a.MoveHome(t.Context(), org, wrong, birch)
		require.ErrorIs(t, err, directory.ErrChanged)
	}
	home, err := a.MoveHome(t.Context(), org, directory.Home{Cell: amber, Epoch: 1}, birch)
	require.NoError(t, err)
	require.Equal(t, directory.Home{Cell: birch, Epoch: 2}, home)
	_, err = a.MoveHome(t.Context(), org, directory.Home{Cell: amber, Epoch: 1}, birch)
	require.ErrorIs(t, err, directory.ErrChanged, "it moved once")

	route, err := a.Find(t.Context(), directory.APIKey, key)
	require.NoError(t, err)
	require.Equal(t, home, route.Home(), "the process that moved it caches the new home")
	route, err = other.Find(t.Context(), directory.APIKey, key)
	require.NoError(t, err)
	require.Equal(t, directory.Home{Cell: amber, Epoch: 1}, route.Home(), "other processes cache the old home, whose epoch the cell refuses")
	_, err = other.HomeOf(t.Context(), org)
	require.NoError(t, err)
	route, err = other.Find(t.Context(), directory.APIKey, key)
	require.NoError(t, err)
	require.Equal(t, home, route.Home(), "until they read again")
}

func TestOrgsOfBusinessAccount_ListedWhileTheyHaveANumber(t *testing.T) {
	t.Parallel()
	a := newDirectory(t, amber)
	none, err := a.OrgsOfBusinessAccount(t.Context(), "104996122399160")
	require.NoError(t, err)
	require.Empty(t, none)
	first, second := a.org(t, amber), a.org(t, amber)
	claim := func(number, account string, org ids.Org) int64 {
		var taken int64
		require.NoError(t, a.ClaimNumber(t.Context(), number, account, org, func(_ context.Context, generation int64) error {
			taken = generation
			return nil
		}))
		return taken
	}
	claim("100000000000001", "104996122399160", second)
	gone := claim("100000000000002", "104996122399160", first)
	kept := claim("100000000000003", "104996122399160", first)
	claim("100000000000004", "215589313241560", second)
	both, err := a.OrgsOfBusinessAccount(t.Context(), "104996122399160")
	require.NoError(t, err)
	require.Equal(t, []ids.Org{first, second}, both)

	release := func(number string, generation int64) {
		require.NoError(t, a.Release(t.Context(), directory.PhoneNumber, []byte(number), first, generation, func(context.Context) error {
			return nil
		}))
	}
	release("100000000000002", gone)
	both, err = a.OrgsOfBusinessAccount(t.Context(), "104996122399160")
	require.NoError(t, err)
	require.Equal(t, []ids.Org{first, second}, both, "it has another number")
	release("100000000000003", kept)
	one, err := a.OrgsOfBusinessAccount(t.Context(), "104996122399160")
	require.NoError(t, err)
	require.Equal(t, []ids.Org{second}, one)
}
