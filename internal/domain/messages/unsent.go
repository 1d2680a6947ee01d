package messages

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/media"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/hold"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// A database that was restored from a backup has messages as unsent that may have been sent after the time of the
// backup. While the cell is on hold no row of a lane is taken; DecideUnsent then decides about these messages, and the
// lanes find the decision when the hold is released.

// attemptsGap is added to the number of the last attempt of a message that is sent after a restore. The numbers in
// between may have been used after the time of the backup: no two copies get the same reference, and callbacks tell
// which copy is the older one. A message has at most five tries and one resend, and a few that were not called.
const attemptsGap = 100

// The attempt that is under way, or that may have been made after the time of the backup, is open from now on and its
// message is never sent again (resent). With send, messages without an attempt under way stay as they are.
const sqlLeaveOpen = `-- locks: message_states, send_attempts
WITH locked AS MATERIALIZED (
    SELECT st.id, st.attempt, st.begun_at, st.begun_at IS NULL AND @send AS sendable
    FROM message_states st
    WHERE st.org_id = @org_id AND st.id = ANY (@ids) AND st.id BETWEEN @least AND @greatest AND st.status IN ('queued', 'pending')
    ORDER BY st.id
    FOR NO KEY UPDATE
), noted AS (
    INSERT INTO send_attempts (org_id, message_id, attempt, begun_at, ended_at, outcome)
    SELECT @org_id, id, attempt, begun_at, @now, 'unknown' FROM locked WHERE begun_at IS NOT NULL
    ON CONFLICT DO NOTHING
)
UPDATE message_states st
SET attempt = st.attempt + CASE WHEN l.sendable THEN @gap WHEN l.begun_at IS NULL THEN 1 ELSE 0 END,
    begun_at = CASE WHEN NOT l.sendable THEN @now::timestamptz END,
    last_begun_at = CASE WHEN l.begun_at IS NULL AND NOT l.sendable THEN @now::timestamptz ELSE st.last_begun_at END,
    resent = st.resent OR NOT l.sendable,
    status = CASE WHEN l.sendable THEN st.status ELSE 'pending' END
FROM locked l
WHERE st.org_id = @org_id
  AND st.id = l.id
  AND st.id BETWEEN @least AND @greatest`

func leaveOpen(ctx context.Context, tx *postgres.Tx, all []ID, send bool, now time.Time) (int, error) {
	least, greatest := span(all)
	changed, err := tx.Exec(ctx, sqlLeaveOpen, postgres.Args{
		"ids": all, "least": least, argGreatest: greatest, "send": send, "gap": attemptsGap, "now": now,
	})
	return int(changed), err
}

const sqlRecall = `
UPDATE message_states st
SET attempt = greatest(st.attempt, g.attempt)
FROM unnest(@ids::uuid[], @attempts::smallint[]) AS g (id, attempt)
WHERE st.org_id = @org_id
  AND st.id = g.id
  AND st.id BETWEEN @least AND @greatest`

// recallAttempts writes the number of the last attempt of messages that were sent, or may have been, after the time of
// the backup. Their states are locked.
func recallAttempts(ctx context.Context, tx *postgres.Tx, all []*Message) error {
	if len(all) == 0 {
		return nil
	}
	args := postgres.Columns(all,
		postgres.Col("ids", func(m *Message) ID { return m.ID }),
		postgres.Col("attempts", func(m *Message) int { return m.Attempt }))
	args["least"], args[argGreatest] = span(postgres.Each(all, func(m *Message) ID { return m.ID }))
	_, err := tx.Exec(ctx, sqlRecall, args)
	return err
}

// DecideUnsent decides about the messages that were accepted before the hold and are unsent. It calls progress after
// each transaction with how many it decided about, and returns their number. After an error, or if the process dies,
// it may be called again, also with another decision. The cell is on hold, so that none of them is being sent.
func (s *Service) DecideUnsent(
	ctx context.Context, held *hold.State, unsent hold.Unsent, progress func(decided int),
) (decided int, err error) {
	if err := s.decideWaiting(ctx, held, unsent); err != nil {
		return 0, err
	}
	err = s.lanes.EachOlder(ctx, laneKind, held.HeldAt, func(lane lanes.Lane, rows []ids.Any) error {
		count, err := postgres.InTx(ctx, s.work, lane.Org, func(tx *postgres.Tx) (int, error) {
			if err := s.lanes.LockTx(ctx, tx, lane.ID); err != nil {
				return 0, err
			}
			count, err := s.decideTx(ctx, tx, accounts.FromLane(lane.ID), postgres.Each(rows, ids.From[kind]), unsent)
			if err != nil {
				return 0, err
			}
			// A row that waits for a retry would learn of the decision only then.
			return count, s.lanes.HurryTx(ctx, tx, laneKind, lane.ID)
		})
		if err == nil {
			decided += count
			progress(decided)
		}
		return err
	})
	return decided, err
}

// decideWaiting decides about messages that wait for uploads. Those that are not to be sent leave the media lane, and
// are decided about like all others. The others get their gap of attempts, and wait on.
func (s *Service) decideWaiting(ctx context.Context, held *hold.State, unsent hold.Unsent) error {
	return s.lanes.EachOlder(ctx, media.LaneKind, held.HeldAt, func(lane lanes.Lane, rows []ids.Any) error {
		_, err := postgres.InTx(ctx, s.work, lane.Org, func(tx *postgres.Tx) (int, error) {
			if err := s.lanes.LockTx(ctx, tx, lane.ID); err != nil {
				return 0, err
			}
			if unsent == hold.Send {
				return leaveOpen(ctx, tx, postgres.Each(rows, ids.From[kind]), true, s.clock.Now())
			}
			return 0, s.media.WithdrawTx(ctx, tx, rows)
		})
		return err
	})
}

func (s *Service) decideTx(ctx context.Context, tx *postgres.Tx, of accounts.ID, all []ID, unsent hold.Unsent) (int, error) {
	if unsent == hold.Fail {
		return s.failTx(ctx, tx, of, all)
	}
	return leaveOpen(ctx, tx, all, unsent == hold.Send, s.clock.Now())
}

// failTx ends those of the messages that are unsent, with the attempt that is under way or may have been made.
func (s *Service) failTx(ctx context.Context, tx *postgres.Tx, of accounts.ID, all []ID) (failed int, err error) {
	account, err := s.accounts.GetTx(ctx, tx, of)
	if fault.Of(err) == fault.ResourceNotFound {
		return 0, nil // its messages are being purged
	}
	if err != nil {
		return 0, err
	}
	messages, err := lockMessages(ctx, tx, of, all)
	if err != nil {
		return 0, err
	}
	b := newBook(s, account)
	for _, message := range messages {
		if message.Status != Queued && message.Status != Pending {
			continue
		}
		if message.BegunAt == nil {
			message.Attempt, message.BegunAt = message.Attempt+1, &b.now
			b.forgotten = append(b.forgotten, message)
		}
		b.attempts = append(b.attempts, attempt{
			MessageID: message.ID, Attempt: message.Attempt, BegunAt: *message.BegunAt, EndedAt: b.now, Outcome: "unknown",
		})
		b.fail(message, fault.UpstreamError, unknownWords, nil)
		failed++
	}
	return failed, b.writeTx(ctx, tx)
}
