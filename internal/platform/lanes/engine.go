package lanes

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/together"
)

// Engine drains lanes. River wakes them; a lane that this process itself has armed is claimed
// without waiting until River fetches its job.
type Engine struct {
	lanes  *Lanes
	db     *postgres.DB
	clock  clock.Clock
	logger *slog.Logger

	takes   *together.Asker[takeRequest, taken]
	settles *together.Asker[settlement, bool]
	looks   *together.Asker[ids.Any, struct{}]
	gate    *fairGate

	// Stopping has three steps: stopping is closed and no row starts any more; cutOff ends and
	// calls under way are given up; working ends and drainers leave what they cannot settle.
	stopping chan struct{}
	cutOff   context.Context //nolint:containedctx // calls outlive the job that woke their lane
	cut      context.CancelFunc
	working  context.Context //nolint:containedctx // drainers outlive the job that woke their lane
	cancel   context.CancelFunc
	// underWay counts the sessions and the looks that they start. Sessions are counted
	// under mu, so that Wait sees every session that entered before stopping was closed.
	underWay sync.WaitGroup
	crews    map[crewOf]*crew

	mu       sync.Mutex
	sessions map[*session]struct{}
	// byLane has more than one session of a lane for a moment, when two claim the same job.
	byLane map[ids.Any]map[*session]struct{}
	byOrg  map[orgKind]map[*session]struct{}

	rows, takeovers, unhanded atomic.Int64

	// beforeCall is set by tests: it runs between the begin and the call of a row.
	beforeCall func(ctx context.Context, row Row)
}

// NewEngine drains with a connection pool of its own. Start it with Run.
func NewEngine(lanes *Lanes, db *postgres.DB) *Engine {
	return newEngine(lanes, db, func(settings) bool { return true })
}

// NewEngineOnHold drains only the kinds that are drained while the cell is on hold. The lanes of the others are armed
// and watched over as usual: their jobs wait in River, and no row is taken.
func NewEngineOnHold(lanes *Lanes, db *postgres.DB) *Engine {
	return newEngine(lanes, db, func(kind settings) bool { return kind.onHold })
}

func newEngine(lanes *Lanes, db *postgres.DB, drained func(settings) bool) *Engine {
	e := &Engine{
		lanes: lanes, db: db, clock: lanes.clock, logger: lanes.logger, stopping: make(chan struct{}), crews: map[crewOf]*crew{},
		gate:     newFairGate(transactionsAtOnce()),
		sessions: map[*session]struct{}{}, byLane: map[ids.Any]map[*session]struct{}{}, byOrg: map[orgKind]map[*session]struct{}{},
	}
	e.cutOff, e.cut = context.WithCancel(context.Background())
	e.working, e.cancel = context.WithCancel(context.Background())
	for name, kind := range lanes.kinds {
		with := kind.settings()
		if !drained(with) {
			continue
		}
		e.crews[crewOf{name, false}] = &crew{busy: make(chan struct{}, with.workers)}
		e.crews[crewOf{name, true}] = &crew{busy: make(chan struct{}, with.slowWorkers)}
	}
	e.takes = together.New(2, 200, e.take)
	e.settles = together.New(2, 200, e.settle)
	e.looks = together.New(1, 500, func(ctx context.Context, asked []ids.Any) ([]struct{}, error) {
		return make([]struct{}, len(asked)), lanes.look(ctx, asked)
	})
	return e
}

const (
	lanePoll = 50 * time.Millisecond
	slowPoll = 500 * time.Millisecond
	// callsEndWithin is how long calls under way may take when the process stops, and
	// settleWithin how long the settlement of those that were given up may take after.
	callsEndWithin = 15 * time.Second
	settleWithin   = 5 * time.Second
)

// Handle registers the lanes' jobs and queues.
func (e *Engine) Handle(set *jobs.Set) {
	jobs.Handle(set, func(ctx context.Context, id int64, args wakeArgs) error {
		s, err := e.woken(ctx, id, args)
		if s != nil {
			go e.run(s)
		}
		return err
	})
	jobs.Handle(set, func(ctx context.Context, _ int64, args hurryArgs) error { return e.hurry(ctx, args) })
	for of, crew := range e.crews {
		poll := lanePoll
		if of.slow {
			poll = slowPoll
		}
		set.Queue(queueOf(of.kind, of.slow), cap(crew.busy), poll)
	}
}

// Run watches over the lanes until ctx ends, then ends every turn and waits for the rows under
// way. River's client runs beside it.
func (e *Engine) Run(ctx context.Context) {
	e.lanes.engine.Store(e)
	var group sync.WaitGroup
	group.Go(func() { e.keepBeating(ctx) })
	group.Go(func() { e.keepWatch(ctx) })
	<-ctx.Done()
	e.lanes.engine.Store(nil)
	e.mu.Lock()
	close(e.stopping) // under the lock: no session enters after
	e.mu.Unlock()
	defer time.AfterFunc(callsEndWithin, e.cut).Stop()
	defer time.AfterFunc(callsEndWithin+settleWithin, e.cancel).Stop()
	group.Wait()
	e.underWay.Wait()
}

// woken claims a lane that River woke. The job comes back until the lane is claimed.
func (e *Engine) woken(ctx context.Context, id int64, args wakeArgs) (*session, error) {
	s, err := e.admit(ctx, id, args)
	if s == nil {
		return nil, err
	}
	switch err := e.claim(s, fetched); {
	case err == nil:
		return s, nil
	case errors.Is(err, errLost):
		return nil, nil //nolint:nilnil // another drainer has it
	default:
		return nil, jobs.Later(lanePoll)
	}
}

// admit finds a worker for a lane that River woke; without one the job comes back.
func (e *Engine) admit(ctx context.Context, id int64, args wakeArgs) (*session, error) {
	kind := e.lanes.kinds[args.Of]
	if kind == nil {
		return nil, errors.New("unknown kind: " + args.Of)
	}
	w := wake{Lane: Lane{ID: args.Lane, Org: args.Org, Kind: args.Of}, slow: args.Slow, token: id}
	if args.Timer {
		armed, err := e.armByTimer(ctx, w)
		if err != nil || !armed {
			return nil, err
		}
	}
	crew := e.crews[crewOf{w.Kind, w.slow}]
	crew.waiting.Add(1)
	defer crew.waiting.Add(-1)
	if !e.awaitShare(crew, orgKind{w.Org, w.Kind}) {
		crew.refuse()
		return nil, jobs.Later(lanePoll)
	}
	select {
	case crew.busy <- struct{}{}:
	case <-e.stopping:
		return nil, jobs.Later(0)
	case <-ctx.Done():
		return nil, jobs.Later(0)
	}
	s := e.enter(kind, w, crew)
	if s == nil {
		crew.refuse()
		return nil, jobs.Later(lanePoll)
	}
	return s, nil
}

func (e *Engine) armByTimer(ctx context.Context, w wake) (bool, error) {
	armed, err := postgres.InSystemTx(ctx, e.db, "arm by timer", func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(ctx, sqlArmByTimer, postgres.Args{"lane_id": w.ID, "token": w.token})
	})
	return armed > 0, err
}

// offer claims lanes that were armed here just now, and nudges the drainers of lanes that got
// more rows.
func (e *Engine) offer(armed []wake, touched []ids.Any) {
	for _, w := range armed {
		crew := e.crews[crewOf{w.Kind, false}]
		if w.slow || crew == nil || e.overShare(crew, orgKind{w.Org, w.Kind}) {
			continue
		}
		select {
		case crew.busy <- struct{}{}:
			if s := e.enter(e.lanes.kinds[w.Kind], w, crew); s != nil {
				go func() {
					if e.claim(s, unfetched) == nil {
						e.run(s)
					}
				}()
			}
		default: // all workers are busy: River brings the lane
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, lane := range touched {
		for s := range e.byLane[lane] {
			s.nudge()
		}
	}
}

// lookAgain looks at a lane that was just disarmed, in a goroutine of its own.
func (e *Engine) lookAgain(lane Lane) {
	e.lanes.busy.forget(lane.ID)
	e.underWay.Go(func() {
		if _, err := e.looks.Ask(e.working, lane.ID); err != nil {
			e.logger.WarnContext(e.working, "lane.not_looked_at", "lane", lane.ID, "error", err) // the sweep finds it
		}
	})
}

// claim makes the session the owner of its lane, or ends it. The job's function returns only after
// the claim, because River writes to the job when it returns, and the claim deletes the job: both at
// once would deadlock.
func (e *Engine) claim(s *session, how claim) error {
	err := s.claim(s.ctx, how)
	if err == nil {
		return nil
	}
	e.leave(s)
	if !errors.Is(err, errLost) {
		e.logger.WarnContext(s.ctx, "lane.not_claimed", "lane", s.ID, "kind", s.Kind, "error", err)
	}
	return err
}

// run drains a lane. The watchdog and the next drainer find whatever it leaves undone.
func (e *Engine) run(s *session) {
	defer e.leave(s)
	err := s.kind.drain(s.ctx, s)
	if cause := context.Cause(s.ctx); cause != nil {
		err = cause
	}
	if err != nil && !errors.Is(err, errLost) {
		e.logger.WarnContext(s.ctx, "lane.left", "lane", s.ID, "kind", s.Kind, "error", err)
	}
}

// alarm reports that a kind failed to take over rows that were set aside.
func (e *Engine) alarm(ctx context.Context, lane Lane, err error) {
	e.unhanded.Add(1)
	e.logger.ErrorContext(ctx, "lane.hand_over_failed", "lane", lane.ID, "kind", lane.Kind, "error", err)
}
