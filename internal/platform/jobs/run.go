package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/parley-chat/parley/internal/platform/telemetry"
)

// client is the part of River's client that Run uses.
type client interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
}

// startWithin bounds the start of a client. It is far longer than a start takes on a busy machine.
const startWithin = 20 * time.Second

var errNotStarted = errors.New("the queue did not start in time")

// Run works jobs until ctx ends, then waits for running jobs. While the database is down, it
// retries every second.
func (r *Runner) Run(ctx context.Context) error {
	repeating := telemetry.Repeating(r.logger)
	for {
		// Each try uses a new client, because a client whose start failed may hang for ever.
		client, err := r.connect()
		if err != nil {
			return err
		}
		if err = start(context.WithoutCancel(ctx), client); err == nil {
			<-ctx.Done()
			return stop(ctx, client)
		}
		repeating.WarnContext(ctx, "jobs.not_started", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// start starts a client, or gives up after startWithin. When the machine stands still for 5 s
// while River subscribes to notifications, River's Start deadlocks: it fails, and then waits for a
// goroutine that waits for Start. A client that starts after start gave up is stopped.
func start(ctx context.Context, client client) error {
	started, givenUp := make(chan error), make(chan struct{})
	go func() {
		err := client.Start(ctx)
		select {
		case started <- err:
		case <-givenUp:
			if err == nil {
				_ = stop(ctx, client)
			}
		}
	}()
	select {
	case err := <-started:
		return err
	case <-time.After(startWithin):
		close(givenUp)
		return errNotStarted
	}
}

func stop(ctx context.Context, client client) error {
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), softStop+5*time.Second)
	defer cancel()
	return client.Stop(stopping)
}
