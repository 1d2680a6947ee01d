package api

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/ids"
)

func TestPlaces_OrganizationAtItsLimit_OthersEnter(t *testing.T) {
	t.Parallel()
	p := newPlaces(2, 1, time.Minute)
	one, other := ids.NewOrg(time.UnixMilli(1)), ids.NewOrg(time.UnixMilli(2))
	leave, entered := p.enter(t.Context(), one)
	require.True(t, entered)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, entered = p.enter(gone, one)
	require.False(t, entered, "its place is taken")
	leaveOther, entered := p.enter(t.Context(), other)
	require.True(t, entered)
	leave()
	leave, entered = p.enter(t.Context(), one)
	require.True(t, entered, "the place is free again")
	leave()
	leaveOther()
	require.Empty(t, p.byOrg, "nothing is kept of organizations without requests")
}

func TestPlaces_AllTaken_OrganizationsPlaceIsReturned(t *testing.T) {
	t.Parallel()
	p := newPlaces(1, 2, time.Minute)
	one, other := ids.NewOrg(time.UnixMilli(1)), ids.NewOrg(time.UnixMilli(2))
	leave, entered := p.enter(t.Context(), one)
	require.True(t, entered)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, entered = p.enter(gone, other)
	require.False(t, entered)
	leave()
	leave, entered = p.enter(t.Context(), other)
	require.True(t, entered)
	leave()
	require.Empty(t, p.byOrg)
}
