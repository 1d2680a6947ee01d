package directory_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/proof"
)

// directoryFixture is a directory without cells. The test passes the commits itself.
type directoryFixture struct {
	*directory.Directory

	db    *postgres.DB
	clock *clock.Manual
}

func newDirectory(t *testing.T, cells ...string) *directoryFixture {
	t.Helper()
	a := &directoryFixture{db: connect(t, pgtest.URL(t), 8), clock: clock.NewManual(pgtest.Start())}
	a.Directory = directory.New(a.db, a.clock)
	require.NoError(t, a.EnsureCells(t.Context(), cells))
	return a
}

func fine(context.Context) error { return nil }

func taken(context.Context, int64) error { return nil }

// org places an organization in a cell.
func (a *directoryFixture) org(t *testing.T, cell string) ids.Org {
	t.Helper()
	org := ids.NewOrg(a.clock.Now())
	require.NoError(t, a.Branch(cell).Place(t.Context(), org, fine))
	return org
}

// state returns the state of a number's route, or "" without a route.
func (a *directoryFixture) state(t *testing.T, number string) string {
	t.Helper()
	states, err := postgres.Many[string](t.Context(), a.db.System("test"), `
		SELECT state FROM directory.routes WHERE kind = 'phone_number' AND key = @key`, postgres.Args{"key": []byte(number)})
	require.NoError(t, err)
	if len(states) == 0 {
		return ""
	}
	return states[0]
}

func (a *directoryFixture) exec(t *testing.T, sql string) {
	t.Helper()
	_, err := a.db.Pool().Exec(t.Context(), sql)
	require.NoError(t, err)
}

func TestFind_Missing_IsNotCached(t *testing.T) {
	t.Parallel()
	a, key := newDirectory(t, amber), []byte("key")
	org := a.org(t, amber)
	_, err := a.Find(t.Context(), directory.APIKey, key)
	require.ErrorIs(t, err, directory.ErrUnknown)
	require.NoError(t, a.Claim(t.Context(), directory.APIKey, key, org, taken))
	want := directory.Route{OrgID: org, Generation: 1, Cell: amber, Epoch: directory.FirstEpoch}
	route, err := a.Find(t.Context(), directory.APIKey, key)
	require.NoError(t, err)
	require.Equal(t, want, route, "that it was missing is not remembered")

	a.exec(t, `DELETE FROM directory.routes`)
	route, err = a.Find(t.Context(), directory.APIKey, key)
	require.NoError(t, err)
	require.Equal(t, want, route, "that it was there is remembered")
	_, err = a.Find(t.Context(), directory.SetupToken, key)
	require.ErrorIs(t, err, directory.ErrUnknown, "another kind is another route")
	_, err = a.Reread(t.Context(), directory.APIKey, key)
	require.ErrorIs(t, err, directory.ErrUnknown)
	_, err = a.Find(t.Context(), directory.APIKey, key)
	require.ErrorIs(t, err, directory.ErrUnknown, "Reread removes the route from the cache")
}

func TestFind_UnconfirmedClaim_IsFound(t *testing.T) {
	t.Parallel()
	a, number := newDirectory(t, amber), []byte("number")
	org := a.org(t, amber)
	other := directory.New(a.db, a.clock)
	require.NoError(t, a.Claim(t.Context(), directory.PhoneNumber, number, org, func(ctx context.Context, generation int64) error {
		require.Equal(t, int64(1), generation)
		require.Equal(t, "claimed", a.state(t, "number"))
		route, err := other.Find(ctx, directory.PhoneNumber, number)
		require.NoError(t, err)
		require.Equal(t, directory.Route{OrgID: org, Generation: 1, Cell: amber, Epoch: 1}, route)
		return nil
	}))
	require.Equal(t, "confirmed", a.state(t, "number"))
}

func TestRelease_BeforeTheCellCommits_LeadsToTheOwner(t *testing.T) {
	t.Parallel()
	a, number := newDirectory(t, amber), []byte("number")
	org := a.org(t, amber)
	require.NoError(t, a.Claim(t.Context(), directory.PhoneNumber, number, org, taken))
	require.NoError(t, a.Release(t.Context(), directory.PhoneNumber, number, org, 1, func(ctx context.Context) error {
		require.Equal(t, "releasing", a.state(t, "number"))
		route, err := a.Reread(ctx, directory.PhoneNumber, number)
		require.NoError(t, err)
		require.Equal(t, org, route.OrgID)
		return nil
	}))
	require.Equal(t, "released", a.state(t, "number"))
	_, err := a.Find(t.Context(), directory.PhoneNumber, number)
	require.ErrorIs(t, err, directory.ErrUnknown, "the process that released it does not cache it")
	_, err = directory.New(a.db, a.clock).Find(t.Context(), directory.PhoneNumber, number)
	require.ErrorIs(t, err, directory.ErrUnknown)
	err = a.Release(t.Context(), directory.PhoneNumber, number, org, 1, fine)
	require.ErrorIs(t, err, directory.ErrChanged, "it can be released once")

	next := a.org(t, amber)
	require.NoError(t, a.Claim(t.Context(), directory.PhoneNumber, number, next, taken))
	route, err := a.Find(t.Context(), directory.PhoneNumber, number)
	require.NoError(t, err)
	require.Equal(t, directory.Route{OrgID: next, Generation: 2, Cell: amber, Epoch: 1}, route)
	for _, wrong := range []struct {
		org        ids.Org
		generation int64
	}{{org, 1}, {org, 2}, {next, 1}} {
		err = a.Release(t.Context(), directory.PhoneNumber, number, wrong.org, wrong.generation, fine)
		require.ErrorIs(t, err, directory.ErrChanged, "only the owner can release")
	}
}

func TestClaim_TakenRoute_Refused(t *testing.T) {
	t.Parallel()
	a, number := newDirectory(t, amber), []byte("number")
	first, second := a.org(t, amber), a.org(t, amber)
	never := func(context.Context, int64) error {
		t.Error("the commit ran without a claim")
		return nil
	}
	require.NoError(t, a.Claim(t.Context(), directory.PhoneNumber, number, first, func(ctx context.Context, _ int64) error {
		require.ErrorIs(t, a.Claim(ctx, directory.PhoneNumber, number, second, never), directory.ErrTaken)
		return nil
	}))
	for _, org := range []ids.Org{first, second} {
		require.ErrorIs(t, a.Claim(t.Context(), directory.PhoneNumber, number, org, never), directory.ErrTaken)
	}
	require.NoError(t, a.Release(t.Context(), directory.PhoneNumber, number, first, 1, func(ctx context.Context) error {
		require.ErrorIs(t, a.Claim(ctx, directory.PhoneNumber, number, second, never), directory.ErrTaken)
		return nil
	}))
}

func TestClaimAndRelease_CommitFails_StateByOutcome(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		failure                            error
		claiming, claimingFree, releasing  string
		claimingHeld, backHeld, backNoMore string
	}{
		"a refusal is undone at once":          {fault.New(fault.LimitReached, "no"), "released", "released", "confirmed", "released", "confirmed", "confirmed"},
		"an unknown outcome waits":             {errors.New("outcome unknown"), "claimed", "released", "releasing", "confirmed", "confirmed", "released"},
		"a broken commit waits":                {fault.OutcomeUnknown(errors.Join(postgres.ErrUnanswered, errors.New("broken"))), "claimed", "released", "releasing", "confirmed", "confirmed", "released"},
		"a deadline waits":                     {context.DeadlineExceeded, "claimed", "released", "releasing", "confirmed", "confirmed", "released"},
		"what could not be tried is undone":    {fault.Unavailable(0, errors.New("busy")), "released", "released", "confirmed", "released", "confirmed", "confirmed"},
		"a wrapped refusal is undone as it is": {fmt.Errorf("because: %w", fault.NotFound("plan")), "released", "released", "confirmed", "released", "confirmed", "confirmed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newDirectory(t, amber)
			org := a.org(t, amber)
			for _, number := range []string{"free", "held"} {
				err := a.Claim(t.Context(), directory.PhoneNumber, []byte(number), org, func(context.Context, int64) error { return test.failure })
				require.ErrorIs(t, err, test.failure)
				require.Equal(t, test.claiming, a.state(t, number))
			}
			for _, number := range []string{"back held", "back free"} {
				require.NoError(t, a.Claim(t.Context(), directory.PhoneNumber, []byte(number), org, taken))
				err := a.Release(t.Context(), directory.PhoneNumber, []byte(number), org, 1, func(context.Context) error { return test.failure })
				require.ErrorIs(t, err, test.failure)
				require.Equal(t, test.releasing, a.state(t, number))
			}
			a.clock.Move(6 * time.Minute)
			_, err := a.Resolve(t.Context(), func(_ context.Context, step directory.Unresolved) (bool, error) {
				return string(step.Key) == "held" || string(step.Key) == "back held", nil
			})
			require.NoError(t, err)
			require.Equal(t, test.claimingFree, a.state(t, "free"))
			require.Equal(t, test.claimingHeld, a.state(t, "held"))
			require.Equal(t, test.backHeld, a.state(t, "back held"))
			require.Equal(t, test.backNoMore, a.state(t, "back free"))
		})
	}
}

func TestClaim_Concurrent_OneWinner(t *testing.T) {
	t.Parallel()
	a := newDirectory(t, amber)
	for round := range proof.Sized(20, 100) {
		number := fmt.Appendf(nil, "number %d", round)
		var group sync.WaitGroup
		outcomes, winners := make([]error, 50), make([]ids.Org, 50)
		start := make(chan struct{})
		for i := range outcomes {
			winners[i] = ids.NewOrg(a.clock.Now())
			group.Go(func() {
				<-start
				outcomes[i] = a.Claim(t.Context(), directory.PhoneNumber, number, winners[i], taken)
			})
		}
		close(start)
		group.Wait()
		var won []ids.Org
		for i, err := range outcomes {
			if err == nil {
				won = append(won, winners[i])
				continue
			}
			require.ErrorIs(t, err, directory.ErrTaken)
		}
		require.Len(t, won, 1)
		owner, err := postgres.One[ids.Org](t.Context(), a.db.System("test"), `
			SELECT org_id FROM directory.routes WHERE key = @key AND state = 'confirmed' AND generation = 1`, postgres.Args{"key": number})
		require.NoError(t, err)
		require.Equal(t, won[0], owner)
	}
}
