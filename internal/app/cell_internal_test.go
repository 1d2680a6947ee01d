package app

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

// Background work repeats a few statements that read rows by key. Planning each of them again cost
// as much as running it, so its pool uses generic plans. Requests are planned for their parameters.
func TestOpenCell_BackgroundWork_UsesGenericPlans(t *testing.T) {
	t.Parallel()
	c, err := OpenCell(t.Context(), CellConfig{Name: "main", URL: pgtest.URL(t), Conns: 1, Logger: canary.Logger(t)})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	for want, db := range map[string]*postgres.DB{"force_generic_plan": c.workDB, "auto": c.DB} {
		mode, err := postgres.One[string](t.Context(), db.System("test"), `SHOW plan_cache_mode`, nil)
		require.NoError(t, err)
		require.Equal(t, want, mode)
	}
}

func TestUnready_DatabaseWithoutSchema_SaysMigrate(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	c, err := OpenCell(t.Context(), CellConfig{Name: "main", URL: url, Conns: 1, Logger: canary.Logger(t)})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	_, err = postgres.Many[string](t.Context(), c.upkeepDB.System("test"), `DROP TABLE schema_migrations`, nil)
	require.NoError(t, err)
	require.Equal(t, "the schema is older than this program: run `parley migrate`", c.unready(t.Context()))
}
