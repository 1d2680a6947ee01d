package webhooks

import (
	"context"

	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Handle registers the jobs.
func (s *Service) Handle(set *jobs.Set) {
	jobs.Handle(set, func(ctx context.Context, _ int64, args forgetArgs) error { return s.forget(ctx, args) })
	jobs.Handle(set, func(ctx context.Context, _ int64, args replayArgs) error { return s.replayMany(ctx, args) })
}

// restoreTx adds the jobs again that were under way when the organization moved.
func (s *Service) restoreTx(ctx context.Context, tx *postgres.Tx) error {
	if err := s.resumeForgetsTx(ctx, tx); err != nil {
		return err
	}
	return s.resumeReplaysTx(ctx, tx)
}

// ExpireWaiting removes deliveries past their time from the lanes of paused and disabled subscriptions, which
// nothing drains.
func (s *Service) ExpireWaiting(ctx context.Context) (int, error) {
	return s.lanes.Expire(ctx, laneKind, s.clock.Now().Add(-kept))
}
