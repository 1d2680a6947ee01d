package labels_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/patch"
	"github.com/parley-chat/parley/internal/testkit/factory"
)

type fixture struct {
	*factory.World
	org  orgs.ID
	team orgs.TeamID
}

func setup(t *testing.T) (context.Context, fixture) {
	t.Helper()
	world := factory.New(t)
	org, team := world.Org(t)
	return t.Context(), fixture{World: world, org: org, team: team}
}

func TestService_Create(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)

	label, err := b.Labels.Create(ctx, b.org, labels.Draft{Name: "VIP"})
	require.NoError(t, err)
	require.Equal(t, labels.Label{ID: label.ID, TeamID: b.team, Name: "VIP", Color: "gray", UpdatedAt: b.Clock.Now()}, label)
	require.Equal(t, b.Clock.Now(), label.ID.CreatedAt())

	found, err := b.Labels.Get(ctx, b.org, label.ID)
	require.NoError(t, err)
	require.Equal(t, label, found)
}

func TestService_Create_SeveralTeams_TeamRequired(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	second, err := b.Orgs.CreateTeam(ctx, b.org, audit.Operator(), "Second")
	require.NoError(t, err)

	_, err = b.Labels.Create(ctx, b.org, labels.Draft{Name: "VIP"})
	require.Equal(t, fault.MissingRequiredField, fault.Of(err))
	require.Equal(t, "team_id", fault.As(err).Param)

	label, err := b.Labels.Create(ctx, b.org, labels.Draft{Name: "VIP", TeamID: &second.ID})
	require.NoError(t, err)
	require.Equal(t, second.ID, label.TeamID)

	_, foreign := b.Org(t)
	_, err = b.Labels.Create(ctx, b.org, labels.Draft{Name: "VIP", TeamID: &foreign})
	require.Equal(t, fault.ResourceNotFound, fault.Of(err), "a team of another organization does not exist")
}

func TestService_Create_NameInOtherCase_AlreadyExists(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	label, err := b.Labels.Create(ctx, b.org, labels.Draft{Name: "Straße"})
	require.NoError(t, err)

	_, err = b.Labels.Create(ctx, b.org, labels.Draft{Name: "STRASSE"})
	require.Equal(t, fault.AlreadyExists, fault.Of(err))
	require.ErrorContains(t, err, label.ID.String())

	other := b.Label(t, b.org)
	_, err = b.Labels.Update(ctx, b.org, other.ID, labels.Patch{Name: patch.To("strasse")})
	require.Equal(t, fault.AlreadyExists, fault.Of(err))

	_, err = b.Labels.Update(ctx, b.org, label.ID, labels.Patch{Name: patch.To("STRASSE")})
	require.NoError(t, err, "a label may change the case of its own name")

	org, _ := b.Org(t)
	_, err = b.Labels.Create(ctx, org, labels.Draft{Name: "Straße"})
	require.NoError(t, err, "another organization has names of its own")
}

func TestService_Update_NothingChanged_Unchanged(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	label := b.Label(t, b.org)
	b.Clock.Move(time.Minute)

	same, err := b.Labels.Update(ctx, b.org, label.ID, labels.Patch{Name: patch.To(label.Name), Color: patch.To("gray")})
	require.NoError(t, err)
	require.Equal(t, label, same)

	changed, err := b.Labels.Update(ctx, b.org, label.ID, labels.Patch{Color: patch.To("red")})
	require.NoError(t, err)
	require.Equal(t, "red", changed.Color)
	require.Equal(t, b.Clock.Now(), changed.UpdatedAt)

	_, err = b.Labels.Update(ctx, b.org, label.ID, labels.Patch{Name: patch.To(" \t ")})
	require.Equal(t, fault.Invalid("name", "must contain something visible"), err)
}

func TestService_Delete(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	label := b.Label(t, b.org)
	stranger, _ := b.Org(t)

	_, err := b.Labels.Delete(ctx, stranger, label.ID)
	require.Equal(t, fault.NotFound("label"), err)
	_, err = b.Labels.Delete(ctx, b.org, label.ID)
	require.NoError(t, err)
	_, err = b.Labels.Get(ctx, b.org, label.ID)
	require.Equal(t, fault.NotFound("label"), err)
	_, err = b.Labels.Delete(ctx, b.org, label.ID)
	require.Equal(t, fault.NotFound("label"), err)
}

func TestService_List(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	var made []labels.Label
	for range 5 {
		made = append([]labels.Label{b.Label(t, b.org)}, made...) // minted in one millisecond, newest first
	}
	stranger, _ := b.Org(t)
	b.Label(t, stranger)

	var seen []labels.Label
	slice := paging.Slice[labels.ID]{Limit: 2}
	for {
		page, err := b.Labels.List(ctx, b.org, slice)
		require.NoError(t, err)
		seen = append(seen, page.Items...)
		if page.Next == nil {
			break
		}
		slice.After = page.Next
	}
	require.Equal(t, made, seen)
}
