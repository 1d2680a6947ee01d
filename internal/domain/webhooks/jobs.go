package webhooks

import (
	"context"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Handle registers the jobs.
func (s *Service) Handle(set *jobs.Set) {
	jobs.Handle(set, func(ctx context.Context, _ int64, args forgetArgs) error {
		return forgetDeliveries(ctx, s.work, args.Org, args.Subscription, args.Before)
	})
	jobs.Handle(set, func(ctx context.Context, _ int64, args replayArgs) error { return s.replayMany(ctx, args) })
}

// forgetArgs is the job that deletes deliveries that will not be sent: those of a deleted
// subscription, and a discarded backlog.
type forgetArgs struct {
	Org          orgs.ID        `json:"org"`
	Subscription SubscriptionID `json:"subscription"`
	Before       DeliveryID     `json:"before"`
}

// Kind names the job.
func (forgetArgs) Kind() string { return "webhooks_forget" }

func (s *Service) forgetTx(ctx context.Context, tx *postgres.Tx, id SubscriptionID, before DeliveryID) error {
	_, err := s.jobs.AddTx(ctx, tx, jobs.Job{Args: forgetArgs{Org: tx.Org(), Subscription: id, Before: before}, Queue: jobs.Maintenance})
	return err
}
