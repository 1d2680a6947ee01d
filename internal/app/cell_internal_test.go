package app

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/hold"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/sealed"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

// openCell opens a cell that waits while the machine stands still.
func openCell(t *testing.T, config CellConfig) *Cell {
	t.Helper()
	config.Name, config.URL, config.Conns, config.AcquireWait = "main", pgtest.Patient(t, config.URL), 1, time.Minute
	config.Logger = canary.Logger(t)
	c, err := OpenCell(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// Background work repeats a few statements that read rows by key. Planning each of them again cost
// as much as running it, so its pool uses generic plans. Requests are planned for their parameters.
func TestOpenCell_BackgroundWork_UsesGenericPlans(t *testing.T) {
	t.Parallel()
	c := openCell(t, CellConfig{URL: pgtest.URL(t)})
	for want, db := range map[string]*postgres.DB{"force_generic_plan": c.workDB, "auto": c.DB} {
		mode, err := postgres.One[string](t.Context(), db.System("test"), `SHOW plan_cache_mode`, nil)
		require.NoError(t, err)
		require.Equal(t, want, mode)
	}
}

func TestOperatorListen_ServeAndWork_DifferentDefaults(t *testing.T) {
	t.Parallel()
	serve, work, both := Roles{Serve: true}, Roles{Work: true}, Roles{Serve: true, Work: true}
	unset := ReadConfig(nil)
	require.Equal(t, "127.0.0.1:9090", unset.operatorListen(serve))
	require.Equal(t, "127.0.0.1:9090", unset.operatorListen(both))
	require.Equal(t, "127.0.0.1:9091", unset.operatorListen(work))
	set := ReadConfig(map[string]string{"PARLEY_OPERATOR_LISTEN": "127.0.0.1:7000"})
	require.Equal(t, "127.0.0.1:7000", set.operatorListen(work))
}

// A process with other master keys ends. /readyz says why until then.
func TestUnready_OtherMasterKey_SaysSo(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	open := func(master string) *Cells {
		ring, err := sealed.NewKeyring([]string{master})
		require.NoError(t, err)
		c := openCell(t, CellConfig{URL: url, Ring: ring})
		require.NoError(t, c.SyncClock(t.Context()))
		return &Cells{all: map[string]*Cell{"main": c}}
	}
	first, other := open(canary.Master), open(DevMasterKey())
	require.NoError(t, first.awaitKeys(t.Context(), "", canary.Logger(t)))
	require.ErrorIs(t, other.awaitKeys(t.Context(), "", canary.Logger(t)), sealed.ErrOtherKey)
	require.Empty(t, first.all["main"].unready(t.Context()))
	require.Contains(t, other.all["main"].unready(t.Context()), "PARLEY_MASTER_KEY does not open what is stored")
}

func TestUnready_DatabaseWithoutSchema_SaysMigrate(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	c := openCell(t, CellConfig{URL: url})
	_, err := postgres.Many[string](t.Context(), c.upkeepDB.System("test"), `DROP TABLE schema_migrations`, nil)
	require.NoError(t, err)
	require.Regexp(t, "^[0-9]+ migrations missing: run `parley migrate`$", c.unready(t.Context()))
}

func TestTidy_OnHold_NothingExpires(t *testing.T) {
	t.Parallel()
	c := openCell(t, CellConfig{URL: pgtest.URL(t)})
	require.NoError(t, c.SyncClock(t.Context()))
	held, err := c.Hold.Write(t.Context(), "ada")
	require.NoError(t, err)
	c.tidy(t.Context(), canary.Logger(t))
	last, err := c.upkeepDB.LastRound(t.Context())
	require.NoError(t, err)
	require.Nil(t, last)
	require.NoError(t, c.Hold.Release(t.Context(), held, "ada", hold.Wait))
	c.tidy(t.Context(), canary.Logger(t))
	last, err = c.upkeepDB.LastRound(t.Context())
	require.NoError(t, err)
	require.NotNil(t, last)
}

// Nothing expires while the clock is unknown, after it jumped, and when it is ahead of the last round.
func TestTidy_ClockNotTrusted_NothingExpires(t *testing.T) {
	t.Parallel()
	for name, distrust := range map[string]func(*Cell) error{
		"never compared with the database's": func(c *Cell) error {
			c.synced.Store(false)
			return nil
		},
		"jumped against the database's": func(c *Cell) error {
			c.jumped.Store(true)
			return nil
		},
		"ahead of the last round": func(c *Cell) error {
			return c.upkeepDB.StoreRound(t.Context(), c.clock.Now().Add(-72*time.Hour))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var changes atomic.Int64
			seen := pgtest.Each(func(sql string) {
				if !strings.Contains(sql, "SELECT at FROM expiry_rounds") {
					changes.Add(1)
				}
			})
			c := openCell(t, CellConfig{URL: pgtest.URL(t), Tracers: []pgx.QueryTracer{seen}})
			require.NoError(t, c.SyncClock(t.Context()))
			require.NoError(t, distrust(c))
			before, err := c.upkeepDB.LastRound(t.Context())
			require.NoError(t, err)
			changes.Store(0)
			_, err = c.expire(t.Context())
			require.Equal(t, name == "ahead of the last round", errors.Is(err, postgres.ErrClockAhead))
			require.Zero(t, changes.Load(), "no statement changes anything")
			after, err := c.upkeepDB.LastRound(t.Context())
			require.NoError(t, err)
			require.Equal(t, before, after)
		})
	}
}
