package app_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/platform/hold"
)

// run runs a process until stop is called.
func run(t *testing.T, process *app.App, roles app.Roles) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- process.Run(ctx, roles) }()
	return func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

// finding is what the doctor says under a name.
func (f *fixture) finding(t *testing.T, name string) app.Finding {
	t.Helper()
	for _, one := range app.Doctor(t.Context(), f.environment(app.DevMasterKey())) {
		if one.Name == name {
			return one
		}
	}
	require.Fail(t, "no such finding", name)
	return app.Finding{}
}

// holds are the holds of the cells; a cell that is not held has none.
func (f *fixture) holds(t *testing.T) map[string]string {
	t.Helper()
	holds := map[string]string{}
	require.NoError(t, f.cells.Each(func(one *app.Cell) error {
		held, err := one.Hold.Read(t.Context())
		if held != nil {
			holds[one.Name] = held.HeldBy
		}
		return err
	}))
	return holds
}

func (f *fixture) release(t *testing.T, cell string) ([]app.Released, error) {
	t.Helper()
	return f.cells.ReleaseHold(t.Context(), cell, "grace", hold.Wait, func(string, int) {})
}

// A process that starts with --hold holds all its cells. The doctor says so, no organization is moved, and each cell is
// released by itself.
func TestHold_Started_EveryCellUntilReleased(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	mover := f.tenant(t)
	require.Equal(t, app.Finding{Name: "hold", Found: "none"}, f.finding(t, "hold"))
	_, err := f.release(t, "")
	require.EqualError(t, err, "no cell is on hold")

	stop := run(t, f.process(t, app.DevMasterKey()), app.Roles{Work: true, Hold: "ada"})
	require.Eventually(t, func() bool { return len(f.holds(t)) == 2 }, 3*time.Minute, 10*time.Millisecond)
	stop()
	require.Equal(t, map[string]string{"main": "ada", "second": "ada"}, f.holds(t))
	for _, name := range []string{"hold", "hold of cell second"} {
		found := f.finding(t, name)
		require.True(t, found.Warning)
		require.Contains(t, found.Found, "(ada): nothing is sent or delivered")
		require.Contains(t, found.Fix, "parley admin hold release")
	}
	_, err = f.cells.Move(t.Context(), mover.id, audit.Operator(), mover.elsewhere())
	require.ErrorContains(t, err, "is on hold since")

	released, err := f.release(t, mover.elsewhere())
	require.NoError(t, err)
	require.Equal(t, mover.elsewhere(), released[0].Cell)
	require.Equal(t, map[string]string{mover.cell: "ada"}, f.holds(t))
	_, err = f.cells.Move(t.Context(), mover.id, audit.Operator(), mover.elsewhere())
	require.ErrorContains(t, err, "cell "+mover.cell+" is on hold", "what is unsent there would be sent from the other cell")
	_, err = f.release(t, "")
	require.NoError(t, err)
	require.Empty(t, f.holds(t))
	_, err = f.cells.Move(t.Context(), mover.id, audit.Operator(), mover.elsewhere())
	require.NoError(t, err)
}

// The rows of an organization that a move has closed are not in lanes, so that nothing can be decided about them.
func TestReleaseHold_OrganizationClosedByAMove_Refused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	closed := f.tenant(t)
	require.NoError(t, f.cells.Each(func(one *app.Cell) error {
		_, err := one.Hold.Write(t.Context(), "ada")
		return err
	}))
	f.sql(t, closed.cell, `UPDATE organizations SET frozen_at = now() WHERE org_id = $1`, closed.id.String())
	_, err := f.release(t, closed.cell)
	require.ErrorContains(t, err, closed.id.String())
	require.Contains(t, f.holds(t), closed.cell)
	f.sql(t, closed.cell, `UPDATE organizations SET frozen_at = NULL WHERE org_id = $1`, closed.id.String())
	_, err = f.release(t, closed.cell)
	require.NoError(t, err)
}
