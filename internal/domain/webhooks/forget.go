package webhooks

import (
	"context"
	"errors"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// forgetArgs is the job that ends deliveries that will not be sent. It deletes those of a deleted subscription;
// those of a discarded backlog become dead and can be replayed. Its row in webhook_forgets is there until it has ended.
type forgetArgs struct {
	Org          orgs.ID        `json:"org"`
	Subscription SubscriptionID `json:"subscription"`
	Before       DeliveryID     `json:"before"`
	Discard      bool           `json:"discard,omitempty"`
	// After is the last delivery that the jobs before this one read.
	After ids.Any `json:"after,omitzero"`
}

// Kind names the job.
func (forgetArgs) Kind() string { return "webhooks_forget" }

func (s *Service) forgetTx(ctx context.Context, tx *postgres.Tx, args forgetArgs) error {
	args.Org = tx.Org()
	if err := insertForget(ctx, tx, args); err != nil {
		return err
	}
	return s.addForgetJobTx(ctx, tx, args)
}

func (s *Service) addForgetJobTx(ctx context.Context, tx *postgres.Tx, args forgetArgs) error {
	_, err := s.jobs.AddTx(ctx, tx, jobs.Job{Args: args, Queue: jobs.Maintenance})
	return err
}

// resumeForgetsTx adds the jobs again after a move.
func (s *Service) resumeForgetsTx(ctx context.Context, tx *postgres.Tx) error {
	underWay, err := forgetsUnderWay(ctx, tx)
	for _, args := range underWay {
		if err := s.addForgetJobTx(ctx, tx, args); err != nil {
			return err
		}
	}
	return err
}

// forget ends the deliveries. If the organization is being moved the job ends, because it is added again where that opens.
func (s *Service) forget(ctx context.Context, args forgetArgs) error {
	err := s.forgetSome(ctx, args)
	if errors.Is(err, postgres.ErrNotOpenHere) {
		return nil
	}
	return err
}

// forgetSome deletes the rows in the lane, then ends the deliveries. If its turn ends during the first, this job goes on; during
// the second, another job goes on after the last delivery that was read.
func (s *Service) forgetSome(ctx context.Context, args forgetArgs) error {
	limited := postgres.WithBudget(ctx, jobs.Turn)
	err := s.lanes.Discard(limited, lanes.Lane{ID: args.Subscription.Any(), Org: args.Org, Kind: laneKind}, args.Before.Any())
	if _, more := errors.AsType[*postgres.MoreError](err); more {
		return jobs.Later(0)
	}
	if err != nil {
		return err
	}
	err = forgetDeliveries(limited, s.work, args)
	more, unfinished := errors.AsType[*postgres.MoreError](err)
	if err != nil && !unfinished {
		return err
	}
	_, err = postgres.InTx(ctx, s.work, args.Org, func(tx *postgres.Tx) (struct{}, error) {
		if unfinished {
			args.After = more.After
			return struct{}{}, s.addForgetJobTx(ctx, tx, args)
		}
		return struct{}{}, endForget(ctx, tx, args)
	})
	return err
}
