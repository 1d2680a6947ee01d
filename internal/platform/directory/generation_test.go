package directory_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/proof"
)

const numbers = 4

// handOvers is how often each number changes hands.
func handOvers() int { return proof.Sized(60, 250) }

// TestGeneration_NumberChangesHands_CallbacksReachTheirOwner moves numbers between organizations
// of two cells while callbacks arrive. Each callback must be stored for the organization that
// owns the number at that time.
func TestGeneration_NumberChangesHands_CallbacksReachTheirOwner(t *testing.T) {
	t.Parallel()
	g := &handOverFixture{fixture: newFixture(t), ended: map[string]time.Time{}}
	// Each inserter has a cache of its own, as other processes would. The first shares the cache
	// of the process that moves the number.
	g.inserters = []*directory.Directory{g.routes, directory.New(g.db, g.clock), directory.New(g.db, g.clock)}
	var group errgroup.Group
	for i := range numbers {
		owners := []owner{{cell: amber}, {cell: birch}}
		for i := range owners {
			owners[i].org, _ = g.cells[owners[i].cell].Org(t)
		}
		group.Go(func() error { return g.number(t.Context(), fmt.Appendf(nil, "number %d", i), owners) })
	}
	require.NoError(t, group.Wait())
	t.Logf("%d hand-overs; callbacks stored %d, of them after a second look %d; parked %d",
		numbers*handOvers(), g.stored.Load(), g.reread.Load(), g.parked.Load())
	require.NotZero(t, g.reread.Load(), "no old route was followed: nothing was tested")
	require.NotZero(t, g.parked.Load(), "no callback came while the number had no owner")
	g.landedRight(t)
}

type owner struct {
	cell string
	org  ids.Org
}

type handOverFixture struct {
	*fixture

	inserters []*directory.Directory

	mu sync.Mutex
	// ended is when a generation of a number was over in its cell.
	ended map[string]time.Time

	stored, reread, parked atomic.Int64
}

// number moves a number between its owners again and again while callbacks for it arrive.
func (g *handOverFixture) number(ctx context.Context, number []byte, owners []owner) error {
	generation, err := claim(ctx, g.routes, g.cells[owners[0].cell].DB, directory.PhoneNumber, number, owners[0].org)
	if err != nil {
		return err
	}
	for round := range handOvers() {
		from, to := owners[round%2], owners[(round+1)%2]
		var group errgroup.Group
		group.Go(func() (err error) {
			generation, err = g.handOver(ctx, number, from, to, generation)
			return err
		})
		for _, routes := range g.inserters {
			group.Go(func() error {
				for range 3 {
					jitter()
					if _, err := g.deliver(ctx, routes, number); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		for _, routes := range g.inserters {
			landed, err := g.deliver(ctx, routes, number)
			if err != nil {
				return err
			}
			if landed.OrgID != to.org || landed.Generation != generation {
				return fmt.Errorf("after the hand-over to %s in generation %d a callback went to %+v", to.org, generation, landed)
			}
		}
	}
	return nil
}

func jitter() { time.Sleep(rand.N(4 * time.Millisecond)) }

func (g *handOverFixture) handOver(ctx context.Context, number []byte, from, to owner, generation int64) (int64, error) {
	jitter()
	err := g.routes.Release(ctx, directory.PhoneNumber, number, from.org, generation, func(ctx context.Context) error {
		jitter()
		err := write(ctx, g.cells[from.cell].DB, from.org, things[directory.PhoneNumber].release, number, generation)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.ended[fmt.Sprintf("%s %d", number, generation)] = time.Now()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("release: %w", err)
	}
	if rand.N(2) == 0 {
		jitter()
	}
	return claim(ctx, g.routes, g.cells[to.cell].DB, directory.PhoneNumber, number, to.org)
}

// FOR SHARE makes the release of the number wait for the callback's transaction. Without it the
// callback could become visible after the next owner has the number.
const sqlCallback = `
INSERT INTO test_callbacks (org_id, number, generation, id)
SELECT @org_id, number, generation, @id
FROM test_accounts
WHERE number = @number
  AND generation = @generation
  AND active
FOR SHARE`

// deliver stores a callback in the cell of the number's owner. It follows a cached route at most
// once. A callback of a number without owner is parked, and its route is zero.
func (g *handOverFixture) deliver(ctx context.Context, routes *directory.Directory, number []byte) (directory.Route, error) {
	route, err := routes.Find(ctx, directory.PhoneNumber, number)
	for try := 0; err == nil && try < 2; try++ {
		if try > 0 {
			if route, err = routes.Reread(ctx, directory.PhoneNumber, number); err != nil {
				break
			}
		}
		inserted, err := g.insert(ctx, number, route)
		if err != nil {
			return route, err
		}
		if inserted > 0 {
			g.stored.Add(1)
			g.reread.Add(int64(try))
			return route, nil
		}
	}
	if err == nil || errors.Is(err, directory.ErrUnknown) {
		g.parked.Add(1)
		return directory.Route{}, nil
	}
	return route, err
}

func (g *handOverFixture) insert(ctx context.Context, number []byte, route directory.Route) (int64, error) {
	return postgres.InTx(ctx, g.cells[route.Cell].DB, route.OrgID, func(tx *postgres.Tx) (int64, error) {
		inserted, err := tx.Exec(ctx, sqlCallback, postgres.Args{
			"number": number, "generation": route.Generation, "id": rand.Int64(),
		})
		if err != nil || inserted == 0 {
			return inserted, err
		}
		if rand.N(4) == 0 {
			jitter() // other statements of the same transaction
		}
		tx.BeforeCommit(func(context.Context) error {
			committing := time.Now()
			g.mu.Lock()
			defer g.mu.Unlock()
			if over, is := g.ended[fmt.Sprintf("%s %d", number, route.Generation)]; is && over.Before(committing) {
				return fmt.Errorf("a callback of generation %d is stored %s after its end", route.Generation, committing.Sub(over))
			}
			return nil
		})
		return inserted, nil
	})
}

// landedRight checks that every callback is stored for the owner of its number in its generation.
func (g *handOverFixture) landedRight(t *testing.T) {
	t.Helper()
	var rows int64
	for name, cell := range g.cells {
		stray, err := postgres.Many[string](t.Context(), cell.DB.System("test"), `
			SELECT c.number::text || ' ' || c.generation
			FROM test_callbacks c
			LEFT JOIN test_accounts a ON a.number = c.number AND a.generation = c.generation AND a.org_id = c.org_id
			WHERE a.org_id IS NULL`, nil)
		require.NoError(t, err)
		require.Empty(t, stray, "in cell %s", name)
		here, err := postgres.One[int64](t.Context(), cell.DB.System("test"), `SELECT count(*) FROM test_callbacks`, nil)
		require.NoError(t, err)
		rows += here
	}
	require.Equal(t, g.stored.Load(), rows, "a stored callback is there, once")
	g.agrees(t)
}
