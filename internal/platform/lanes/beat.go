package lanes

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/telemetry"
)

const (
	beatEvery = time.Second
	// A drainer whose loop stands still for wedgedAfter gets no more heartbeats, so that the watchdog
	// takes its lane over.
	wedgedAfter = 20 * time.Second
)

// keepBeating tells the watchdog that this process's drainers are alive, and stops drainers that
// have lost their lane.
func (e *Engine) keepBeating(ctx context.Context) {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	seen, repeating := map[*session]pulse{}, telemetry.Repeating(e.logger)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := e.beat(ctx, seen); err != nil && ctx.Err() == nil {
				repeating.WarnContext(ctx, "lanes.no_beat", "error", err)
			}
		}
	}
}

type pulse struct {
	loops int64
	since clock.Watch
}

// A lane that is locked is left out of the update: its drainer writes just now, and a settlement
// counts as progress, too. Waiting for it would hold up the drainers of all lanes that the statement
// has locked before.
const sqlBeat = `
WITH drained AS MATERIALIZED (
    SELECT l.lane_id, l.token, l.blocked_until
    FROM lanes l
    JOIN unnest(@lanes::uuid[], @tokens::bigint[]) AS drained (lane_id, token) ON drained.lane_id = l.lane_id AND drained.token = l.token
), free AS (
    SELECT l.lane_id
    FROM lanes l
    JOIN drained d ON d.lane_id = l.lane_id AND d.token = l.token
    ORDER BY l.lane_id
    FOR UPDATE OF l SKIP LOCKED
), beaten AS (
    UPDATE lanes l SET progress = l.progress + 1 FROM free WHERE l.lane_id = free.lane_id
)
SELECT token, coalesce(blocked_until > @now, false) AS blocked FROM drained`

type heartbeat struct {
	Token   int64
	Blocked bool
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
		if one.Blocked {
			alive[one.Token].blockSeen.Store(true)
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
