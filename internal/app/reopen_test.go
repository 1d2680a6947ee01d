package app_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/audit"
)

// actions are those of the tenant's audit log in a cell, the newest first.
func (o *tenant) actions(t *testing.T, cell string) (actions []string) {
	t.Helper()
	require.NoError(t, o.cells.Each(func(home *app.Cell) error {
		if home.Name != cell {
			return nil
		}
		entries, err := home.Audit.List(t.Context(), o.id, time.Time{}, 10)
		for _, entry := range entries {
			actions = append(actions, entry.Action)
		}
		return err
	}))
	return actions
}

// A move that died leaves its organization frozen, in its old cell or in its new one. The doctor names it, background
// work opens it, and a move that is run again opens it before it copies.
func TestMove_Died_WorkOpensTheOrganization(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	stayed, moved, rerun := f.tenant(t), f.tenant(t), f.tenant(t)
	_, err := f.cells.Move(t.Context(), moved.id, audit.Operator(), moved.elsewhere())
	require.NoError(t, err)
	moved.cell = moved.elsewhere()
	for _, one := range []*tenant{stayed, moved, rerun} {
		f.sql(t, one.cell, `UPDATE organizations SET frozen_at = now() - interval '6 minutes' WHERE org_id = $1`, one.id.String())
	}
	examine := func() app.Finding {
		for _, finding := range app.Doctor(t.Context(), f.environment(app.DevMasterKey())) {
			if finding.Name == "moves" {
				return finding
			}
		}
		return app.Finding{}
	}
	require.NotEmpty(t, examine().Fix)
	for _, one := range []*tenant{stayed, moved, rerun} {
		require.Contains(t, examine().Found, one.id.String()+" in "+one.cell)
	}
	again, err := f.cells.Move(t.Context(), rerun.id, audit.Operator(), rerun.elsewhere())
	require.NoError(t, err)
	require.Equal(t, []string{"org.moved", "org.reopened"}, rerun.actions(t, again.To)[:2])

	ctx, stop := context.WithCancel(t.Context())
	ended, worker := make(chan error, 1), f.process(t, app.DevMasterKey())
	go func() { ended <- worker.Run(ctx, app.Roles{Work: true}) }()
	for _, one := range []*tenant{stayed, moved} {
		require.Equal(t, 200, one.askUntilServed(t, http.MethodGet, "/labels", "").status)
		require.Equal(t, "org.reopened", one.actions(t, one.cell)[0])
	}
	stop()
	require.NoError(t, <-ended)
	require.Equal(t, app.Finding{Name: "moves", Found: "no organization is closed by a move that ended early"}, examine())
}
