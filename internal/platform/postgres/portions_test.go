package postgres_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

const (
	sqlManyLabels = `
INSERT INTO labels (org_id, id, team_id, name, name_key, color, updated_at)
SELECT @org_id, gen_random_uuid(), @team, n, n, CASE WHEN n % 2 = 0 THEN 'gray' ELSE 'red' END, now()
FROM generate_series(1, @count::int) AS n`

	sqlDropLabels = `
DELETE FROM labels
WHERE org_id = @org_id
  AND id IN (SELECT id FROM labels WHERE org_id = @org_id AND color = @color LIMIT @limit)
RETURNING id`

	sqlWalkLabels = `
DELETE FROM labels
WHERE org_id = @org_id
  AND id IN (SELECT id FROM labels WHERE org_id = @org_id AND color = @color AND id > @after ORDER BY id LIMIT @limit)
RETURNING id`
)

// counter counts the DELETE statements, and can run a function before one of them.
type counter struct {
	deletes int
	before  map[int]func()
}

func (c *counter) look(sql string) {
	if strings.HasPrefix(strings.TrimSpace(sql), "DELETE") {
		c.deletes++
		if act := c.before[c.deletes]; act != nil {
			act()
		}
	}
}

func TestDeleteInPortions_ManyRows_AllDeleted(t *testing.T) {
	t.Parallel()
	seen := &counter{}
	w := factory.On(t, pgtest.Connect(t, pgtest.URL(t), pgtest.Each(seen.look)))
	org, team := w.Org(t)
	other, otherTeam := w.Org(t)
	const most = 2*postgres.Portion + 3
	fill := func(org orgs.ID, team orgs.TeamID) {
		_, err := postgres.InTx(t.Context(), w.DB, org, func(tx *postgres.Tx) (int64, error) {
			return tx.Exec(t.Context(), sqlManyLabels, postgres.Args{"team": team, "count": 2 * most})
		})
		require.NoError(t, err)
	}
	left := func(org orgs.ID, color string) int {
		count, err := postgres.One[int](t.Context(), w.DB.Of(org),
			`SELECT count(*) FROM labels WHERE org_id = @org_id AND color = @color`, postgres.Args{"color": color})
		require.NoError(t, err)
		return count
	}
	fill(org, team)
	fill(other, otherTeam)
	red := postgres.Args{"color": "red"}

	ctx, cancel := context.WithCancel(t.Context())
	seen.before = map[int]func(){2: cancel}
	require.ErrorIs(t, postgres.DeleteInPortions(ctx, w.DB, org, sqlDropLabels, red), context.Canceled)
	require.Equal(t, most-postgres.Portion, left(org, "red"), "a portion stays deleted when the next one fails")

	seen.deletes = 0
	require.NoError(t, postgres.DeleteInPortions(t.Context(), w.DB, org, sqlDropLabels, red))
	require.Equal(t, []int{0, most, most}, []int{left(org, "red"), left(org, "gray"), left(other, "red")})
	require.Equal(t, 3, seen.deletes, "500, 3 and nothing")

	seen.deletes = 0
	require.NoError(t, postgres.DeleteInPortions(t.Context(), w.DB, other, sqlWalkLabels, red))
	require.Equal(t, []int{0, most}, []int{left(other, "red"), left(other, "gray")})
	require.Equal(t, 4, seen.deletes, "500, 500, 3 and nothing")
	require.Len(t, red, 1, "the caller's arguments stay as they are")
}
