package webhooks

import (
	"context"
	"errors"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Handle registers the jobs.
func (s *Service) Handle(set *jobs.Set) {
	jobs.Handle(set, func(ctx context.Context, _ int64, args forgetArgs) error {
		ctx = postgres.WithBudget(ctx, jobs.Turn)
		err := s.lanes.Discard(ctx, lanes.Lane{ID: args.Subscription.Any(), Org: args.Org, Kind: laneKind}, args.Before.Any())
		if err == nil {
			err = forgetDeliveries(ctx, s.work, args)
		}
		if _, more := errors.AsType[*postgres.MoreError](err); more {
			return jobs.Later(0)
		}
		return err
	})
	jobs.Handle(set, func(ctx context.Context, _ int64, args replayArgs) error { return s.replayMany(ctx, args) })
}

// forgetArgs is the job that ends deliveries that will not be sent. It deletes those of a deleted subscription;
// those of a discarded backlog become dead and can be replayed.
type forgetArgs struct {
	Org          orgs.ID        `json:"org"`
	Subscription SubscriptionID `json:"subscription"`
	Before       DeliveryID     `json:"before"`
	Discard      bool           `json:"discard,omitempty"`
}

// Kind names the job.
func (forgetArgs) Kind() string { return "webhooks_forget" }

// ExpireWaiting removes deliveries past their time from the lanes of paused and disabled subscriptions, which
// nothing drains.
func (s *Service) ExpireWaiting(ctx context.Context) (int, error) {
	return s.lanes.Expire(ctx, laneKind, s.clock.Now().Add(-kept))
}

func (s *Service) forgetTx(ctx context.Context, tx *postgres.Tx, args forgetArgs) error {
	args.Org = tx.Org()
	_, err := s.jobs.AddTx(ctx, tx, jobs.Job{Args: args, Queue: jobs.Maintenance})
	return err
}
