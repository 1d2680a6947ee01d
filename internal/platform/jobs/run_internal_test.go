package jobs

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// playedClient starts after a while, and not without an error if it has one.
type playedClient struct {
	after          time.Duration
	err            error
	begun, stopped atomic.Int64
}

func (c *playedClient) Start(context.Context) error {
	c.begun.Add(1)
	time.Sleep(c.after)
	return c.err
}

func (c *playedClient) Stop(context.Context) error {
	c.stopped.Add(1)
	return nil
}

// TestRun_AClientThatDoesNotStartIsReplaced: by another, and works nothing if it comes late.
func TestRun_AClientThatDoesNotStartIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refused, late, good := &playedClient{err: errors.New("away")}, &playedClient{after: time.Minute}, &playedClient{}
		waiting := []*playedClient{refused, late, good}
		r := &Runner{logger: slog.New(slog.DiscardHandler), connect: func() (client, error) {
			next := waiting[0]
			waiting = waiting[1:]
			return next, nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(startWithin + 3*time.Second)
		synctest.Wait()
		require.Empty(t, waiting)
		require.EqualValues(t, 1, good.begun.Load())
		require.Zero(t, late.stopped.Load())
		time.Sleep(time.Minute)
		synctest.Wait()
		require.EqualValues(t, 1, late.stopped.Load(), "two clients of one process would work")
		require.Zero(t, good.stopped.Load())
		cancel()
		require.NoError(t, <-ended)
		require.EqualValues(t, 1, good.stopped.Load())
		require.Zero(t, refused.stopped.Load())
	})
}
