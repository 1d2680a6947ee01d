package lanes

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	// batchRows is how many new rows of each priority a take asks for, and how many results make a
	// settlement due.
	batchRows = 100
	// mostTaken is the most rows of each priority that one take reads. A take reads known rows again,
	// so that its limit grows with them.
	mostTaken = 2_000
	// A drainer that still works rows waits takePerRow per row that a take would read again, and
	// at most takeEvery. With half of these waits one busy endpoint costs 5 % more CPU per delivery.
	takePerRow, takeEvery = 200 * time.Microsecond, 20 * time.Millisecond
	// recheckEvery is how often a drainer that still works rows looks for new ones.
	recheckEvery = 100 * time.Millisecond
	// sliceTime and sliceRows are a lane's turn while other lanes wait for its worker.
	sliceTime = 2 * time.Second
	sliceRows = 500
	// openFor is how many turns a busy lane has before its work is opened again.
	openFor = 5
	// carefulRows are worked one by one after a drainer of the lane died.
	carefulRows = 20
	// A lane that worked lingerRows in one turn waits lingerFor for more before it is disarmed: the
	// next transaction that adds to a disarmed lane must arm it again, with a new job.
	lingerRows = 8
	lingerFor  = 20 * time.Millisecond
)

// session is one lane in the hands of one drainer, as the engine knows it.
type session struct {
	wake

	e     *Engine
	kind  registered
	crew  *crew
	first taken // what the claim returned

	ctx       context.Context //nolint:containedctx // ends when the lane is lost
	lost      context.CancelCauseFunc
	nudged    chan struct{} // rows were added, or the lane was blocked
	blockSeen atomic.Bool   // the heartbeat found the lane blocked
	leaving   atomic.Bool   // the lane is being given up
	loops     atomic.Int64  // grows while the drainer makes progress
}

// claim takes the first rows, and with them the lane.
func (s *session) claim(ctx context.Context, how claim) error {
	first, err := s.e.takes.Ask(ctx, s.request(how, batchRows, priorities))
	if err == nil && !first.owned {
		err = errLost
	}
	s.first = first
	return err
}

func (s *session) request(how claim, limit, priorities int) takeRequest {
	return takeRequest{lane: s.ID, token: s.token, claim: how, limit: limit, priorities: priorities}
}

// nudge has the drainer look for more rows.
func (s *session) nudge() {
	select {
	case s.nudged <- struct{}{}:
	default:
	}
}

// supply is what the drainer knows of due rows that it has not taken.
type supply int

const (
	more  supply = iota // there may be some
	fresh               // some were added since the last take
	dry                 // the last take left none
)

// phase is what the drainer is up to.
type phase int

const (
	draining phase = iota
	ending         // no row starts; the lane is handed over once its results are settled
)

// drain works the rows of one lane. Everything but the calls and one settlement at a time
// happens in one goroutine.
type drain[T, R any] struct {
	*session

	with settings
	kind *kind[T, R]
	work Work[T, R]
	rows *schedule

	phase  phase
	supply supply
	health laneHealth
	// slots is how many rows may be called at once, latency how long calls take in milliseconds.
	slots, latency int
	probing        bool // one row is tried alone after a block
	careful        int  // rows still to be worked alone after a death

	running map[ids.Any]call[T]
	calls   int
	done    chan Result[T, R]
	results []Result[T, R]
	oldest  clock.Watch // since the oldest result came
	urgent  bool        // settle before more rows start: the kind may block the lane
	beside  *besideFlush[T, R]
	flushed chan *besideFlush[T, R]
	// blocking is set from when a settlement blocks the lane: no row is called any more.
	blocking atomic.Bool

	turnTime  clock.Watch
	turnRows  int
	turns     int
	lastTake  clock.Watch
	lastEnded clock.Watch
}

func newDrain[T, R any](k *kind[T, R], s *session) *drain[T, R] {
	d := &drain[T, R]{
		session: s, with: k.with, kind: k, turnTime: clock.StartWatch(), running: map[ids.Any]call[T]{},
		rows: newSchedule(k.with.laterPerSecond, rand.IntN(laterEvery)), //nolint:gosec // spreads the lanes
		done: make(chan Result[T, R], k.with.most), flushed: make(chan *besideFlush[T, R], 1),
	}
	d.health, d.latency, d.slow = s.first.state, s.first.state.LatencyMs, s.first.state.Slow
	d.slots = min(max(d.health.Concurrency, d.with.least), d.with.most)
	d.probing = d.health.BlockedUntil != nil
	if d.health.Deaths > 0 {
		d.careful = carefulRows
	}
	return d
}

// run drains the lane until it is empty, blocked, lost, or its turn is over.
func (d *drain[T, R]) run(ctx context.Context) error {
	if d.blocked() {
		return d.flush(ctx, settlement{ending: handOver})
	}
	if err := d.receive(ctx, d.first, batchRows, priorities); err != nil {
		return err
	}
	if over, err := d.open(ctx); over || err != nil {
		return err
	}
	return d.loop(ctx)
}

// open asks the kind for its functions. A lane that cannot be opened is left for a few seconds.
func (d *drain[T, R]) open(ctx context.Context) (over bool, err error) {
	work, err := d.kind.Open(ctx, d.Lane)
	if err != nil {
		d.e.logger.WarnContext(ctx, "lane.not_opened", "lane", d.ID, "kind", d.Kind, "error", err)
		return true, d.flush(ctx, settlement{ending: handOver, at: d.e.clock.Now().Add(patience(1))})
	}
	d.use(work)
	return false, nil
}

func (d *drain[T, R]) use(work Work[T, R]) {
	d.work = work
	d.rows.setPace(work.PerSecond)
}

// openAgain asks a busy lane's kind for new functions, and uses them for rows that begin from now on. It does not wait for the
// calls under way: all rows of the lane would stand still for as long as the slowest call takes. After an error the lane keeps
// its functions until the next try. If what the lane is for was deleted, the functions at hand settle what was begun, and the
// lane is handed over.
func (d *drain[T, R]) openAgain(ctx context.Context) {
	work, err := d.kind.Open(ctx, d.Lane)
	switch {
	case err != nil:
		d.e.logger.WarnContext(ctx, "lane.not_opened", "lane", d.ID, "kind", d.Kind, "error", err)
	case (work.Settle == nil) != (d.work.Settle == nil):
		d.phase = ending
	default:
		d.use(work)
	}
}

func (d *drain[T, R]) loop(ctx context.Context) error {
	defer d.awaitBeside()
	tick := time.NewTicker(defaultGather / 2)
	defer tick.Stop()
	looked, stop, cutOff := clock.StartWatch(), d.e.stopping, d.e.cutOff.Done()
	for {
		d.loops.Add(1)
		if err := d.refill(ctx); err != nil {
			return err
		}
		wait, err := d.start(ctx)
		if err != nil {
			return err
		}
		if wait == 0 && len(d.results) == 0 { // a lane lingers only when nothing is left to settle
			wait = d.linger()
		}
		if d.beside == nil && (len(d.running) == 0 && wait == 0 || d.flushDue()) {
			if over, err := d.settleResults(ctx); over || err != nil {
				return err
			}
			continue
		}
		select {
		case result := <-d.done:
			d.finishedCall(result)
			d.finishedCalls()
		case done := <-d.flushed:
			if err := d.conclude(ctx, done); err != nil {
				return err
			}
		case <-d.nudged:
			if d.supply = fresh; d.blockSeen.Load() {
				d.end()
			}
		case <-tick.C:
			d.finishedCalls() // a call that has ended is not hung, however long this loop stood still
			if d.abandonHung(); looked.Elapsed() > recheckEvery {
				d.supply, looked = fresh, clock.StartWatch()
			}
		case <-after(wait):
		case <-stop:
			d.phase, stop = ending, nil
		case <-cutOff:
			d.finishedCalls()
			d.cutOffCalls()
			cutOff = nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// after is a timer that never fires for zero.
func after(wait time.Duration) <-chan time.Time {
	if wait == 0 {
		return nil
	}
	return time.After(wait)
}

// end starts no more rows.
func (d *drain[T, R]) end() {
	d.rows.dropWaiting()
	d.phase = ending
}

// turn ends the lane's turn when it was long enough and other lanes wait for its worker, or when
// the lane should change between the fast and the slow workers.
func (d *drain[T, R]) turn(ctx context.Context) {
	if d.turnTime.Elapsed() < sliceTime && d.turnRows < sliceRows {
		return
	}
	if slow := isSlow(d.slow, d.latency); slow != d.slow || d.e.awaited(d.session) {
		d.slow, d.phase = slow, ending
		return
	}
	d.turnTime, d.turnRows, d.turns = clock.StartWatch(), 0, d.turns+1
	if d.phase == draining && d.turns%openFor == 0 {
		d.openAgain(ctx)
	}
}

const (
	slowAbove = 1_000
	fastBelow = 500
)

// isSlow says which workers drain a lane, by what its calls take in milliseconds.
func isSlow(slow bool, latency int) bool {
	if slow {
		return latency >= fastBelow
	}
	return latency > slowAbove
}

// linger is how much longer a lane with nothing to do waits for more, if it was busy just now
// and no other lane needs its worker.
func (d *drain[T, R]) linger() time.Duration {
	if len(d.running) > 0 || d.rows.in(waiting) > 0 || d.supply != dry || d.phase == ending || d.urgent {
		return 0
	}
	if d.turnRows < lingerRows && d.turns == 0 || d.e.awaited(d.session) {
		return 0
	}
	return max(0, lingerFor-d.lastEnded.Elapsed())
}

// refill takes more rows when none at hand can start, or when rows of priority 0 may have come
// while only rows of priority 1 are at hand.
func (d *drain[T, R]) refill(ctx context.Context) error {
	startable := d.rows.startable()
	firstMayHaveCome := startable && d.supply == fresh && d.rows.onlyLater()
	if d.phase != draining || d.supply == dry || startable && !firstMayHaveCome || len(d.running) >= d.places() {
		return nil
	}
	levels := priorities
	if firstMayHaveCome {
		levels = 1
	}
	known := d.rows.known(levels)
	if len(d.running) > 0 && d.lastTake.Elapsed() < min(time.Duration(known)*takePerRow, takeEvery) {
		return nil
	}
	d.lastTake = clock.StartWatch()
	limit := min(batchRows+known, mostTaken)
	got, err := d.e.takes.Ask(ctx, d.request(owned, limit, levels))
	if err != nil {
		return d.pause(ctx, err)
	}
	if !got.owned {
		return errLost
	}
	if d.health.BlockedUntil = got.state.BlockedUntil; d.blocked() {
		d.end()
		return nil
	}
	return d.receive(ctx, got, limit, levels)
}

// blocked tells that the lane was blocked when it was last taken.
func (d *drain[T, R]) blocked() bool {
	return d.health.BlockedUntil != nil && d.health.BlockedUntil.After(d.e.clock.Now())
}

// receive puts taken rows into the schedule and parks those of held keys.
func (d *drain[T, R]) receive(ctx context.Context, got taken, limit, levels int) error {
	d.supply = dry
	if levels < priorities {
		d.supply = more // nothing was asked of the others
	}
	var counts [priorities]int
	for _, row := range slices.Concat(got.rows, got.held) {
		if counts[row.Priority]++; counts[row.Priority] >= limit {
			d.supply = more
		}
	}
	d.rows.add(got.rows)
	if len(got.held) == 0 {
		return nil
	}
	err := d.e.ownedTx(ctx, d.wake, func(tx *postgres.Tx, _ *time.Time) error { return parkTx(ctx, tx, d.ID, got.held) })
	if err != nil {
		return d.pause(ctx, err)
	}
	return nil
}

// pause waits a moment after the database did not answer, so that the caller may try again. It
// returns an error when the drainer must give up: the lane is lost, or nothing was begun and
// trying again is of no use.
func (d *drain[T, R]) pause(ctx context.Context, cause error) error {
	unsettled := d.rows.in(started)+d.rows.in(settling) > 0
	switch {
	case errors.Is(cause, errLost) || ctx.Err() != nil:
		return cause
	case !away(cause) && !unsettled:
		return cause
	case !away(cause):
		d.end() // what was begun is settled first
	}
	d.loops.Add(1)
	d.e.logger.WarnContext(ctx, "lane.waits", "lane", d.ID, "kind", d.Kind, "error", cause)
	stop := d.e.stopping
	if unsettled {
		stop = nil
	}
	select {
	case <-ctx.Done():
		return cause
	case <-stop:
		return cause
	case <-time.After(awayPause):
		d.supply = more
		return nil
	}
}

const awayPause = 500 * time.Millisecond

// away tells that the database refused or did not answer, and that the same work may succeed later.
// A transaction (ownedTx) was then not committed; a statement on its own (take, settle) may have been.
func away(err error) bool { return postgres.Undone(err) }

// places is how many rows may be called at once now.
func (d *drain[T, R]) places() int {
	if d.probing || d.careful > 0 {
		return 1
	}
	return d.slots
}
