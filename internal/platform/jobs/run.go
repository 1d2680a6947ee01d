package jobs

import (
	"context"
	"errors"
	"time"
)

// client is what of River's client runs.
type client interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
}

// startWithin is far more than a start takes on a machine that is not overrun.
const startWithin = 20 * time.Second

var errNotStarted = errors.New("the queue did not start in time")

// Run works jobs until ctx ends, then lets those under way finish. A database that is
// away is waited for.
func (r *Runner) Run(ctx context.Context) error {
	for {
		// Each try has a client of its own: one whose start failed may hang for ever.
		client, err := r.connect()
		if err != nil {
			return err
		}
		if err = start(context.WithoutCancel(ctx), client); err == nil {
			<-ctx.Done()
			return stop(ctx, client)
		}
		r.logger.WarnContext(ctx, "jobs.not_started", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// start starts a client, or gives it up: a machine that stands still for 5 s while River
// subscribes to its notices has Start fail, and on the way out wait for a goroutine that
// waits for it. A client that comes late is stopped.
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
