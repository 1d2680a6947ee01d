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
)

// alone is a directory without cells behind it: the commits are the test's own.
type alone struct {
	*directory.Directory

	db    *postgres.DB
	clock *clock.Manual
}

func newAlone(t *testing.T, cells ...string) *alone {
	t.Helper()
	a := &alone{db: connect(t, pgtest.URL(t), 8), clock: clock.NewManual(pgtest.Start())}
	a.Directory = directory.New(a.db, a.clock)
	require.NoError(t, a.EnsureCells(t.Context(), cells))
	return a
}

func fine(context.Context) error { return nil }

func taken(context.Context, int64) error { return nil }

// org places an organization that nobody asks about.
func (a *alone) org(t *testing.T, cell string) ids.Org {
	t.Helper()
	org := ids.NewOrg(a.clock.Now())
	require.NoError(t, a.Branch(cell).Place(t.Context(), org, fine))
	return org
}

// state is that of the route of a number, or "".
func (a *alone) state(t *testing.T, number string) string {
	t.Helper()
	states, err := postgres.Many[string](t.Context(), a.db.System("test"), `
		SELECT state FROM directory.routes WHERE kind = 'phone_number' AND key = @key`, postgres.Args{"key": []byte(number)})
	require.NoError(t, err)
	if len(states) == 0 {
		return ""
	}
	return states[0]
}

func (a *alone) exec(t *testing.T, sql string) {
	t.Helper()
	_, err := a.db.Pool().Exec(t.Context(), sql)
	require.NoError(t, err)
}

func TestFind_RemembersOnlyWhatItFound(t *testing.T) {
	t.Parallel()
	a, key := newAlone(t, amber), []byte("key")
	org := a.org(t, amber)
	_, err := a.Find(t.Context(), directory.APIKey, key)
	require.ErrorIs(t, err, directory.ErrUnknown)
	require.NoError(t, a.Take(t.Context(), directory.APIKey, key, org, taken))
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
	require.ErrorIs(t, err, directory.ErrUnknown, "a second look forgets")
}

func TestFind_KnowsAClaimBeforeItIsConfirmed(t *testing.T) {
	t.Parallel()
	a, number := newAlone(t, amber), []byte("number")
	org := a.org(t, amber)
	other := directory.New(a.db, a.clock)
	require.NoError(t, a.Take(t.Context(), directory.PhoneNumber, number, org, func(ctx context.Context, generation int64) error {
		require.Equal(t, int64(1), generation)
		require.Equal(t, "claimed", a.state(t, "number"))
		route, err := other.Find(ctx, directory.PhoneNumber, number)
		require.NoError(t, err)
		require.Equal(t, directory.Route{OrgID: org, Generation: 1, Cell: amber, Epoch: 1}, route)
		return nil
	}))
	require.Equal(t, "confirmed", a.state(t, "number"))
}

func TestGiveBack_LeadsToTheOwnerUntilTheCellHasCommitted(t *testing.T) {
	t.Parallel()
	a, number := newAlone(t, amber), []byte("number")
	org := a.org(t, amber)
	require.NoError(t, a.Take(t.Context(), directory.PhoneNumber, number, org, taken))
	require.NoError(t, a.GiveBack(t.Context(), directory.PhoneNumber, number, org, 1, func(ctx context.Context) error {
		require.Equal(t, "releasing", a.state(t, "number"))
		route, err := a.Reread(ctx, directory.PhoneNumber, number)
		require.NoError(t, err)
		require.Equal(t, org, route.OrgID)
		return nil
	}))
	require.Equal(t, "released", a.state(t, "number"))
	_, err := a.Find(t.Context(), directory.PhoneNumber, number)
	require.ErrorIs(t, err, directory.ErrUnknown, "who gave it back does not remember it")
	_, err = directory.New(a.db, a.clock).Find(t.Context(), directory.PhoneNumber, number)
	require.ErrorIs(t, err, directory.ErrUnknown)
	err = a.GiveBack(t.Context(), directory.PhoneNumber, number, org, 1, fine)
	require.ErrorIs(t, err, directory.ErrChanged, "it can be given back once")

	next := a.org(t, amber)
	require.NoError(t, a.Take(t.Context(), directory.PhoneNumber, number, next, taken))
	route, err := a.Find(t.Context(), directory.PhoneNumber, number)
	require.NoError(t, err)
	require.Equal(t, directory.Route{OrgID: next, Generation: 2, Cell: amber, Epoch: 1}, route)
	for _, wrong := range []struct {
		org        ids.Org
		generation int64
	}{{org, 1}, {org, 2}, {next, 1}} {
		err = a.GiveBack(t.Context(), directory.PhoneNumber, number, wrong.org, wrong.generation, fine)
		require.ErrorIs(t, err, directory.ErrChanged, "only the owner gives back")
	}
}

func TestTake_RefusesWhatIsTaken(t *testing.T) {
	t.Parallel()
	a, number := newAlone(t, amber), []byte("number")
	first, second := a.org(t, amber), a.org(t, amber)
	never := func(context.Context, int64) error {
		t.Error("the commit ran without a claim")
		return nil
	}
	require.NoError(t, a.Take(t.Context(), directory.PhoneNumber, number, first, func(ctx context.Context, _ int64) error {
		require.ErrorIs(t, a.Take(ctx, directory.PhoneNumber, number, second, never), directory.ErrTaken)
		return nil
	}))
	for _, org := range []ids.Org{first, second} {
		require.ErrorIs(t, a.Take(t.Context(), directory.PhoneNumber, number, org, never), directory.ErrTaken)
	}
	require.NoError(t, a.GiveBack(t.Context(), directory.PhoneNumber, number, first, 1, func(ctx context.Context) error {
		require.ErrorIs(t, a.Take(ctx, directory.PhoneNumber, number, second, never), directory.ErrTaken)
		return nil
	}))
}

func TestTakeAndGiveBack_WhenTheCommitFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		failure                          error
		taking, takingFree, givingBack   string
		takingHeld, backHeld, backNoMore string
	}{
		"a refusal is undone at once":          {fault.New(fault.LimitReached, "no"), "released", "released", "confirmed", "released", "confirmed", "confirmed"},
		"an unknown outcome waits":             {errors.New("who knows"), "claimed", "released", "releasing", "confirmed", "confirmed", "released"},
		"a broken commit waits":                {fault.OutcomeUnknown(errors.Join(postgres.ErrUnanswered, errors.New("broken"))), "claimed", "released", "releasing", "confirmed", "confirmed", "released"},
		"a deadline waits":                     {context.DeadlineExceeded, "claimed", "released", "releasing", "confirmed", "confirmed", "released"},
		"what could not be tried is undone":    {fault.Unavailable(0, errors.New("busy")), "released", "released", "confirmed", "released", "confirmed", "confirmed"},
		"a wrapped refusal is undone as it is": {fmt.Errorf("because: %w", fault.NotFound("plan")), "released", "released", "confirmed", "released", "confirmed", "confirmed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAlone(t, amber)
			org := a.org(t, amber)
			for _, number := range []string{"free", "held"} {
				err := a.Take(t.Context(), directory.PhoneNumber, []byte(number), org, func(context.Context, int64) error { return test.failure })
				require.ErrorIs(t, err, test.failure)
				require.Equal(t, test.taking, a.state(t, number))
			}
			for _, number := range []string{"back held", "back free"} {
				require.NoError(t, a.Take(t.Context(), directory.PhoneNumber, []byte(number), org, taken))
				err := a.GiveBack(t.Context(), directory.PhoneNumber, []byte(number), org, 1, func(context.Context) error { return test.failure })
				require.ErrorIs(t, err, test.failure)
				require.Equal(t, test.givingBack, a.state(t, number))
			}
			a.clock.Move(6 * time.Minute)
			_, err := a.Settle(t.Context(), func(_ context.Context, step directory.Unsettled) (bool, error) {
				return string(step.Key) == "held" || string(step.Key) == "back held", nil
			})
			require.NoError(t, err)
			require.Equal(t, test.takingFree, a.state(t, "free"))
			require.Equal(t, test.takingHeld, a.state(t, "held"))
			require.Equal(t, test.backHeld, a.state(t, "back held"))
			require.Equal(t, test.backNoMore, a.state(t, "back free"))
		})
	}
}

func TestTake_HasOneWinner(t *testing.T) {
	t.Parallel()
	a := newAlone(t, amber)
	for round := range 100 {
		number := fmt.Appendf(nil, "number %d", round)
		var group sync.WaitGroup
		outcomes, winners := make([]error, 50), make([]ids.Org, 50)
		start := make(chan struct{})
		for i := range outcomes {
			winners[i] = ids.NewOrg(a.clock.Now())
			group.Go(func() {
				<-start
				outcomes[i] = a.Take(t.Context(), directory.PhoneNumber, number, winners[i], taken)
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
