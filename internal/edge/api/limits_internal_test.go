package api

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
)

// fill lets n requests of a class into a gate, each of another organization.
func (g *gate) fill(t *testing.T, c class, n int) (leave func()) {
	t.Helper()
	var leaves []func()
	for i := range n {
		leave, full := g.enter(c, ids.NewOrg(time.UnixMilli(int64(i))))
		require.Empty(t, full)
		leaves = append(leaves, leave)
	}
	return func() {
		for _, leave := range leaves {
			leave()
		}
	}
}

func TestGate_Full_LessUrgentClassesFirst(t *testing.T) {
	t.Parallel()
	g, org := newGate(10), ids.NewOrg(time.UnixMilli(100))
	enter := func(c class) string {
		leave, full := g.enter(c, org)
		if leave != nil {
			leave()
		}
		return full
	}
	for _, step := range []struct {
		more int
		want [3]string
	}{{5, [...]string{"", "", ""}}, {1, [...]string{"", "", "list"}}, {2, [...]string{"", "single", "list"}}, {2, [...]string{"urgent", "single", "list"}}} {
		g.fill(t, urgent, step.more)
		require.Equal(t, step.want, [...]string{enter(urgent), enter(single), enter(lists)}, "%d inside", g.inFlight)
	}
}

func TestGate_OneOrganization_AtMostAQuarter(t *testing.T) {
	t.Parallel()
	g, one, other := newGate(16), ids.NewOrg(time.UnixMilli(1)), ids.NewOrg(time.UnixMilli(2))
	var leave func()
	for range 4 {
		var full string
		leave, full = g.enter(urgent, one)
		require.Empty(t, full)
	}
	_, full := g.enter(urgent, one)
	require.Equal(t, "organization", full)
	_, full = g.enter(lists, other)
	require.Empty(t, full, "the other organization may even list")
	leave()
	_, full = g.enter(urgent, one)
	require.Empty(t, full)
	require.Equal(t, map[orgs.ID]int{one: 4, other: 1}, g.byOrg)
}

// A request that was authenticated is served, however many arrive after it.
func TestOverload_ManyArrive_RequestsThatHaveBegunAreServed(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	arriving, identify := s.api.arriving[s.Name], s.api.identify
	leave := func() {}
	s.api.identify = func(c *call) error {
		defer func() { leave = arriving.fill(t, urgent, 10) }()
		return identify(c)
	}
	handler := func(c *call) (reply, error) { return c.answer(http.StatusOK, map[string]int{}), nil }
	require.Equal(t, http.StatusOK, s.post(t.Context(), handler, "k").Code)
	s.api.identify = identify
	refused := s.post(t.Context(), handler, "other")
	require.Equal(t, http.StatusServiceUnavailable, refused.Code, "arriving requests are refused before authentication")
	require.Equal(t, "1", refused.Header().Get("Retry-After"))
	leave()
	require.Equal(t, http.StatusOK, s.post(t.Context(), handler, "other").Code)
}
