// Package factory makes real rows with sane defaults, through the verbs of the product.
package factory

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/domain/apikeys"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/sealed"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

// World is a cell on a database of its own with a clock that tests move.
type World struct {
	*cell.Cell

	Clock     *clock.Manual
	Directory *directory.Directory

	serial *atomic.Int64
}

// Master is a master key for tests.
const Master = "cGFybGV5IHRlc3QgbWFzdGVyIGtleSwgMzIgYnl0ZXM="

// New makes an empty world on a database of its own, its directory beside it.
func New(t testing.TB) *World {
	t.Helper()
	return On(t, pgtest.Open(t))
}

// On makes a world on a database that exists.
func On(t testing.TB, db *postgres.DB) *World {
	t.Helper()
	now := clock.NewManual(pgtest.Start())
	return In(t, directory.New(db, now), now, map[string]*postgres.DB{"test": db})["test"]
}

// In makes the cells of one directory, each on its database, under the master keys or else
// Master.
func In(
	t testing.TB, routes *directory.Directory, now *clock.Manual, databases map[string]*postgres.DB, masters ...string,
) map[string]*World {
	t.Helper()
	if len(masters) == 0 {
		masters = []string{Master}
	}
	ring, err := sealed.NewKeyring(masters)
	require.NoError(t, err)
	require.NoError(t, routes.EnsureCells(t.Context(), slices.Sorted(maps.Keys(databases))))
	worlds, serial := map[string]*World{}, &atomic.Int64{}
	for name, db := range databases {
		made, err := cell.New(cell.Deps{
			Name: name, DB: db, Clock: now, Directory: routes, Ring: ring, Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		worlds[name] = &World{Cell: made, Clock: now, Directory: routes, serial: serial}
	}
	return worlds
}

// Org makes an organization on the plan `platform` with one team.
func (w *World) Org(t testing.TB) (orgs.ID, orgs.TeamID) {
	t.Helper()
	org, team, err := w.Orgs.Create(t.Context(), audit.Operator(), orgs.Draft{
		Name: fmt.Sprintf("Organization %d", w.serial.Add(1)), Plan: "platform",
	})
	require.NoError(t, err)
	return org.OrgID, team.ID
}

// Key issues an API key.
func (w *World) Key(t testing.TB, org orgs.ID) (apikeys.ID, string) {
	t.Helper()
	key, plaintext, err := w.Keys.Issue(t.Context(), org, audit.Operator(), apikeys.Draft{Name: "test"})
	require.NoError(t, err)
	return key.ID, plaintext
}

// Label makes a label with a name of its own.
func (w *World) Label(t testing.TB, org orgs.ID) labels.Label {
	t.Helper()
	label, err := w.Labels.Create(t.Context(), org, labels.Draft{Name: fmt.Sprintf("Label %d", w.serial.Add(1))})
	require.NoError(t, err)
	return label
}
