package webhooks

import (
	"context"
	"errors"
	"time"

	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Handle registers the jobs.
func (s *Service) Handle(set *jobs.Set) {
	jobs.Handle(set, func(ctx context.Context, _ int64, args forgetArgs) error { return s.forget(ctx, args) })
	jobs.Handle(set, func(ctx context.Context, _ int64, args replayArgs) error { return s.replayMany(ctx, args) })
}

const (
	// A bulk replay adds so many deliveries in so much time, in portions that live ones pass
	// between, and makes room for other jobs after so many of them.
	replayAtOnce   = 50
	replayEvery    = 100 * time.Millisecond
	replayPortions = 10
)

// forgetArgs is the job that removes what will not be delivered.
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

// What waits in the lane came after it was emptied, if in the same millisecond.
const sqlForget = `
DELETE FROM webhook_deliveries
WHERE org_id = @org_id
  AND id IN (
      SELECT d.id
      FROM webhook_deliveries d
      WHERE d.org_id = @org_id AND d.subscription_id = @subscription_id AND d.id < @before AND d.status IN ('pending', 'failed')
        AND NOT EXISTS (SELECT FROM lane_rows r WHERE r.lane_id = @subscription_id AND r.id = d.id)
      LIMIT @limit)
RETURNING id`

func (s *Service) forget(ctx context.Context, args forgetArgs) error {
	return postgres.DeleteInPortions(ctx, s.work, args.Org, sqlForget, postgres.Args{
		"subscription_id": args.Subscription, "before": args.Before,
	})
}

// replayArgs is the job of a bulk replay. How far it came stands in the table.
type replayArgs struct {
	Org    orgs.ID                `json:"org"`
	Replay ids.Public[replayKind] `json:"replay"`
}

type replayKind struct{}

func (replayKind) Prefix() string { return "" }

// Kind names the job.
func (replayArgs) Kind() string { return "webhooks_replay" }

const sqlBeginReplay = `
INSERT INTO webhook_replays (org_id, id, subscription_id, event_type, next_id, until_id)
VALUES (@org_id, @id, @subscription_id, @event_type, @next_id, @until_id)`

func (s *Service) beginReplayTx(ctx context.Context, tx *postgres.Tx, filter Filter) error {
	now := s.clock.Now()
	replay := ids.New[replayKind](now)
	_, args := filter.where(now)
	until := ids.Floor[deliveryKind](now.Add(time.Millisecond))
	if filter.CreatedBefore != nil && filter.CreatedBefore.Before(now) {
		until = ids.Floor[deliveryKind](*filter.CreatedBefore)
	}
	_, err := tx.Exec(ctx, sqlBeginReplay, postgres.Args{
		"id": replay, "subscription_id": filter.SubscriptionID, "event_type": filter.EventType,
		"next_id": args["floor"], "until_id": until,
	})
	if err != nil {
		return err
	}
	_, err = s.jobs.AddTx(ctx, tx, jobs.Job{Args: replayArgs{Org: tx.Org(), Replay: replay}, Queue: jobs.Maintenance})
	return err
}

type replay struct {
	SubscriptionID *SubscriptionID
	EventType      *events.Type
	NextID         DeliveryID
	UntilID        DeliveryID
}

const (
	sqlLockReplay = `
SELECT subscription_id, event_type, next_id, until_id
FROM webhook_replays
WHERE org_id = @org_id
  AND id = @id
FOR UPDATE`
	sqlReplayable = `
SELECT id
FROM webhook_deliveries
WHERE org_id = @org_id
  AND troubled
  AND status = 'dead'
  AND id >= @next_id
  AND id < @until_id
  AND (@subscription_id::uuid IS NULL OR subscription_id = @subscription_id)
  AND (@event_type::text IS NULL OR event_type = @event_type)
ORDER BY id
LIMIT @limit`
	sqlMoveReplay = `
UPDATE webhook_replays
SET next_id = @next_id
WHERE org_id = @org_id
  AND id = @id`
	sqlEndReplay = `
DELETE FROM webhook_replays
WHERE org_id = @org_id
  AND id = @id`
)

// replayMany replays dead deliveries, oldest first, and comes back for more.
func (s *Service) replayMany(ctx context.Context, args replayArgs) error {
	for range replayPortions {
		more, err := s.replaySome(ctx, args)
		if err != nil || !more {
			return err
		}
		select {
		case <-ctx.Done():
			return jobs.Later(0)
		case <-time.After(replayEvery):
		}
	}
	return jobs.Later(replayEvery)
}

// replaySome replays one portion, and tells whether there is more.
func (s *Service) replaySome(ctx context.Context, args replayArgs) (more bool, err error) {
	return postgres.InTx(ctx, s.work, args.Org, func(tx *postgres.Tx) (bool, error) {
		at, err := postgres.One[replay](ctx, tx, sqlLockReplay, postgres.Args{"id": args.Replay})
		if errors.Is(err, postgres.ErrNoRow) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		dead, err := postgres.Many[DeliveryID](ctx, tx, sqlReplayable, postgres.Args{
			"next_id": at.NextID, "until_id": at.UntilID, "subscription_id": at.SubscriptionID, "event_type": at.EventType,
			"limit": replayAtOnce + 1,
		})
		if err != nil {
			return false, err
		}
		if len(dead) <= replayAtOnce {
			if _, err := tx.Exec(ctx, sqlEndReplay, postgres.Args{"id": args.Replay}); err != nil || len(dead) == 0 {
				return false, err
			}
			_, err := s.replayTx(ctx, tx, dead...)
			return false, err
		}
		if _, err := tx.Exec(ctx, sqlMoveReplay, postgres.Args{"id": args.Replay, "next_id": dead[replayAtOnce]}); err != nil {
			return false, err
		}
		_, err = s.replayTx(ctx, tx, dead[:replayAtOnce]...)
		return true, err
	})
}

// Who waits behind a retry of the same subject is due with it, and comes after it by its id.
const sqlRestore = `
WITH waiting AS (
    ` + lanes.Adding + `
    SELECT d.subscription_id, (d.replayed_from IS NOT NULL)::int,
           CASE WHEN d.subject_id IS NULL THEN coalesce(d.next_attempt_at, @now)
                ELSE max(coalesce(d.next_attempt_at, @now)) OVER (PARTITION BY d.subscription_id, d.subject_id ORDER BY d.id) END,
           d.id, d.subject_id
    FROM webhook_deliveries d
    JOIN webhook_subscriptions s ON s.org_id = @org_id AND s.id = d.subscription_id
    WHERE d.org_id = @org_id
      AND d.status IN ('pending', 'failed')
      AND d.id >= s.backlog_from
    RETURNING lane_id
)
` + lanes.Touched + `
WHERE lane_id IN (SELECT id FROM webhook_subscriptions WHERE org_id = @org_id)
ORDER BY lane_id`

// restoreTx makes the lanes of an organization again after it moved, and goes on with bulk
// replays that were under way.
func (s *Service) restoreTx(ctx context.Context, tx *postgres.Tx) error {
	subscriptions, err := allSubscriptions(ctx, tx)
	if err != nil {
		return err
	}
	for _, subscription := range subscriptions {
		lane := subscription.ID.Any()
		if err := s.lanes.OpenTx(ctx, tx, laneKind, lane); err != nil {
			return err
		}
		until := subscription.BreakerUntil
		if subscription.Status != Active {
			until = new(lanes.Forever())
		}
		if until != nil {
			if err := s.lanes.BlockTx(ctx, tx, lane, *until); err != nil {
				return err
			}
		}
	}
	if err := s.lanes.AddedTx(ctx, tx, laneKind, sqlRestore, postgres.Args{"now": s.clock.Now()}); err != nil {
		return err
	}
	return s.resumeReplaysTx(ctx, tx)
}

const sqlReplays = `
SELECT id
FROM webhook_replays
WHERE org_id = @org_id`

func (s *Service) resumeReplaysTx(ctx context.Context, tx *postgres.Tx) error {
	underWay, err := postgres.Many[ids.Public[replayKind]](ctx, tx, sqlReplays, nil)
	for _, replay := range underWay {
		if _, err := s.jobs.AddTx(ctx, tx, jobs.Job{Args: replayArgs{Org: tx.Org(), Replay: replay}, Queue: jobs.Maintenance}); err != nil {
			return err
		}
	}
	return err
}
