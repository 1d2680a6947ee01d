package lanes

import (
	"context"
	"errors"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/telemetry"
)

const (
	watchEvery = 5 * time.Second
	sweepEvery = 10 * time.Second
	// deadAfter is how long a lane's progress may stand still while rows are due.
	deadAfter = 15 * time.Second
	// sweepLanes bounds one sweep; the next goes on.
	sweepLanes = 1_000
)

// keepWatch lets one process of the cell find lanes that have no drainer although rows are due:
// idle lanes whose wake-up was lost, and lanes whose drainer died.
func (e *Engine) keepWatch(ctx context.Context) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	repeating := telemetry.Repeating(e.logger)
	for ctx.Err() == nil {
		err := e.db.Alone(ctx, "watch over lanes", func(ctx context.Context) error {
			dog := watchdog{e: e, seen: map[ids.Any]sighting{}}
			for swept := clock.StartWatch(); ; {
				err := dog.look(ctx)
				if swept.Elapsed() >= sweepEvery {
					err = errors.Join(err, e.lanes.Sweep(ctx))
					swept = clock.StartWatch()
				}
				if err != nil && ctx.Err() == nil {
					repeating.WarnContext(ctx, "lanes.unwatched", "error", err) // the lanes seen so far stay known
				}
				select {
				case <-ctx.Done():
					return nil
				case <-ticker.C:
				}
			}
		})
		if err != nil && !errors.Is(err, postgres.ErrBusy) && ctx.Err() == nil {
			repeating.WarnContext(ctx, "lanes.unwatched", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// sqlWaiting skips from lane to lane through the primary key of lane_rows: its cost grows with
// the lanes that have rows, not with the rows.
const sqlWaiting = `
WITH RECURSIVE waiting AS (
    (SELECT lane_id FROM lane_rows ORDER BY lane_id LIMIT 1)
    UNION ALL
    SELECT (SELECT r.lane_id FROM lane_rows r WHERE r.lane_id > w.lane_id ORDER BY r.lane_id LIMIT 1)
    FROM waiting w
    WHERE w.lane_id IS NOT NULL
)`

const sqlSweep = sqlWaiting + `
SELECT l.lane_id
FROM waiting w
JOIN lanes l USING (lane_id)
WHERE NOT l.armed
  AND (l.timer_at IS NULL OR l.timer_at < @now OR EXISTS (
      SELECT
      FROM (VALUES (0), (1)) AS p (priority)
      CROSS JOIN LATERAL (
          SELECT r.due_at FROM lane_rows r WHERE r.lane_id = l.lane_id AND r.priority = p.priority ORDER BY r.due_at LIMIT 1
      ) first
      WHERE first.due_at < least(@now, l.timer_at)))
LIMIT @limit`

// Deletes paces that are over, and fault counts that are older than a day.
const sqlForget = `
WITH keys AS (
    DELETE FROM lane_keys WHERE holder IS NULL AND until < @now
)
DELETE FROM lane_faults WHERE NOT aside AND at < @yesterday`

// Sweep wakes idle lanes whose wake-up was lost with its process, and deletes keys, faults and rows of closed
// lanes that mean nothing any more.
func (l *Lanes) Sweep(ctx context.Context) error {
	now := l.clock.Now()
	forgotten, err := postgres.Many[ids.Any](ctx, l.db.System("sweep lanes"), sqlSweep, postgres.Args{"now": now, "limit": sweepLanes})
	if err != nil {
		return err
	}
	if len(forgotten) > 0 {
		if err := l.look(ctx, forgotten); err != nil {
			return err
		}
	}
	_, err = postgres.InSystemTx(ctx, l.db, "sweep lanes", func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(ctx, sqlForget, postgres.Args{"now": now, "yesterday": now.Add(-24 * time.Hour)})
	})
	return errors.Join(err, l.clearClosed(ctx))
}

// watchdog finds lanes whose owner is dead: their progress stands still. It measures by its own
// monotonic time and never compares the clocks of two machines.
type watchdog struct {
	e    *Engine
	seen map[ids.Any]sighting
}

type sighting struct {
	token, progress int64
	since           clock.Watch
}

type overdueLane struct {
	laneState

	Token    int64
	Progress int64
}

const sqlOverdue = sqlWaiting + `
SELECT l.lane_id, l.org_id, l.kind, l.armed, l.slow, l.token, l.progress
FROM waiting w
JOIN lanes l USING (lane_id)
WHERE l.armed AND l.token IS NOT NULL AND (l.blocked_until IS NULL OR l.blocked_until < @overdue)
  AND EXISTS (
      SELECT
      FROM (VALUES (0), (1)) AS p (priority)
      CROSS JOIN LATERAL (
          SELECT r.due_at FROM lane_rows r WHERE r.lane_id = l.lane_id AND r.priority = p.priority ORDER BY r.due_at LIMIT 1
      ) first
      WHERE first.due_at < @overdue)
  AND NOT EXISTS (
      SELECT FROM ` + jobs.Table + ` j WHERE j.id = l.token AND j.state IN ('available', 'scheduled', 'retryable', 'pending'))
ORDER BY l.lane_id`

// look takes over lanes that stood still for too long. A lane whose job waits for a worker is
// left alone, so that overload does not get worse.
func (w *watchdog) look(ctx context.Context) error {
	overdue := w.e.clock.Now().Add(-watchEvery)
	lanes, err := postgres.Many[overdueLane](ctx, w.e.db.System("watch lanes"), sqlOverdue, postgres.Args{"overdue": overdue})
	if err != nil {
		return err
	}
	seen := make(map[ids.Any]sighting, len(lanes))
	var dead []wake
	for _, lane := range lanes {
		last, known := w.seen[lane.LaneID]
		if !known || last.token != lane.Token || last.progress != lane.Progress {
			last = sighting{token: lane.Token, progress: lane.Progress, since: clock.StartWatch()}
		}
		seen[lane.LaneID] = last
		if last.since.Elapsed() >= deadAfter {
			owner := lane.wake()
			owner.token = lane.Token
			dead = append(dead, owner)
		}
	}
	w.seen = seen
	if err := w.e.takeOver(ctx, dead); err != nil {
		return err
	}
	for _, lane := range dead {
		delete(w.seen, lane.ID)
	}
	return nil
}

const sqlTakeOver = `
WITH given AS (
    SELECT * FROM unnest(@lanes::uuid[], @tokens::bigint[], @before::bigint[]) AS given (lane_id, token, before)
), dead AS (
    SELECT l.lane_id FROM lanes l JOIN given ON given.lane_id = l.lane_id AND given.before = l.token ORDER BY l.lane_id FOR UPDATE OF l
)
UPDATE lanes l
SET token = given.token, progress = l.progress + 1, deaths = l.deaths + 1
FROM given JOIN dead USING (lane_id)
WHERE l.lane_id = given.lane_id
RETURNING l.lane_id`

// takeOver gives lanes new owners; the old ones are fenced off.
func (e *Engine) takeOver(ctx context.Context, dead []wake) error {
	if len(dead) == 0 {
		return nil
	}
	taken, err := postgres.InSystemTx(ctx, e.db, "take lanes over", func(tx *postgres.Tx) ([]wake, error) {
		tokens, err := e.lanes.addWakesTx(ctx, tx, dead, time.Time{})
		if err != nil {
			return nil, err
		}
		return e.lanes.ownTx(ctx, tx, sqlTakeOver, dead, tokens)
	})
	if err != nil {
		return err
	}
	e.takeovers.Add(int64(len(taken)))
	e.logger.WarnContext(ctx, "lanes.taken_over", "lanes", len(taken))
	e.offer(taken, nil)
	return nil
}
