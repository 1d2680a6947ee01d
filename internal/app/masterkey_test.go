package app_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/platform/sealed"
	"github.com/parley-chat/parley/internal/testkit/canary"
)

// withKeys opens the cells of the fixture with master keys.
func (f *fixture) withKeys(t *testing.T, keys ...string) *app.Cells {
	t.Helper()
	cells, err := app.OpenCells(t.Context(), app.ReadConfig(map[string]string{
		"PARLEY_DATABASE_URL": f.urls["main"], "PARLEY_CELL_SECOND_DATABASE_URL": f.urls["second"],
		"PARLEY_MASTER_KEY": strings.Join(keys, ","),
	}), app.CellsConfig{All: true, Conns: 2, Logger: canary.Logger(t)})
	require.NoError(t, err)
	t.Cleanup(cells.Close)
	require.NoError(t, cells.SyncClocks(t.Context()))
	return cells
}

func TestCheckKeys_TwoKeysOnEmptyDatabases_SecondRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", sealed.KeyBytes)))
	require.NoError(t, f.withKeys(t, other).CheckKeys(t.Context(), false), "nothing is sealed yet")
	require.NoError(t, f.withKeys(t, canary.Master).CheckKeys(t.Context(), true))
	require.ErrorIs(t, f.withKeys(t, other).CheckKeys(t.Context(), true), sealed.ErrOtherKey)
	require.NoError(t, f.withKeys(t, other, canary.Master).CheckKeys(t.Context(), true))
}

// A database whose values were sealed before there was a known text is checked by these values.
func TestCheckKeys_ValuesUnderOlderKey_KeyMustStay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	newer := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", sealed.KeyBytes)))
	mover := f.tenant(t) // of a process with the published key
	require.NoError(t, f.cells.Each(func(home *app.Cell) error {
		if home.Name != mover.cell {
			return nil
		}
		_, err := home.Webhooks.Create(t.Context(), mover.id, audit.Operator(), webhooks.Draft{URL: "http://127.0.0.1:9999/", Events: []events.Type{events.MessageSent}})
		return err
	}))
	both := f.withKeys(t, newer, app.DevMasterKey())
	require.NoError(t, both.CheckKeys(t.Context(), true))
	require.ErrorIs(t, f.withKeys(t, newer).CheckKeys(t.Context(), true), sealed.ErrOtherKey)

	_, err := f.cells.Move(t.Context(), mover.id, audit.Operator(), mover.elsewhere())
	require.NoError(t, err)
	done, err := both.Reseal(t.Context(), func(string, app.Resealed) {})
	require.NoError(t, err)
	require.Equal(t, app.Resealed{Values: 1}, done[mover.elsewhere()])
	require.Equal(t, app.Resealed{Frozen: done[mover.cell].Frozen}, done[mover.cell])
	require.Empty(t, done[mover.cell].Frozen, "the copy that the move left is not counted")
	require.NoError(t, f.withKeys(t, newer).CheckKeys(t.Context(), false))
	require.ErrorIs(t, f.withKeys(t, app.DevMasterKey()).CheckKeys(t.Context(), false), sealed.ErrOtherKey)
}
