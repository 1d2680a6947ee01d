package paging_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

type thing struct {
	ID     int
	Parity int
}

type walkedThing struct {
	thing
	paging.Mark
}

const sqlThings = `
SELECT id, id % @divisor AS parity
FROM generate_series(1, @count::int) AS id
WHERE id < @after`

// TestReadWalk_AllPages_EachMatchOnce walks lists of all sizes with all limits,
// whether or not a page is cut short by the bound on the rows that are read.
func TestReadWalk_AllPages_EachMatchOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	sql := paging.Walk{Rows: sqlThings, Order: `id DESC`, Filter: `CASE WHEN parity = 0 THEN true END`}.SQL()
	rapid.Check(t, func(r *rapid.T) {
		count, divisor := rapid.IntRange(0, 40).Draw(r, "count"), rapid.IntRange(1, 6).Draw(r, "divisor")
		slice := paging.Slice[int]{Limit: rapid.IntRange(1, 12).Draw(r, "limit"), After: new(1_000)}
		read := rapid.IntRange(1, 50).Draw(r, "read")
		want, found := []int{}, []int{}
		for id := count; id > 0; id-- {
			if id%divisor == 0 {
				want = append(want, id)
			}
		}
		for calls := 0; slice.After != nil; calls++ {
			require.LessOrEqual(r, calls, count+1, "the walk does not end")
			args := postgres.Args{"count": count, "divisor": divisor, "read": read}
			page, err := paging.ReadWalk(t.Context(), db.System("test"), sql, args, slice,
				func(w walkedThing) thing { return w.thing }, func(one thing) int { return one.ID })
			require.NoError(r, err)
			require.LessOrEqual(r, len(page.Items), min(slice.Limit, read))
			for _, one := range page.Items {
				found = append(found, one.ID)
			}
			slice.After = page.Next
		}
		require.Equal(r, want, found)
	})
}

func TestReadWalk_MatchBeyondTheBound_OnALaterPage(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	sql := paging.Walk{Rows: sqlThings, Order: `id DESC`, Filter: `id = 1`}.SQL()
	slice := paging.Slice[int]{Limit: 25, After: new(100_000)}
	next := func() paging.Page[thing, int] {
		page, err := paging.ReadWalk(t.Context(), db.System("test"), sql, postgres.Args{"count": 2 * paging.MaxRead, "divisor": 2}, slice,
			func(w walkedThing) thing { return w.thing }, func(one thing) int { return one.ID })
		require.NoError(t, err)
		slice.After = page.Next
		return page
	}
	first := next()
	require.Empty(t, first.Items)
	require.Equal(t, paging.MaxRead+1, *first.Next, "a short page says where the list goes on")
	second := next()
	require.Len(t, second.Items, 1)
	require.Equal(t, 1, *second.Next, "as many rows were read as may be")
	require.Nil(t, next().Next)
}

type rowKind struct{}

type idRow struct {
	ID     ids.Plain[rowKind]
	Number int
}

func TestRead_FirstPage_StartsAtTheGreatestID(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	const sql = `
SELECT id, number
FROM (VALUES ('00000000-0000-0000-0000-000000000001'::uuid, 1), ('ffffffff-ffff-ffff-ffff-fffffffffffe', 2)) AS r (id, number)
WHERE id < @after
ORDER BY id DESC
LIMIT @limit`
	slice, seen := paging.Slice[ids.Plain[rowKind]]{Limit: 1}, []int{}
	for {
		page, err := paging.Read(t.Context(), db.System("test"), sql, nil, slice, func(r idRow) ids.Plain[rowKind] { return r.ID })
		require.NoError(t, err)
		seen = append(seen, page.Items[0].Number)
		if slice.After = page.Next; page.Next == nil {
			break
		}
	}
	require.Equal(t, []int{2, 1}, seen)
}
