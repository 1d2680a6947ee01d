package webhooks

import (
	"context"
	"errors"
	"time"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// replayTx makes new deliveries of the same events, in the order of the given ones, and adds
// them to their lanes behind live events.
func (s *Service) replayTx(ctx context.Context, tx *postgres.Tx, from ...DeliveryID) ([]Delivery, error) {
	now, minted := s.clock.Now(), make([]DeliveryID, len(from))
	for i := range minted {
		minted[i] = ids.New[deliveryKind](now)
	}
	made, err := insertReplays(ctx, tx, minted, from, now)
	if err != nil {
		return nil, err
	}
	for _, one := range made {
		row := lanes.Row{ID: one.ID.Any(), Key: one.SubjectID, Priority: replayPriority, DueAt: now}
		if err := s.lanes.AddTx(ctx, tx, laneKind, one.SubscriptionID.Any(), row); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// Replay delivers the same event to the same subscription once more.
func (s *Service) Replay(ctx context.Context, org orgs.ID, by audit.Principal, id DeliveryID) (Delivery, error) {
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Delivery, error) {
		delivery, err := deliveryByID(ctx, tx, id)
		if err != nil {
			return Delivery{}, err
		}
		if err := deliverable(ctx, tx, delivery.SubscriptionID); err != nil {
			return Delivery{}, err
		}
		made, err := s.replayTx(ctx, tx, id)
		if err == nil && len(made) == 0 {
			err = fault.NotFound("webhook delivery") // its event is gone
		}
		if err != nil {
			return Delivery{}, err
		}
		return made[0], s.audit.RecordTx(ctx, tx, by, "webhook_delivery.replayed", id.String(), nil)
	})
}

// deliverable refuses subscriptions that were disabled or are gone.
func deliverable(ctx context.Context, tx *postgres.Tx, id SubscriptionID) error {
	subscription, err := subscriptionByID(ctx, tx, id)
	if err != nil {
		return notFound(err)
	}
	if subscription.Status == Disabled {
		return disabled(subscription)
	}
	return nil
}

// Test sends an example event to the endpoint, signed like a real one.
func (s *Service) Test(ctx context.Context, org orgs.ID, id SubscriptionID, example events.Draft) (Delivery, error) {
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Delivery, error) {
		if err := deliverable(ctx, tx, id); err != nil {
			return Delivery{}, err
		}
		made, err := s.events.RecordForTx(ctx, tx, id.Any(), example)
		if err != nil {
			return Delivery{}, err
		}
		return deliveryByID(ctx, tx, ids.From[deliveryKind](made))
	})
}

// ReplayDead replays dead deliveries in bulk. It counts them, and a job replays them at a
// pace that leaves room for live events.
func (s *Service) ReplayDead(ctx context.Context, org orgs.ID, by audit.Principal, draft ReplayDraft) (Replayed, error) {
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Replayed, error) {
		if draft.SubscriptionID != nil {
			_, err := subscriptionByID(ctx, tx, *draft.SubscriptionID)
			if errors.Is(err, postgres.ErrNoRow) {
				err = fault.NotFound("webhook subscription").At("subscription_id")
			}
			if err != nil {
				return Replayed{}, err
			}
		}
		filter := Filter{
			SubscriptionID: draft.SubscriptionID, EventType: draft.EventType, Status: new(Dead),
			CreatedAfter: draft.CreatedAfter, CreatedBefore: draft.CreatedBefore,
		}
		matched, err := countReplayable(ctx, tx, filter, s.clock.Now())
		if err != nil || matched == 0 || draft.DryRun {
			return Replayed{Matched: matched}, err
		}
		begun, err := s.beginReplayTx(ctx, tx, filter)
		if err != nil {
			return Replayed{}, err
		}
		return Replayed{Matched: matched, Replayed: matched},
			s.audit.RecordTx(ctx, tx, by, "webhook_deliveries.replayed", begun.String(), map[string]any{"matched": matched})
	})
}

type replayID = ids.Public[replayKind]

type replayKind struct{}

func (replayKind) Prefix() string { return "" }

// replayArgs is the job of a bulk replay. Its row in webhook_replays says how far it is.
type replayArgs struct {
	Org    orgs.ID  `json:"org"`
	Replay replayID `json:"replay"`
}

// Kind names the job.
func (replayArgs) Kind() string { return "webhooks_replay" }

func (s *Service) addReplayJobTx(ctx context.Context, tx *postgres.Tx, id replayID) error {
	_, err := s.jobs.AddTx(ctx, tx, jobs.Job{Args: replayArgs{Org: tx.Org(), Replay: id}, Queue: jobs.Maintenance})
	return err
}

func (s *Service) beginReplayTx(ctx context.Context, tx *postgres.Tx, filter Filter) (replayID, error) {
	now := s.clock.Now()
	begun := replay{
		ID: ids.New[replayKind](now), SubscriptionID: filter.SubscriptionID, EventType: filter.EventType,
		NextID: filter.floor(now), UntilID: ids.Floor[deliveryKind](now.Add(time.Millisecond)),
	}
	if filter.CreatedBefore != nil && filter.CreatedBefore.Before(now) {
		begun.UntilID = ids.Floor[deliveryKind](*filter.CreatedBefore)
	}
	if err := insertReplay(ctx, tx, begun); err != nil {
		return begun.ID, err
	}
	return begun.ID, s.addReplayJobTx(ctx, tx, begun.ID)
}

// resumeReplaysTx adds the jobs of bulk replays again after a move.
func (s *Service) resumeReplaysTx(ctx context.Context, tx *postgres.Tx) error {
	underWay, err := replaysUnderWay(ctx, tx)
	for _, id := range underWay {
		if err := s.addReplayJobTx(ctx, tx, id); err != nil {
			return err
		}
	}
	return err
}

const (
	// A bulk replay makes replayAtOnce deliveries every replayEvery, so that live events pass
	// between. After replayPortions of them the job is put back, so that other jobs get a turn.
	replayAtOnce   = 50
	replayEvery    = 100 * time.Millisecond
	replayPortions = 10
)

// replayMany replays dead deliveries, oldest first.
func (s *Service) replayMany(ctx context.Context, args replayArgs) error {
	for range replayPortions {
		more, err := s.replaySome(ctx, args)
		if errors.Is(err, postgres.ErrNotOpenHere) {
			return nil // it is being moved: the job is added again where it opens
		}
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
		underWay, err := lockReplay(ctx, tx, args.Replay)
		if errors.Is(err, postgres.ErrNoRow) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		dead, err := replayable(ctx, tx, underWay, replayAtOnce+1)
		if err != nil {
			return false, err
		}
		if more = len(dead) > replayAtOnce; more {
			err = moveReplay(ctx, tx, args.Replay, dead[replayAtOnce])
			dead = dead[:replayAtOnce]
		} else {
			err = endReplay(ctx, tx, args.Replay)
		}
		if err != nil || len(dead) == 0 {
			return false, err
		}
		_, err = s.replayTx(ctx, tx, dead...)
		return more, err
	})
}
