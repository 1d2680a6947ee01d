package app_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// left makes count organizations of that many labels that moved out of one cell two hours ago, in the order of their ids.
func (f *fixture) left(t *testing.T, count, labels int) (from *app.Cell, left []*tenant) {
	t.Helper()
	for len(left) < count {
		one := f.tenant(t)
		if one.cell != "main" {
			continue // new organizations go to the emptiest cell
		}
		one.fill(t, labels)
		_, err := f.cells.Move(t.Context(), one.id, audit.Operator(), one.elsewhere())
		require.NoError(t, err)
		f.sql(t, one.cell, `UPDATE organizations SET frozen_at = now() - interval '2 hours' WHERE org_id = $1`, one.id.String())
		left = append(left, one)
	}
	require.NoError(t, f.cells.Each(func(cell *app.Cell) error {
		if cell.Name == "main" {
			from = cell
		}
		return nil
	}))
	return from, left
}

// labelsIn counts the tenant's labels in a cell.
func (o *tenant) labelsIn(t *testing.T, cell *app.Cell) int {
	t.Helper()
	labels, err := postgres.One[int](t.Context(), cell.DB.System("test"), `SELECT count(*) FROM labels WHERE org_id = @org`,
		postgres.Args{"org": o.id})
	require.NoError(t, err)
	return labels
}

func TestPurgeMoved_OneFails_OthersArePurged(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	from, left := f.left(t, 2, 10)
	f.sql(t, from.Name, `
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'kept for the test'; END $$;
CREATE TRIGGER kept BEFORE DELETE ON labels FOR EACH ROW WHEN (OLD.org_id = '`+left[0].id.String()+`') EXECUTE FUNCTION refuse()`)
	purged, more, err := f.cells.PurgeMoved(t.Context(), from, time.Minute)
	require.ErrorContains(t, err, "kept for the test")
	require.Equal(t, 1, purged)
	require.False(t, more, "no turn was too short")
	require.Equal(t, 10, left[0].labelsIn(t, from))
	require.Zero(t, left[1].labelsIn(t, from))
}

// A large organization holds up no other: each gets a turn in each round, and rounds follow each other until none is left.
func TestPurgeMoved_LargeOrganizations_TakeTurns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	from, left := f.left(t, 3, 120)
	seen := map[int]bool{}
	for more := true; more; {
		var err error
		_, more, err = f.cells.PurgeMoved(t.Context(), from, 0) // a turn ends after a portion
		require.NoError(t, err)
		for _, one := range left {
			labels := one.labelsIn(t, from)
			require.Equal(t, left[0].labelsIn(t, from), labels, "none is ahead of the others")
			seen[labels] = true
		}
	}
	require.Equal(t, map[int]bool{70: true, 20: true, 0: true}, seen)
	copies, err := postgres.One[int](t.Context(), from.DB.System("test"), `SELECT count(*) FROM organizations`, nil)
	require.NoError(t, err)
	require.Zero(t, copies)
}

func TestPurgeMoved_OnHold_NothingIsPurged(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	from, left := f.left(t, 1, 10)
	_, err := from.Hold.Write(t.Context(), "ada")
	require.NoError(t, err)
	purged, more, err := f.cells.PurgeMoved(t.Context(), from, time.Minute)
	require.NoError(t, err)
	require.Zero(t, purged)
	require.False(t, more)
	require.Equal(t, 10, left[0].labelsIn(t, from))
}

// Otherwise its rows stay for ten minutes more: a worker that starts looks at the organization at the same time.
func TestPurgeMoved_LockTaken_HasAnotherTurn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	from, left := f.left(t, 1, 10)
	require.NoError(t, f.cells.Directory.Alone(t.Context(), left[0].id, func(ctx context.Context) error {
		purged, more, err := f.cells.PurgeMoved(ctx, from, time.Minute)
		require.NoError(t, err)
		require.Zero(t, purged)
		require.True(t, more)
		return nil
	}))
}

func TestPurgeMoved_Worker_PurgesWithoutBeingAsked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	from, left := f.left(t, 2, 120)
	ctx, stop := context.WithCancel(t.Context())
	log := &lockedBuffer{}
	ended, worker := make(chan error, 1), f.process(t, app.DevMasterKey(), slog.NewTextHandler(log, nil))
	f.sql(t, from.Name, `ALTER TABLE labels RENAME TO away`)
	go func() { ended <- worker.Run(ctx, app.Roles{Work: true}) }()
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "organizations.not_purged") }, patience, 50*time.Millisecond)
	f.sql(t, from.Name, `ALTER TABLE away RENAME TO labels`)
	require.Eventually(t, func() bool { return left[0].labelsIn(t, from)+left[1].labelsIn(t, from) == 0 }, patience, 50*time.Millisecond,
		"after a failure the worker looks again soon")
	stop()
	require.NoError(t, <-ended)
	require.Equal(t, 200, left[0].askUntilServed(t, http.MethodGet, "/labels", "").status, "it lives in the other cell")
}

// The purge of an organization may hold its lock nearly all the time. A move back waits until a turn has ended.
func TestMove_LockTaken_WaitsForATurn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	mover := f.tenant(t)
	moved := make(chan error, 1)
	require.NoError(t, f.cells.Directory.Alone(t.Context(), mover.id, func(context.Context) error {
		go func() {
			_, err := f.cells.Move(context.WithoutCancel(t.Context()), mover.id, audit.Operator(), mover.elsewhere())
			moved <- err
		}()
		select {
		case err := <-moved:
			moved <- fmt.Errorf("the move did not wait: %w", err)
		case <-time.After(500 * time.Millisecond):
		}
		return nil
	}))
	require.NoError(t, <-moved)
}
