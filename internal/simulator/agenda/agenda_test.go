package agenda_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/simulator/agenda"
)

func TestAgenda_DoesThingsAtTheirTimeAndInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var skew atomic.Int64
		a := agenda.New(func() time.Time { return time.Now().Add(time.Duration(skew.Load())) }, 5)
		var done []string
		note := func(name string) func() {
			return func() { done = append(done, name+" "+time.Since(began).String()) }
		}
		require.True(t, a.At(began.Add(3*time.Second), note("late")))
		require.True(t, a.At(began.Add(time.Second), note("early")))
		require.True(t, a.At(began.Add(time.Second), note("equal")))
		ctx, stop := context.WithCancel(t.Context())
		go a.Run(ctx)
		time.Sleep(2 * time.Second)
		require.True(t, a.At(began, note("overdue")))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"early 1s", "equal 1s", "overdue 2s", "late 3s"}, done)

		a.At(began.Add(time.Hour), note("moved"))
		synctest.Wait()
		skew.Store(int64(time.Hour))
		a.Look()
		synctest.Wait()
		require.Equal(t, "moved 4s", done[4], "the clock was moved, and it looked")
		for range 5 {
			require.True(t, a.At(began.Add(48*time.Hour), func() {}))
		}
		require.False(t, a.At(began.Add(48*time.Hour), func() {}), "full")
		a.Clear()
		require.Zero(t, a.Len())
		stop()
	})
}
