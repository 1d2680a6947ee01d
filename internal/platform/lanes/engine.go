package lanes

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Engine drains lanes. River wakes them; a lane that this very process has armed is
// taken without waiting for River to fetch its job.
type Engine struct {
	lanes  *Lanes
	db     *postgres.DB
	clock  clock.Clock
	logger *slog.Logger

	takes   *together[takeQuestion, taken]
	settles *together[settlement, bool]
	looks   *together[ids.Any, struct{}]

	stopping chan struct{}
	direct   sync.WaitGroup

	mu     sync.Mutex
	drains map[int64]*drain
	byLane map[ids.Any]*drain
	byOrg  map[orgKind]int
	counts map[slot]int

	rows, takeovers atomic.Int64
}

type orgKind struct {
	org  ids.Org
	kind string
}

// slot is what a drain occupies: a worker of River, or one of those that skip River's fetch.
type slot struct {
	kind   string
	slow   bool
	direct bool
}

// NewEngine drains with a pool of its own. Start it with Run.
func NewEngine(lanes *Lanes, db *postgres.DB) *Engine {
	e := &Engine{
		lanes: lanes, db: db, clock: lanes.clock, logger: lanes.logger, stopping: make(chan struct{}),
		drains: map[int64]*drain{}, byLane: map[ids.Any]*drain{}, byOrg: map[orgKind]int{}, counts: map[slot]int{},
	}
	e.takes = newTogether(2, 200, e.take)
	e.settles = newTogether(2, 200, e.settle)
	e.looks = newTogether(1, 500, func(ctx context.Context, asked []ids.Any) ([]struct{}, error) {
		return make([]struct{}, len(asked)), lanes.look(ctx, asked)
	})
	return e
}

const (
	lanePoll = 100 * time.Millisecond
	slowPoll = 500 * time.Millisecond
)

// Handle registers the lanes' jobs and queues.
func (e *Engine) Handle(set *jobs.Set) {
	jobs.HandleUntimed(set, e.woken)
	jobs.Handle(set, e.lanes.workRow)
	for _, kind := range e.lanes.kinds {
		set.Queue(queueOf(kind.Name, false), kind.Workers, lanePoll)
		set.Queue(queueOf(kind.Name, true), kind.SlowWorkers, slowPoll)
	}
}

// Run watches over the lanes until ctx ends, then ends every turn and waits for the rows
// under way. River's client runs beside it and is stopped after.
func (e *Engine) Run(ctx context.Context) {
	e.lanes.engine.Store(e)
	var group sync.WaitGroup
	group.Go(func() { e.keepBeating(ctx) })
	group.Go(func() { e.keepWatch(ctx) })
	<-ctx.Done()
	e.lanes.engine.Store(nil)
	close(e.stopping)
	group.Wait()
	e.direct.Wait()
}

// woken is River's job for a lane.
func (e *Engine) woken(ctx context.Context, id int64, args wakeArgs) error {
	kind := e.lanes.kinds[args.Of]
	if kind == nil {
		return errors.New("unknown kind: " + args.Of)
	}
	w := wake{Lane: Lane{ID: args.Lane, Org: args.Org, Kind: args.Of}, token: id}
	if args.Timer {
		armed, err := e.armByTimer(ctx, w)
		if err != nil || !armed {
			return err
		}
	}
	d := e.admit(kind, w, slot{kind: kind.Name})
	if d == nil {
		return jobs.Later(lanePoll)
	}
	return e.run(ctx, d, fetched)
}

func (e *Engine) armByTimer(ctx context.Context, w wake) (bool, error) {
	armed, err := postgres.InSystemTx(ctx, e.db, "arm by timer", func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(ctx, sqlArmByTimer, postgres.Args{"lane_id": w.ID, "token": w.token})
	})
	return armed > 0, err
}

// offer takes lanes that were armed here just now, and tells the drainers of lanes that
// got more rows.
func (e *Engine) offer(armed []wake, touched []ids.Any) {
	for _, w := range armed {
		kind := e.lanes.kinds[w.Kind]
		if w.slow || kind == nil {
			continue
		}
		d := e.admit(kind, w, slot{kind: kind.Name, direct: true})
		if d == nil {
			continue // River brings it
		}
		e.direct.Go(func() { _ = e.run(context.Background(), d, unfetched) })
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, lane := range touched {
		if d := e.byLane[lane]; d != nil {
			d.nudge()
		}
	}
}

// share is how much of a kind's workers one organization may occupy.
func share(kind *Kind) int { return max(1, kind.Workers/4) }

// admit finds room for a drain, or returns nil.
func (e *Engine) admit(kind *Kind, w wake, s slot) *drain {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-e.stopping:
		return nil
	default:
	}
	of := orgKind{w.Org, w.Kind}
	if e.byOrg[of] >= share(kind) || (s.direct && e.counts[s] >= kind.Workers) || e.drains[w.token] != nil {
		return nil
	}
	e.byOrg[of]++
	e.counts[s]++
	d := &drain{
		e: e, kind: kind, wake: w, slot: s, guard: rand.IntN(guardEvery), //nolint:gosec // only spreads
		running: map[ids.Any]inFlight{}, busyKeys: map[ids.Any]bool{},
		done: make(chan Result, kind.Most), nudged: make(chan struct{}, 1), slice: clock.StartWatch(),
	}
	e.drains[w.token] = d
	e.byLane[w.ID] = d
	return d
}

func (e *Engine) leave(d *drain) {
	e.mu.Lock()
	defer e.mu.Unlock()
	of := orgKind{d.Org, d.Kind}
	if e.byOrg[of]--; e.byOrg[of] == 0 {
		delete(e.byOrg, of)
	}
	e.counts[d.slot]--
	delete(e.drains, d.token)
	if e.byLane[d.ID] == d {
		delete(e.byLane, d.ID)
	}
}

// run drains a lane and says in the log what an operator should know.
func (e *Engine) run(ctx context.Context, d *drain, how claim) error {
	ctx, cancel := context.WithCancelCause(ctx)
	e.mu.Lock()
	d.lost = cancel
	e.mu.Unlock()
	defer cancel(nil)
	defer e.leave(d)
	err := d.run(ctx, how)
	switch {
	case err == nil, errors.Is(err, errLost), errors.Is(err, errBlocked):
	default:
		e.logger.WarnContext(ctx, "lane.left", "lane", d.ID, "kind", d.Kind, "error", err)
	}
	return nil // River's job is gone: whatever is left, rows and watchdog say so
}

// contended tells that lanes of the kind may be waiting for a worker.
func (e *Engine) contended(kind *Kind, slow bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	most := kind.Workers
	if slow {
		most = kind.SlowWorkers
	}
	return e.counts[slot{kind: kind.Name, slow: slow}] >= most
}

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
	seen := map[int64]pulse{}
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
UPDATE lanes l
SET progress = l.progress + 1
FROM unnest(@lanes::uuid[], @tokens::bigint[]) AS mine (lane_id, token)
WHERE l.lane_id = mine.lane_id AND l.token = mine.token
RETURNING l.token, coalesce(l.blocked_until > @now, false) AS held`

type heartbeat struct {
	Token int64
	Held  bool
}

func (e *Engine) beat(ctx context.Context, seen map[int64]pulse) error {
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
		d.lost(errLost)
	}
	return nil
}

// living are the drains that own their lane, as far as they know, and whose loop moves.
func (e *Engine) living(seen map[int64]pulse) map[int64]*drain {
	e.mu.Lock()
	defer e.mu.Unlock()
	alive := make(map[int64]*drain, len(e.drains))
	for token, d := range e.drains {
		loops := d.loops.Load()
		if last, known := seen[token]; !known || last.loops != loops {
			seen[token] = pulse{loops: loops, since: clock.StartWatch()}
		} else if last.since.Elapsed() > wedgedAfter {
			continue
		}
		if loops > 0 {
			alive[token] = d
		}
	}
	for token := range seen {
		if e.drains[token] == nil {
			delete(seen, token)
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
