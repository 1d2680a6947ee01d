package webhooks

import (
	"context"
	"errors"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	// How many endpoints a process posts to at once, and how many deliveries to one of them.
	workers, slowWorkers = 64, 32
	leastAtOnce          = 8
	mostAtOnce           = 32
	// postTimeout bounds one attempt; the lane allows more, for the wait for the host and the bookkeeping.
	postTimeout = 10 * time.Second
	rowTimeout  = hostWait + postTimeout + 2*time.Second
	// gather is how long an outcome waits for others before they are settled together.
	gather = 200 * time.Millisecond
	// Replayed deliveries have the second priority: live ones overtake them.
	livePriority, replayPriority = 0, 1
	replaysPerSecond             = 500
)

// kind describes the lanes of the subscriptions. Each has a lane of its own, so that a dead
// or slow endpoint delays no other. A delivery that waits for its retry holds back the later
// deliveries of its subject, which keeps the events of a customer in order.
func (s *Service) kind() lanes.Kind[*outgoing, outcome] {
	return lanes.Kind[*outgoing, outcome]{
		Name: laneKind, Open: s.open, SetAside: s.setAside, Restore: s.restoreTx, LaterPerSecond: replaysPerSecond,
		Retries: lanes.Hold, Least: leastAtOnce, Most: mostAtOnce, Timeout: rowTimeout, Gather: gather,
		Workers: workers, SlowWorkers: slowWorkers,
	}
}

// open prepares the work on one lane. The rows of a subscription that is gone leave the lane
// without a call.
func (s *Service) open(ctx context.Context, lane lanes.Lane) (lanes.Work[*outgoing, outcome], error) {
	w := &sender{s: s, org: lane.Org, id: ids.From[subscriptionKind](lane.ID)}
	if err := w.load(ctx); err != nil {
		if errors.Is(err, postgres.ErrNoRow) {
			err = nil
		}
		return lanes.Work[*outgoing, outcome]{}, err
	}
	return lanes.Work[*outgoing, outcome]{Read: w.read, Call: w.call, Settle: w.settle}, nil
}

// setAside gives up deliveries that the lane has set aside, because handling them failed several
// times. They become dead and can be replayed. The reason goes to the log only: it may quote a panic.
func (s *Service) setAside(ctx context.Context, tx *postgres.Tx, _ lanes.Lane, rows []lanes.Aside[*outgoing]) error {
	deliveries := postgres.Each(rows, func(row lanes.Aside[*outgoing]) DeliveryID { return ids.From[deliveryKind](row.Row.ID) })
	if err := killDeliveries(ctx, tx, deliveries, codeInternal); err != nil {
		return err
	}
	tx.AfterCommit(func() {
		s.logger.ErrorContext(ctx, "webhook.set_aside", "org", tx.Org(), "deliveries", deliveries, "reason", rows[0].Reason)
	})
	return nil
}
