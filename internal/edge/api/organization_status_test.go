package api_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/testkit/apitest"
)

func TestOrganizationStatus_Refusals(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	ctx := t.Context()
	set := func(t *testing.T, client *apitest.Client, change orgs.Change) {
		t.Helper()
		_, err := s.Orgs.Set(ctx, client.Org, audit.Operator(), change)
		require.NoError(t, err)
	}
	inactive := refusal{402, "permission_error", "subscription_inactive", ""}

	t.Run("inactive subscription closes writes and leaves reads open", func(t *testing.T) {
		t.Parallel()
		client := s.Client(t)
		set(t, client, orgs.Change{Subscription: new(orgs.Inactive)})
		requireRefusal(t, inactive, client.Post(t, "/labels", `{"name":"VIP"}`))
		requireRefusal(t, inactive, client.Do(t, "DELETE", "/labels/lbl_x", nil))
		require.Equal(t, 200, client.Get(t, "/labels").Status)
		require.Equal(t, 200, client.Get(t, "/me").Status)
	})
	t.Run("a trial closes writes at the instant it ends", func(t *testing.T) {
		t.Parallel()
		own := apitest.New(t)
		client := own.Client(t)
		ends := own.Clock.Now().Add(time.Minute)
		_, err := own.Orgs.Set(ctx, client.Org, audit.Operator(), orgs.Change{Subscription: new(orgs.Trialing), TrialEndsAt: &ends})
		require.NoError(t, err)
		own.Clock.Move(time.Minute - time.Millisecond)
		require.Equal(t, 201, client.Post(t, "/labels", `{"name":"VIP"}`).Status)
		own.Clock.Move(time.Millisecond)
		requireRefusal(t, inactive, client.Post(t, "/labels", `{"name":"late"}`))
	})
	t.Run("suspension closes everything at once", func(t *testing.T) {
		t.Parallel()
		client := s.Client(t)
		_, err := s.Orgs.Suspend(ctx, client.Org, audit.Operator())
		require.NoError(t, err)
		suspended := refusal{403, "permission_error", "organization_suspended", ""}
		requireRefusal(t, suspended, client.Get(t, "/me"))
		requireRefusal(t, suspended, client.Post(t, "/labels", `{"name":"VIP"}`))
		requireRefusal(t, suspended, client.Get(t, "/nowhere"))
		_, err = s.Orgs.Resume(ctx, client.Org, audit.Operator())
		require.NoError(t, err)
		require.Equal(t, 200, client.Get(t, "/me").Status)
	})
	t.Run("a plan without API access", func(t *testing.T) {
		t.Parallel()
		client := s.Client(t)
		set(t, client, orgs.Change{Plan: new("free")})
		requireRefusal(t, refusal{403, "permission_error", "feature_not_available", ""}, client.Get(t, "/me"))
	})
}

func TestRateLimit_BucketSharedByKeys(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client, neighbour := s.Client(t), s.Client(t)
	_, err := s.Orgs.Set(t.Context(), client.Org, audit.Operator(), orgs.Change{Plan: new("starter")}) // 20 a second, burst 40
	require.NoError(t, err)
	_, second := s.Key(t, client.Org)

	for i := range 40 {
		caller := client
		if i%2 == 1 {
			caller = client.WithKey(second) // keys of one organization share its bucket
		}
		answer := caller.Get(t, "/me")
		require.Equal(t, 200, answer.Status)
		require.Equal(t, []string{"40"}, answer.Header["Ratelimit-Limit"])
		require.NotEmpty(t, answer.Header.Get("RateLimit-Remaining"))
		require.NotEmpty(t, answer.Header.Get("RateLimit-Reset"))
	}
	answer := client.Get(t, "/me")
	requireRefusal(t, refusal{429, "rate_limit_error", "rate_limit_exceeded", ""}, answer)
	require.Equal(t, "1", answer.Header.Get("Retry-After"))
	require.Equal(t, "0", answer.Header.Get("RateLimit-Remaining"))
	require.Equal(t, 200, neighbour.Get(t, "/me").Status)
	s.Clock.Move(time.Second)
	require.Equal(t, 200, client.Get(t, "/me").Status)
}
