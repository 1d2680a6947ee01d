package app_test

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/platform/sealed"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

// withKeys opens the cells of the fixture with master keys.
func (f *fixture) withKeys(t *testing.T, keys ...string) *app.Cells {
	t.Helper()
	cells, err := app.OpenCells(t.Context(), app.ReadConfig(map[string]string{
		"PARLEY_DATABASE_URL": f.urls["main"], "PARLEY_CELL_SECOND_DATABASE_URL": f.urls["second"],
		"PARLEY_MASTER_KEY": strings.Join(keys, ","),
	}), app.CellsConfig{All: true, Conns: 2, AcquireWait: patience, Logger: canary.Logger(t)})
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

// The error names the setting of the cell that it is about.
func TestCheckKeys_OtherCellMadeByDev_NamesItsSetting(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	dev, err := app.OpenCells(t.Context(), app.ReadConfig(map[string]string{
		"PARLEY_DATABASE_URL": f.urls["second"], "PARLEY_MASTER_KEY": app.DevMasterKey(),
	}), app.CellsConfig{All: true, Conns: 2, AcquireWait: patience, Logger: canary.Logger(t)})
	require.NoError(t, err)
	defer dev.Close()
	require.NoError(t, dev.CheckKeys(t.Context(), true))
	err = f.withKeys(t, canary.Master).CheckKeys(t.Context(), false)
	require.ErrorContains(t, err, "the database belongs to another network")
	require.ErrorContains(t, err, "set PARLEY_CELL_SECOND_DATABASE_URL to it")
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
	done, err := both.Reseal(t.Context(), audit.Operator(), func(string, app.Resealed) {})
	require.NoError(t, err)
	require.Equal(t, app.Resealed{Values: 1}, done[mover.elsewhere()])
	require.Equal(t, app.Resealed{Frozen: done[mover.cell].Frozen}, done[mover.cell])
	require.Empty(t, done[mover.cell].Frozen, "the copy that the move left is not counted")
	require.NoError(t, f.withKeys(t, newer).CheckKeys(t.Context(), false))
	require.ErrorIs(t, f.withKeys(t, app.DevMasterKey()).CheckKeys(t.Context(), false), sealed.ErrOtherKey)
}

func TestDoctor_MasterKeyDropped_WarnsOfStoredAnswers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tenant := f.tenant(t)
	newer := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", sealed.KeyBytes)))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.api.URL+"/v1/labels", strings.NewReader(`{"name":"VIP"}`))
	require.NoError(t, err)
	request.Header = http.Header{"Authorization": {"Bearer " + tenant.key}, "Content-Type": {"application/json"}, "Idempotency-Key": {"k"}}
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusCreated, answer.StatusCode)
	_, err = f.withKeys(t, newer, app.DevMasterKey()).Reseal(t.Context(), audit.Operator(), func(string, app.Resealed) {})
	require.NoError(t, err)
	warnings := func(keys string) (found []string) {
		for _, one := range app.Doctor(t.Context(), f.environment(keys)) {
			if strings.HasPrefix(one.Name, "idempotent answers") {
				require.True(t, one.Warning)
				found = append(found, one.Name+": "+one.Found)
			}
		}
		return found
	}
	require.Empty(t, warnings(newer+","+app.DevMasterKey()))
	want := []string{"idempotent answers of " + tenant.cell + ": 1 are sealed under a master key that is not in PARLEY_MASTER_KEY"}
	require.Equal(t, want, warnings(newer))
	f.sql(t, tenant.cell, `UPDATE idempotency_keys SET created_at = created_at - interval '24 hours'`)
	require.Empty(t, warnings(newer), "no request is answered from it any more")
}

func TestConfirmClock_InTheAuditLogOfEachOrganization(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	all := []*tenant{f.tenant(t), f.tenant(t), f.tenant(t)}
	require.NoError(t, f.cells.Each(func(one *app.Cell) error {
		_, _, err := one.ConfirmClock(t.Context(), audit.OperatorNamed("ada"))
		return err
	}))
	for _, tenant := range all {
		require.NoError(t, f.cells.Each(func(one *app.Cell) error {
			if one.Name != tenant.cell {
				return nil
			}
			entries, err := one.Audit.List(t.Context(), tenant.id, time.Time{}, 1)
			require.Equal(t, "clock.confirmed", entries[0].Action)
			require.Equal(t, audit.OperatorNamed("ada").ID, entries[0].ActorID)
			return err
		}))
	}
}

// environment is that of a process with master keys.
func (f *fixture) environment(keys string) map[string]string {
	return map[string]string{
		"PARLEY_DATABASE_URL": f.urls["main"], "PARLEY_CELL_SECOND_DATABASE_URL": f.urls["second"], "PARLEY_MASTER_KEY": keys,
		"PARLEY_LISTEN": "127.0.0.1:0", "PARLEY_OPERATOR_LISTEN": "127.0.0.1:0", "PARLEY_PROVIDER_APP_ID": "1",
		"PARLEY_PROVIDER_APP_SECRET": canary.AppSecret, "PARLEY_PROVIDER_VERIFY_TOKEN": canary.VerifyToken,
		"PARLEY_PROVIDER_BASE_URL": "http://127.0.0.1:9", "PARLEY_PUBLIC_URL": "http://127.0.0.1:9",
	}
}

// process builds a process with master keys, and does not run it yet.
func (f *fixture) process(t *testing.T, keys string, logs ...slog.Handler) *app.App {
	t.Helper()
	config := app.ReadConfig(f.environment(keys))
	config.Dev = true
	process, err := app.New(t.Context(), config, canary.Logger(t, logs...), app.Options{Tracers: pgtest.Tracers(t)})
	require.NoError(t, err)
	return process
}

// A process listens before its databases have answered. It writes nothing until the master key was checked.
func TestServe_KeyNotYetChecked_TakesNoWrites(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	o := f.tenant(t)
	process := f.process(t, app.DevMasterKey())
	t.Cleanup(process.Close)
	server := httptest.NewServer(process.Handler())
	t.Cleanup(server.Close)
	post := func() int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/v1/labels", strings.NewReader(`{"name":"New"}`))
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+o.key)
		request.Header.Set("Content-Type", "application/json")
		response, err := server.Client().Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	require.Equal(t, http.StatusServiceUnavailable, post())
	require.Eventually(t, func() bool { return process.Cells().CheckKeys(t.Context(), true) == nil }, patience, time.Millisecond)
	require.Eventually(t, func() bool { return post() == http.StatusCreated }, patience, time.Millisecond)
}

// A wrong key that one cell refuses leaves nothing in a cell that has no known text yet.
func TestServe_KeyRefusedByOneCell_LeavesFreshCellsAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	require.NoError(t, f.withKeys(t, canary.Master).CheckKeys(t.Context(), true))
	f.sql(t, "main", `DELETE FROM master_key_check`)
	require.ErrorIs(t, f.process(t, app.DevMasterKey()).Run(t.Context(), app.Roles{Serve: true, Work: true}), sealed.ErrOtherKey)
	require.ErrorIs(t, f.withKeys(t, app.DevMasterKey()).CheckKeys(t.Context(), true), sealed.ErrOtherKey)
	require.NoError(t, f.withKeys(t, canary.Master).CheckKeys(t.Context(), true))
}

// A process that starts before the tables exist gives the cells their known text once they do.
func TestServe_StartedBeforeMigrate_WritesTheCheckLater(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for cell := range f.urls {
		f.sql(t, cell, `ALTER TABLE master_key_check RENAME TO master_key_check_later`)
	}
	ctx, stop := context.WithCancel(t.Context())
	process, ended, ready := f.process(t, canary.Master), make(chan error, 1), make(chan struct{})
	go func() { ended <- process.Run(ctx, app.Roles{Serve: true, Ready: func(string) { close(ready) }}) }()
	<-ready
	for cell := range f.urls {
		f.sql(t, cell, `ALTER TABLE master_key_check_later RENAME TO master_key_check`)
	}
	require.Eventually(t, func() bool {
		return errors.Is(f.withKeys(t, app.DevMasterKey()).CheckKeys(t.Context(), false), sealed.ErrOtherKey)
	}, proc.Patience, 10*time.Millisecond)
	stop()
	require.NoError(t, <-ended)
}
