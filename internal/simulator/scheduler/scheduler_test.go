package scheduler_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/simulator/scheduler"
)

func TestScheduler_RunsInOrderOfTimeAndRefusesWhenFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var skew atomic.Int64
		s := scheduler.New(func() time.Time { return time.Now().Add(time.Duration(skew.Load())) }, 5)
		var done []string
		note := func(name string) func() {
			return func() { done = append(done, name+" "+time.Since(start).String()) }
		}
		require.True(t, s.At(start.Add(3*time.Second), note("late")))
		require.True(t, s.At(start.Add(time.Second), note("early")))
		require.True(t, s.At(start.Add(time.Second), note("equal")))
		ctx, stop := context.WithCancel(t.Context())
		go s.Run(ctx)
		time.Sleep(2 * time.Second)
		require.True(t, s.At(start, note("overdue")))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"early 1s", "equal 1s", "overdue 2s", "late 3s"}, done)

		s.At(start.Add(time.Hour), note("moved"))
		synctest.Wait()
		skew.Store(int64(time.Hour))
		s.Recheck()
		synctest.Wait()
		require.Equal(t, "moved 4s", done[4], "runs at once after the clock was moved")
		for range 5 {
			require.True(t, s.At(start.Add(48*time.Hour), func() {}))
		}
		require.False(t, s.At(start.Add(48*time.Hour), func() {}), "full")
		s.Clear()
		require.Zero(t, s.Len())
		stop()
	})
}
