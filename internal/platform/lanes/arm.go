package lanes

import (
	"context"
	"sync"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// No wake-up is lost. A transaction that adds rows to an idle lane commits a job with them. One
// that finds the lane armed looks at it again after its commit, and a drainer looks again after
// it disarmed. Let c be the commit of the row, a the adder's look, d the commit of the disarming
// and r the drainer's look. The row is missed only if a comes before d and r before c; but a comes
// after c and r after d, so that c < a < d < r < c, which cannot be. The sweep finds what a crash
// in between leaves behind.

// armTx wakes idle lanes, given in the order of their ids, and returns those that no other
// transaction woke meanwhile.
func (l *Lanes) armTx(ctx context.Context, tx *postgres.Tx, idle []wake) ([]wake, error) {
	if len(idle) == 0 {
		return nil, nil
	}
	tokens, err := l.addWakesTx(ctx, tx, idle, time.Time{})
	if err != nil {
		return nil, err
	}
	if len(idle) == 1 {
		armed, err := tx.Exec(ctx, sqlArmOne, postgres.Args{"lane_id": idle[0].ID, "token": tokens[0]})
		if err != nil || armed == 0 {
			return nil, err
		}
		idle[0].token = tokens[0]
		return idle, nil
	}
	return l.ownTx(ctx, tx, sqlArm, idle, tokens)
}

func (l *Lanes) addWakesTx(ctx context.Context, tx *postgres.Tx, lanes []wake, at time.Time) ([]int64, error) {
	added := make([]jobs.Job, len(lanes))
	for i, lane := range lanes {
		added[i] = lane.job(at)
	}
	return l.queue.AddTx(ctx, tx, added...)
}

// ownTx gives lanes new owners, and returns the lanes for which the statement did so.
func (l *Lanes) ownTx(ctx context.Context, tx *postgres.Tx, sql string, lanes []wake, tokens []int64) ([]wake, error) {
	asked, before := make([]ids.Any, len(lanes)), make([]int64, len(lanes))
	byID := make(map[ids.Any]wake, len(lanes))
	for i, lane := range lanes {
		asked[i], before[i] = lane.ID, lane.token
		lane.token = tokens[i]
		byID[lane.ID] = lane
	}
	won, err := postgres.Many[ids.Any](ctx, tx, sql, postgres.Args{"lanes": asked, "tokens": tokens, "before": before})
	if err != nil {
		return nil, err
	}
	owned := make([]wake, len(won))
	for i, lane := range won {
		owned[i] = byID[lane]
	}
	return owned, nil
}

// look wakes the lanes that are idle although a row is due, and sets a timer for those whose rows
// are due later.
func (l *Lanes) look(ctx context.Context, lanes []ids.Any) error {
	now := l.clock.Now()
	states, err := postgres.Many[idleLane](ctx, l.db.System("look at lanes"), sqlLook, postgres.Args{
		"lanes": lanes, "count": len(lanes), "now": now,
	})
	if err != nil || len(states) == 0 {
		return err
	}
	armed, err := postgres.InSystemTx(ctx, l.db, "wake lanes", func(tx *postgres.Tx) ([]wake, error) {
		var due []wake
		var later []idleLane
		for _, state := range states {
			if state.DueAt.After(now) {
				later = append(later, state)
			} else {
				due = append(due, state.wake())
			}
		}
		if err := l.setTimersTx(ctx, tx, later, states); err != nil {
			return nil, err
		}
		return l.armTx(ctx, tx, due)
	})
	if engine := l.engine.Load(); engine != nil && err == nil {
		engine.offer(armed, nil)
	}
	return err
}

// setTimersTx schedules jobs that will arm lanes. It first locks all lanes that the transaction
// touches, in the order of their ids.
func (l *Lanes) setTimersTx(ctx context.Context, tx *postgres.Tx, later, all []idleLane) error {
	if len(later) == 0 {
		return nil
	}
	lanes := make([]ids.Any, len(all))
	for i, lane := range all {
		lanes[i] = lane.LaneID
	}
	if _, err := tx.Exec(ctx, sqlLock, postgres.Args{"lanes": lanes}); err != nil {
		return err
	}
	timers := make([]jobs.Job, len(later))
	lanes, dues := make([]ids.Any, len(later)), make([]time.Time, len(later))
	for i, idle := range later {
		lanes[i], dues[i] = idle.LaneID, idle.DueAt
		timers[i] = jobs.Job{
			Args:  wakeArgs{Lane: idle.LaneID, Org: idle.OrgID, Of: idle.Kind, Slow: idle.Slow, Timer: true},
			Queue: queueOf(idle.Kind, idle.Slow), At: idle.DueAt,
		}
	}
	if _, err := tx.Exec(ctx, sqlSetTimers, postgres.Args{"lanes": lanes, "dues": dues}); err != nil {
		return err
	}
	_, err := l.queue.AddTx(ctx, tx, timers...)
	return err
}

// looker looks at lanes a few milliseconds after their transactions, many with one statement.
type looker struct {
	look func(context.Context, []ids.Any) error

	mu      sync.Mutex
	touched map[ids.Any]struct{}
	active  bool
}

const (
	lookAfter   = 5 * time.Millisecond
	lookTimeout = 5 * time.Second
)

func (k *looker) later(lanes []ids.Any) {
	if len(lanes) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.touched == nil {
		k.touched = map[ids.Any]struct{}{}
	}
	for _, lane := range lanes {
		k.touched[lane] = struct{}{}
	}
	if !k.active {
		k.active = true
		go k.run()
	}
}

// run ends after a pause in which no lane was touched. The sweep finds lanes that it fails to look at.
func (k *looker) run() {
	for {
		time.Sleep(lookAfter)
		k.mu.Lock()
		lanes := make([]ids.Any, 0, len(k.touched))
		for lane := range k.touched {
			lanes = append(lanes, lane)
		}
		clear(k.touched)
		k.active = len(lanes) > 0
		k.mu.Unlock()
		if len(lanes) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
		_ = k.look(ctx, lanes)
		cancel()
	}
}
