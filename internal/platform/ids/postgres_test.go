package ids_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

// rowOf is an id that was read from a uuid column, and its text.
type rowOf[T any] struct {
	ID   T
	Text string
	None *T
}

func TestIDs_InPostgres_AreUUIDs(t *testing.T) {
	t.Parallel()
	whole := pgtest.Open(t).System("a test of ids")
	const sql = `SELECT @id::uuid AS id, @id::uuid::text AS text, NULL::uuid AS none`
	for range 100 {
		public := ids.New[zebra](start.Add(time.Duration(rand.Int64N(1e15))).Truncate(time.Millisecond))
		stored, err := postgres.One[rowOf[zebraID]](t.Context(), whole, sql, postgres.Args{"id": public})
		require.NoError(t, err)
		require.Equal(t, public, stored.ID)
		require.Nil(t, stored.None)
		again, err := postgres.One[zebraID](t.Context(), whole, `SELECT @text::text::uuid`, postgres.Args{"text": stored.Text})
		require.NoError(t, err)
		require.Equal(t, public, again, "the text of the uuid is the same id")

		plain := ids.NewPlain[zebra](start)
		team, err := postgres.One[rowOf[teamID]](t.Context(), whole, sql, postgres.Args{"id": plain})
		require.NoError(t, err)
		require.Equal(t, plain, team.ID)
		require.Equal(t, plain.String(), team.Text, "PostgreSQL prints a plain id as we do")
	}
}

// A list that is ordered by id is therefore ordered by creation.
func TestIDs_SortedByPostgres_InTheOrderOfCreation(t *testing.T) {
	t.Parallel()
	whole := pgtest.Open(t).System("a test of ids")
	const count = 2_000
	var minted []zebraID
	for i := range count {
		minted = append(minted, ids.New[zebra](start.Add(time.Duration(i/100)*time.Millisecond)))
	}
	shuffled := slices.Clone(minted)
	rand.Shuffle(count, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	sorted, err := postgres.Many[zebraID](t.Context(), whole, `SELECT id FROM unnest(@ids::uuid[]) id ORDER BY id`, postgres.Args{"ids": shuffled})
	require.NoError(t, err)
	require.Equal(t, minted, sorted)

	middle := start.Add(10 * time.Millisecond)
	later, err := postgres.Many[zebraID](t.Context(), whole, `SELECT id FROM unnest(@ids::uuid[]) id WHERE id >= @from AND id < @to ORDER BY id`,
		postgres.Args{"ids": shuffled, "from": ids.Floor[zebra](middle), "to": ids.Ceiling[zebra]()})
	require.NoError(t, err)
	require.Equal(t, minted[1_000:], later, "the floor of a time is between the ids before and after it")
	require.True(t, slices.IsSortedFunc(sorted, func(a, b zebraID) int { return strings.Compare(a.String(), b.String()) }), "the texts sort the same")
}
