package lanes

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	beatEvery = time.Second
	// wedgedAfter is when a drain whose loop stands still is no longer called alive.
	wedgedAfter = 20 * time.Second
)

// keepBeating tells the watchdog that this process's drains are alive, and tells drains
// that have lost their lane to stop.
func (e *Engine) keepBeating(ctx context.Context) {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	seen := map[*drain]pulse{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := e.beat(ctx, seen); err != nil && ctx.Err() == nil {
				e.logger.WarnContext(ctx, "lanes.no_beat", "error", err)
			}
		}
	}
}

type pulse struct {
	loops int64
	since clock.Watch
}

const sqlBeat = `
WITH mine AS (
    SELECT l.lane_id
    FROM lanes l
    JOIN unnest(@lanes::uuid[], @tokens::bigint[]) AS drained (lane_id, token) ON drained.lane_id = l.lane_id AND drained.token = l.token
    ORDER BY l.lane_id
    FOR UPDATE OF l
)
UPDATE lanes l
SET progress = l.progress + 1
FROM mine
WHERE l.lane_id = mine.lane_id
RETURNING l.token, coalesce(l.blocked_until > @now, false) AS held`

type heartbeat struct {
	Token int64
	Held  bool
}

func (e *Engine) beat(ctx context.Context, seen map[*drain]pulse) error {
	alive := e.living(seen)
	if len(alive) == 0 {
		return nil
	}
	lanes, tokens := make([]ids.Any, 0, len(alive)), make([]int64, 0, len(alive))
	for token, d := range alive {
		lanes, tokens = append(lanes, d.ID), append(tokens, token)
	}
	beats, err := postgres.Many[heartbeat](ctx, e.db.System("beat of the lanes"), sqlBeat,
		postgres.Args{"lanes": lanes, "tokens": tokens, "now": e.clock.Now()})
	if err != nil {
		return err
	}
	for _, one := range beats {
		if one.Held {
			alive[one.Token].held.Store(true)
			alive[one.Token].nudge()
		}
		delete(alive, one.Token)
	}
	for _, d := range alive {
		if !d.leaving.Load() {
			d.lost(errLost)
		}
	}
	return nil
}

// living are the drains that own their lane, as far as they know, and whose loop moves.
func (e *Engine) living(seen map[*drain]pulse) map[int64]*drain {
	e.mu.Lock()
	defer e.mu.Unlock()
	alive := make(map[int64]*drain, len(e.drains))
	for d := range e.drains {
		loops := d.loops.Load()
		if last, known := seen[d]; !known || last.loops != loops {
			seen[d] = pulse{loops: loops, since: clock.StartWatch()}
		} else if last.since.Elapsed() > wedgedAfter {
			continue
		}
		if loops > 0 && !d.leaving.Load() {
			alive[d.token] = d
		}
	}
	for d := range seen {
		if _, there := e.drains[d]; !there {
			delete(seen, d)
		}
	}
	return alive
}

// nudge has the drain look for more rows.
func (d *drain) nudge() {
	select {
	case d.nudged <- struct{}{}:
	default:
	}
}
