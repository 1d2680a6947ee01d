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

// fakeClient is a client whose Start takes a while and then returns err.
type fakeClient struct {
	after          time.Duration
	err            error
	begun, stopped atomic.Int64
}

func (c *fakeClient) Start(context.Context) error {
	c.begun.Add(1)
	time.Sleep(c.after)
	return c.err
}

func (c *fakeClient) Stop(context.Context) error {
	c.stopped.Add(1)
	return nil
}

// A client that starts after it was replaced is stopped.
func TestRun_ClientDoesNotStart_Replaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refused, late, good := &fakeClient{err: errors.New("away")}, &fakeClient{after: time.Minute}, &fakeClient{}
		waiting := []*fakeClient{refused, late, good}
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
		require.EqualValues(t, 1, late.stopped.Load(), "otherwise two clients of one process would work jobs")
		require.Zero(t, good.stopped.Load())
		cancel()
		require.NoError(t, <-ended)
		require.EqualValues(t, 1, good.stopped.Load())
		require.Zero(t, refused.stopped.Load())
	})
}
