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
	"github.com/parley-chat/parley/internal/platform/together"
)

// Engine drains lanes. River wakes them; a lane that this very process has armed is
// taken without waiting for River to fetch its job.
type Engine struct {
	lanes  *Lanes
	db     *postgres.DB
	clock  clock.Clock
	logger *slog.Logger

	takes   *together.Asker[takeQuestion, taken]
	settles *together.Asker[settlement, bool]
	looks   *together.Asker[ids.Any, struct{}]

	// working is the context of every drain; it ends when stopping took too long.
	working  context.Context //nolint:containedctx // a drain outlives the job that woke its lane
	cancel   context.CancelFunc
	stopping chan struct{}
	// underWay counts the drains, from when they enter to when they leave, and what they
	// begin beside themselves. Who enters is counted under the lock: after stopping is closed
	// there is nobody whom the wait for the others could miss.
	underWay sync.WaitGroup
	crews    map[crewOf]*crew

	mu     sync.Mutex
	drains map[*drain]struct{}
	// byLane has more than one for a moment, when two ask for the same wake-up.
	byLane map[ids.Any]map[*drain]struct{}
	byOrg  map[orgKind]map[*drain]struct{}

	rows, takeovers atomic.Int64
}

type orgKind struct {
	org  ids.Org
	kind string
}

type crewOf struct {
	kind string
	slow bool
}

// crew is the workers that drain the lanes of a kind, and how many lanes wait for one.
type crew struct {
	busy    chan struct{}
	waiting atomic.Int64
	// entered counts those of the busy ones that have their lane; the engine's lock guards it.
	entered int
	// refused is when a lane was last sent back to River.
	refused atomic.Pointer[clock.Watch]
}

// contended tells that some lane waits for its turn.
func (c *crew) contended() bool {
	refused := c.refused.Load()
	return c.waiting.Load() > 0 || refused != nil && refused.Elapsed() < sliceTime
}

// NewEngine drains with a pool of its own. Start it with Run.
func NewEngine(lanes *Lanes, db *postgres.DB) *Engine {
	e := &Engine{
		lanes: lanes, db: db, clock: lanes.clock, logger: lanes.logger, stopping: make(chan struct{}), crews: map[crewOf]*crew{},
		drains: map[*drain]struct{}{}, byLane: map[ids.Any]map[*drain]struct{}{}, byOrg: map[orgKind]map[*drain]struct{}{},
	}
	e.working, e.cancel = context.WithCancel(context.Background())
	for _, kind := range lanes.kinds {
		e.crews[crewOf{kind.Name, false}] = &crew{busy: make(chan struct{}, kind.Workers)}
		e.crews[crewOf{kind.Name, true}] = &crew{busy: make(chan struct{}, kind.SlowWorkers)}
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
	// stopWithin is how long rows under way may take when the process stops.
	stopWithin = 15 * time.Second
)

// Handle registers the lanes' jobs and queues.
func (e *Engine) Handle(set *jobs.Set) {
	jobs.Handle(set, func(ctx context.Context, id int64, args wakeArgs) error {
		d, err := e.woken(ctx, id, args)
		if d != nil {
			go e.run(d)
		}
		return err
	})
	jobs.Handle(set, e.lanes.workRow)
	for _, kind := range e.lanes.kinds {
		set.Queue(queueOf(kind.Name, false), kind.Workers, lanePoll)
		set.Queue(queueOf(kind.Name, true), kind.SlowWorkers, slowPoll)
	}
}

// Run watches over the lanes until ctx ends, then ends every turn and waits for the rows
// under way. River's client runs beside it.
func (e *Engine) Run(ctx context.Context) {
	e.lanes.engine.Store(e)
	var group sync.WaitGroup
	group.Go(func() { e.keepBeating(ctx) })
	group.Go(func() { e.keepWatch(ctx) })
	<-ctx.Done()
	e.lanes.engine.Store(nil)
	e.mu.Lock()
	close(e.stopping) // under the lock: nobody is admitted after
	e.mu.Unlock()
	giveUp := time.AfterFunc(stopWithin, e.cancel)
	defer giveUp.Stop()
	group.Wait()
	e.underWay.Wait()
}

// woken makes a drain the owner of a lane that River woke. Once the lane is claimed the job
// is over: what it was for is the drain's. Until then it comes back.
func (e *Engine) woken(ctx context.Context, id int64, args wakeArgs) (*drain, error) {
	d, err := e.admit(ctx, id, args)
	if d == nil {
		return nil, err
	}
	switch err := e.claim(d, fetched); {
	case err == nil:
		return d, nil
	case errors.Is(err, errLost):
		return nil, nil //nolint:nilnil // somebody else has it
	default:
		return nil, jobs.Later(lanePoll)
	}
}

// admit finds a worker for a lane that River woke; without one the job comes back.
func (e *Engine) admit(ctx context.Context, id int64, args wakeArgs) (*drain, error) {
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
	crew := e.crews[crewOf{kind.Name, w.slow}]
	crew.waiting.Add(1)
	defer crew.waiting.Add(-1)
	if !e.awaitShare(crew, orgKind{w.Org, w.Kind}) {
		crew.refused.Store(new(clock.StartWatch()))
		return nil, jobs.Later(lanePoll)
	}
	select {
	case crew.busy <- struct{}{}:
	case <-e.stopping:
		return nil, jobs.Later(0)
	case <-ctx.Done():
		return nil, jobs.Later(0)
	}
	d := e.enter(kind, w, crew)
	if d == nil {
		crew.refused.Store(new(clock.StartWatch()))
		return nil, jobs.Later(lanePoll)
	}
	return d, nil
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
		crew := e.crews[crewOf{w.Kind, false}]
		if w.slow || crew == nil || e.overShare(crew, orgKind{w.Org, w.Kind}) {
			continue
		}
		select {
		case crew.busy <- struct{}{}:
			if d := e.enter(e.lanes.kinds[w.Kind], w, crew); d != nil {
				go func() {
					if e.claim(d, unfetched) == nil {
						e.run(d)
					}
				}()
			}
		default: // River brings it
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, lane := range touched {
		for d := range e.byLane[lane] {
			d.nudge()
		}
	}
}

// lookAgain looks at a lane that was just disarmed, beside whatever comes next here.
func (e *Engine) lookAgain(lane Lane) {
	e.lanes.busy.forget(lane)
	e.underWay.Go(func() {
		if _, err := e.looks.Ask(e.working, lane.ID); err != nil {
			e.logger.WarnContext(e.working, "lane.not_looked_at", "lane", lane.ID, "error", err) // the sweep finds it
		}
	})
}

// overShare tells that an organization has a quarter of a crew of which half is busy: the
// rest is for others.
func (e *Engine) overShare(crew *crew, of orgKind) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.over(crew, of, len(crew.busy))
}

// over is for who holds the lock.
func (e *Engine) over(crew *crew, of orgKind, busy int) bool {
	most := cap(crew.busy)
	return most >= smallCrew && busy >= most/2 && len(e.byOrg[of]) >= most/4
}

const (
	// smallCrew is too small to be shared out.
	smallCrew = 8
	shareWait = 50 * time.Millisecond
	shareLook = 5 * time.Millisecond
)

// awaitShare waits a moment for room: most lanes are drained in milliseconds, and a job
// that comes back costs more.
func (e *Engine) awaitShare(crew *crew, of orgKind) bool {
	for watch := clock.StartWatch(); ; time.Sleep(shareLook) {
		over := e.overShare(crew, of)
		if !over || watch.Elapsed() > shareWait {
			return !over
		}
	}
}

// enter gives a worker of the crew, already taken, to a lane; or frees it and returns nil,
// also when others of the organization, who asked for their share at the same time, came first.
func (e *Engine) enter(kind *Kind, w wake, crew *crew) *drain {
	e.mu.Lock()
	defer e.mu.Unlock()
	of := orgKind{w.Org, w.Kind}
	select {
	case <-e.stopping:
		<-crew.busy
		return nil
	default:
	}
	if e.over(crew, of, crew.entered) {
		<-crew.busy
		return nil
	}
	d := &drain{
		e: e, kind: kind, wake: w, crew: crew, slice: clock.StartWatch(),
		guard:   rand.IntN(guardEvery), //nolint:gosec // only spreads
		running: map[ids.Any]inFlight{}, busyKeys: map[ids.Any]bool{},
		done: make(chan *Result, kind.Most), flushed: make(chan *besideFlush, 1), nudged: make(chan struct{}, 1),
	}
	d.ctx, d.lost = context.WithCancelCause(e.working)
	e.drains[d] = struct{}{}
	register(e.byOrg, of, d)
	register(e.byLane, w.ID, d)
	crew.entered++
	e.underWay.Add(1)
	return d
}

func register[K comparable](book map[K]map[*drain]struct{}, at K, d *drain) {
	if book[at] == nil {
		book[at] = map[*drain]struct{}{}
	}
	book[at][d] = struct{}{}
}

func strike[K comparable](book map[K]map[*drain]struct{}, at K, d *drain) {
	if delete(book[at], d); len(book[at]) == 0 {
		delete(book, at)
	}
}

func (e *Engine) leave(d *drain) {
	defer e.underWay.Done()
	d.lost(nil)
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.drains, d)
	strike(e.byOrg, orgKind{d.Org, d.Kind}, d)
	strike(e.byLane, d.ID, d)
	d.crew.entered--
	<-d.crew.busy
}

// claim makes the drain the owner of its lane, or ends it. River must not learn that the
// job is over before: two who write to it at once would lock each other out.
func (e *Engine) claim(d *drain, how claim) error {
	err := d.claim(d.ctx, how)
	if err == nil {
		return nil
	}
	e.leave(d)
	if !errors.Is(err, errLost) {
		e.logger.WarnContext(d.ctx, "lane.not_claimed", "lane", d.ID, "kind", d.Kind, "error", err)
	}
	return err
}

// run drains a lane and says in the log what an operator should know. Whatever it leaves
// undone, rows and watchdog know of.
func (e *Engine) run(d *drain) {
	defer e.leave(d)
	err := d.run(d.ctx)
	if cause := context.Cause(d.ctx); cause != nil {
		err = cause
	}
	if err != nil && !errors.Is(err, errLost) {
		e.logger.WarnContext(d.ctx, "lane.left", "lane", d.ID, "kind", d.Kind, "error", err)
	}
}
