package identity_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/parley-chat/parley/internal/domain/contacts/identity"
	"github.com/parley-chat/parley/internal/testkit/histories"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

// TestResolver_SightingsInAnyOrder_OnePersonIsOneContact applies the sightings of generated
// histories.
func TestResolver_SightingsInAnyOrder_OnePersonIsOneContact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		h := histories.Of(0).Draw(r, "history")
		resolver := identity.NewResolver(pgtest.Start())
		found := make([]*identity.Person, len(h.Sightings))
		for i, s := range h.Sightings {
			found[i] = resolver.Apply(s.Sighting)
			r.Logf("%s", s)
		}
		contacts := make([]histories.Found, len(found))
		for i, p := range found {
			contacts[i] = histories.Found{ID: p.Last().ID, Identity: p.Last().Identity}
		}
		histories.RequireOneEach(r, h, contacts)
		require.NoError(r, resolver.Check())
	})
}

// TestResolver_StoredBetweenSightings_DecidesTheSame stores and loads everything after each
// sighting, as a process does that resolves one sighting at a time.
func TestResolver_StoredBetweenSightings_DecidesTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		h := histories.Of(0).Draw(r, "history")
		stored, keys, into := map[identity.ID]identity.Identity{}, map[string]identity.Key{}, map[identity.ID]identity.ID{}
		found := make([]identity.ID, len(h.Sightings))
		for i, s := range h.Sightings {
			resolver := identity.NewResolver(pgtest.Start())
			for id, one := range stored {
				resolver.Load(id, one)
			}
			rows := []identity.Key{}
			for _, row := range keys {
				rows = append(rows, row)
			}
			resolver.LoadKeys(rows)
			found[i] = resolver.Apply(s.Sighting).Last().ID
			changed, _ := resolver.ChangedKeys()
			for _, row := range changed {
				keys[row.Key] = row
			}
			for _, p := range resolver.People {
				if p.Into != nil {
					into[p.ID] = p.Last().ID
					delete(stored, p.ID)
				} else {
					stored[p.ID] = p.Identity
				}
			}
			require.NoError(r, resolver.Check())
		}
		contacts := make([]histories.Found, len(found))
		for i, id := range found {
			for next, merged := into[id]; merged; next, merged = into[id] {
				id = next
			}
			contacts[i] = histories.Found{ID: id, Identity: stored[id]}
		}
		histories.RequireOneEach(r, h, contacts)
	})
}

func TestBare_Username_AtSignRemoved(t *testing.T) {
	t.Parallel()
	require.Equal(t, "ana", identity.Bare("@ana"))
	require.Equal(t, "ana", identity.Bare("ana"))
}
