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
	// wedgedAfter is when a drainer whose loop stands still is no longer called alive.
	wedgedAfter = 20 * time.Second
)

// keepBeating tells the watchdog that this process's drainers are alive, and stops drainers that
// have lost their lane.
func (e *Engine) keepBeating(ctx context.Context) {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	seen := map[*session]pulse{}
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

func (e *Engine) beat(ctx context.Context, seen map[*session]pulse) error {
	alive := e.living(seen)
	if len(alive) == 0 {
		return nil
	}
	lanes, tokens := make([]ids.Any, 0, len(alive)), make([]int64, 0, len(alive))
	for token, s := range alive {
		lanes, tokens = append(lanes, s.ID), append(tokens, token)
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
	for _, s := range alive {
		if !s.leaving.Load() {
			s.lost(errLost)
		}
	}
	return nil
}

// living are the sessions that own their lane, as far as they know, and whose drainer makes
// progress.
func (e *Engine) living(seen map[*session]pulse) map[int64]*session {
	e.mu.Lock()
	defer e.mu.Unlock()
	alive := make(map[int64]*session, len(e.sessions))
	for s := range e.sessions {
		loops := s.loops.Load()
		if last, known := seen[s]; !known || last.loops != loops {
			seen[s] = pulse{loops: loops, since: clock.StartWatch()}
		} else if last.since.Elapsed() > wedgedAfter {
			continue
		}
		if loops > 0 && !s.leaving.Load() {
			alive[s.token] = s
		}
	}
	for s := range seen {
		if _, there := e.sessions[s]; !there {
			delete(seen, s)
		}
	}
	return alive
}
