package orgs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/testkit/factory"
)

func TestService_Create_HasATeam(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	org, team, err := w.Orgs.Create(t.Context(), audit.Operator(), orgs.Draft{Name: "Harbour Coffee", Plan: "starter"})
	require.NoError(t, err)
	teams, err := w.Orgs.Teams(t.Context(), org.OrgID)
	require.NoError(t, err)
	require.Equal(t, []orgs.Team{{ID: team.ID, Name: "Harbour Coffee"}}, teams)

	for draft, want := range map[orgs.Draft]fault.Code{
		{Name: " ", Plan: "starter"}:                   fault.MissingRequiredField,
		{Name: "x", Plan: "golden"}:                    fault.InvalidFieldValue,
		{Name: "a\nb", Plan: "starter"}:                fault.InvalidFieldValue,
		{Name: "x", Plan: "starter", TeamName: "a\tb"}: fault.InvalidFieldValue,
	} {
		_, _, err := w.Orgs.Create(t.Context(), audit.Operator(), draft)
		require.Equal(t, want, fault.Of(err))
	}
	cells, err := w.Directory.Cells(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, cells[0].Organizations, "what was refused left no route")
}

func TestService_Set(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	org, _ := w.Org(t)
	set := func(change orgs.Change) (orgs.Organization, error) {
		return w.Orgs.Set(t.Context(), org, audit.Operator(), change)
	}
	_, err := set(orgs.Change{Subscription: new(orgs.Trialing)})
	require.Equal(t, fault.Missing("trial_ends_at"), err)
	_, err = set(orgs.Change{Subscription: new(orgs.Subscription("gone"))})
	require.Equal(t, fault.InvalidFieldValue, fault.Of(err))
	_, err = set(orgs.Change{Plan: new("golden")})
	require.Equal(t, fault.InvalidFieldValue, fault.Of(err))

	ends := w.Clock.Now().Add(time.Hour)
	words := []string{"stop", "halt"}
	changed, err := set(orgs.Change{
		Plan: new("growth"), Subscription: new(orgs.Trialing), TrialEndsAt: &ends, RequireOptIn: new(true), StopKeywords: &words,
	})
	require.NoError(t, err)
	stored, err := w.Orgs.Get(t.Context(), org)
	require.NoError(t, err)
	require.Equal(t, changed, stored)
	require.Equal(t, words, stored.StopKeywords)
}

func TestStanding_TrialEnded_WritesRefused(t *testing.T) {
	t.Parallel()
	ends := time.Date(2026, 3, 14, 0, 0, 0, 0, time.UTC)
	trial := orgs.Standing{SubscriptionStatus: orgs.Trialing, TrialEndsAt: &ends}
	require.NoError(t, trial.RefusesWrites(ends.Add(-time.Millisecond)))
	require.Equal(t, fault.SubscriptionInactive, fault.Of(trial.RefusesWrites(ends)))
	require.NoError(t, orgs.Standing{SubscriptionStatus: orgs.Active}.RefusesWrites(ends))
	require.Equal(t, fault.SubscriptionInactive, fault.Of(orgs.Standing{SubscriptionStatus: orgs.Inactive}.RefusesWrites(ends)))
}

func TestService_CreateUser(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	org, team := w.Org(t)
	user, err := w.Orgs.CreateUser(t.Context(), org, audit.Operator(), nil, "Ines", "Ines@example.com")
	require.NoError(t, err)
	_, err = w.Orgs.CreateUser(t.Context(), org, audit.Operator(), nil, "", "ines@EXAMPLE.com")
	require.Equal(t, fault.AlreadyExists, fault.Of(err))
	_, err = w.Orgs.CreateUser(t.Context(), org, audit.Operator(), nil, "a\nb", "other@example.com")
	require.Equal(t, fault.InvalidFieldValue, fault.Of(err))
	_, err = w.Orgs.CreateTeam(t.Context(), org, audit.Operator(), "a\x1bb")
	require.Equal(t, fault.InvalidFieldValue, fault.Of(err))
	stranger, foreign := w.Org(t)
	_, err = w.Orgs.CreateUser(t.Context(), org, audit.Operator(), &foreign, "", "other@example.com")
	require.Equal(t, fault.ResourceNotFound, fault.Of(err))
	_, err = w.Orgs.CreateUser(t.Context(), stranger, audit.Operator(), nil, "", "ines@example.com")
	require.NoError(t, err, "another organization has people of its own")

	view, err := w.Orgs.Overview(t.Context(), org)
	require.NoError(t, err)
	require.Equal(t, clock.Stamp(time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)), view.Resource().Quota.ResetsAt)
	require.Equal(t, []orgs.TeamResource{{
		ID: team, Name: view.Teams[0].Name, Members: []orgs.UserResource{{ID: user.ID, Name: user.Name, Email: user.Email}},
	}}, view.TeamResources())
}
