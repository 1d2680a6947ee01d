package jobs_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// lockTaken takes a lock that awaitLock waits for, until release is called.
func (f *fixture) lockTaken(t *testing.T) (release func()) {
	t.Helper()
	held, free, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ctx := context.WithoutCancel(t.Context())
		_, err := postgres.InSystemTx(ctx, f.db, "test", func(tx *postgres.Tx) (int64, error) {
			locked, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(4711)`, nil)
			close(held)
			<-free
			return locked, err
		})
		done <- err
	}()
	<-held
	release = sync.OnceFunc(func() {
		close(free)
		require.NoError(t, <-done)
	})
	t.Cleanup(release)
	return release
}

// awaitLock fails with a lock timeout while the lock is taken.
func (f *fixture) awaitLock(ctx context.Context) error {
	_, err := postgres.InSystemTx(ctx, f.db, "test", func(tx *postgres.Tx) (int64, error) {
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '1ms'`, nil); err != nil {
			return 0, err
		}
		return tx.Exec(ctx, `SELECT pg_advisory_xact_lock(4711)`, nil)
	})
	return err
}

// standing is what River keeps of the only job.
type standing struct {
	State           string
	Failures        int
	Snoozed         bool
	AnyAttemptsLeft bool
}

func (f *fixture) standing(t *testing.T) standing {
	t.Helper()
	found, err := postgres.One[standing](t.Context(), f.db.System("test"), `
SELECT state::text, coalesce(array_length(errors, 1), 0) AS failures,
       metadata->'output'->>'snoozed_since' IS NOT NULL AS snoozed, attempt < max_attempts AS any_attempts_left
FROM river.river_job`, nil)
	require.NoError(t, err)
	return found
}

// snoozedBefore makes the only job one that has been snoozed for so long.
func (f *fixture) snoozedBefore(t *testing.T, now *clock.Manual, ago time.Duration) {
	t.Helper()
	f.exec(t, `UPDATE river.river_job SET metadata = '{"output": {"snoozed_since": "`+now.Now().Add(-ago).Format(time.RFC3339Nano)+`"}}'`)
}

// A job that works for hours meets more than three lock timeouts in its life.
func TestRunner_LockTimeouts_JobGoesOn(t *testing.T) {
	t.Parallel()
	now := clock.NewManual(time.Now())
	f := newFixture(t, now)
	release := f.lockTaken(t)
	var tries atomic.Int64
	f.run(t, func(ctx context.Context, _ int64, _ chore) error {
		tries.Add(1)
		return f.awaitLock(ctx)
	})
	f.add(t, jobs.Job{Args: chore{1}, Queue: maintenance})
	const more = 15 // than a job has attempts
	eventually(t, "many tries", func() bool {
		now.Move(time.Second)
		return tries.Load() > more || len(aside(t, f)) > 0
	})
	require.Empty(t, aside(t, f), "a lock timeout passes by itself")
	require.Zero(t, f.standing(t).Failures)
	require.True(t, f.standing(t).AnyAttemptsLeft)
	release()
	eventually(t, "the job", func() bool {
		now.Move(time.Second)
		return f.standing(t).State == "completed"
	})
}

// An error that does not pass for half an hour counts as a failure, so that the operator sees the job.
func TestRunner_LockTimeoutsForHalfAnHour_SetAside(t *testing.T) {
	t.Parallel()
	now := clock.NewManual(time.Now())
	f := newFixture(t, now)
	release := f.lockTaken(t)
	f.add(t, jobs.Job{Args: chore{1}, Queue: maintenance})
	f.snoozedBefore(t, now, 30*time.Minute-time.Second)
	var tries atomic.Int64
	f.run(t, func(ctx context.Context, _ int64, _ chore) error {
		tries.Add(1)
		return f.awaitLock(ctx)
	})
	eventually(t, "the last snooze", func() bool { return tries.Load() == 1 && f.standing(t).State != "running" })
	require.Zero(t, f.standing(t).Failures, "half an hour is not over")
	eventually(t, "the quarantine", func() bool {
		now.Move(5 * time.Second)
		return len(aside(t, f)) == 1
	})
	require.EqualValues(t, 1+3, tries.Load(), "three failures set the job aside")
	require.Contains(t, aside(t, f)[0].Reason, "lock timeout")
	release()
	_, err := f.queue.Retry(t.Context(), aside(t, f)[0].ID, now.Now())
	require.NoError(t, err)
	require.False(t, f.standing(t).Snoozed, "a retry by hand begins anew")
	eventually(t, "the job", func() bool { return f.standing(t).State == "completed" })
}

// Work that gets on between two errors is not on its way to be set aside.
func TestRunner_LockTimeoutThenProgress_CountBeginsAnew(t *testing.T) {
	t.Parallel()
	now := clock.NewManual(time.Now())
	f := newFixture(t, now)
	f.add(t, jobs.Job{Args: chore{1}, Queue: maintenance})
	f.snoozedBefore(t, now, 29*time.Minute)
	f.run(t, func(context.Context, int64, chore) error { return jobs.Later(time.Hour) })
	eventually(t, "the turn", func() bool { return f.standing(t).State == "scheduled" })
	require.False(t, f.standing(t).Snoozed)
}
