package hold_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/hold"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

type fixture struct {
	*hold.Hold

	db    *postgres.DB
	clock *clock.Manual
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{db: pgtest.Open(t), clock: clock.NewManual(pgtest.Start())}
	f.Hold = hold.New(f.db, f.clock)
	return f
}

func (f *fixture) write(t *testing.T, by string) *hold.State {
	t.Helper()
	held, err := f.Write(t.Context(), by)
	require.NoError(t, err)
	return held
}

func (f *fixture) read(t *testing.T) *hold.State {
	t.Helper()
	held, err := f.Read(t.Context())
	require.NoError(t, err)
	return held
}

func TestHold_WrittenTwice_TheFirstStays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	require.Nil(t, f.read(t))
	require.NoError(t, f.Refuse(t.Context()))
	first := f.write(t, "ada")
	require.Equal(t, &hold.State{HeldAt: f.clock.Now(), HeldBy: "ada"}, first)
	f.clock.Move(time.Minute)
	require.Equal(t, first, f.write(t, "grace"), "messages that were accepted since are not in doubt")
	refusal := fault.As(f.Refuse(t.Context()))
	require.Equal(t, fault.ServiceUnavailable, refusal.Code)
	require.Contains(t, refusal.Message, "on hold")
	require.Positive(t, refusal.RetryAfter)
}

// TestHold_OutOfABackup_IsRenewed: the backup was made during a hold, which may have been released since. A recovery
// begins a new timeline.
func TestHold_OutOfABackup_IsRenewed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.write(t, "ada")
	_, err := postgres.InSystemTx(t.Context(), f.db, "test", func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(t.Context(), `UPDATE holds SET timeline = '000000FF' WHERE timeline ~ '^[0-9A-F]{8}$'`, nil)
	})
	require.NoError(t, err)
	f.clock.Move(time.Hour)
	require.Equal(t, &hold.State{HeldAt: f.clock.Now(), HeldBy: "grace"}, f.write(t, "grace"))
}

func TestRelease_HoldEndsAndMayBeWrittenAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.write(t, "ada")
	f.clock.Move(time.Minute)
	require.NoError(t, f.Release(t.Context(), first, "grace", hold.Fail))
	require.Nil(t, f.read(t))
	require.NoError(t, f.Refuse(t.Context()))
	kept, err := postgres.One[string](t.Context(), f.db.System("test"), `SELECT held_by || ' ' || released_by || ' ' || unsent FROM holds`, nil)
	require.NoError(t, err)
	require.Equal(t, "ada grace fail", kept)
	f.clock.Move(time.Minute)
	second := f.write(t, "ada")
	require.Equal(t, f.clock.Now(), second.HeldAt, "a process that starts with --hold always holds")
	require.ErrorContains(t, f.Release(t.Context(), first, "grace", hold.Fail), "run this again")
	require.NotNil(t, f.read(t), "what was decided was not this hold")
}

func TestAlone_TwoOperators_OneIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	err := f.Alone(t.Context(), func(context.Context) error {
		return f.Alone(t.Context(), func(context.Context) error { return nil })
	})
	require.ErrorContains(t, err, "under way")
}
