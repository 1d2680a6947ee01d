package lanes

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
)

const (
	// batchRows is how many rows are taken at once, and settled together.
	batchRows = 100
	// deepest bounds how far past rows whose keys are busy a drainer looks.
	deepest = 2_000
	// gather is how long a result may wait for others.
	gather = 50 * time.Millisecond
	// A drainer that still works asks for more so much later as it would read rows again,
	// and not much later.
	takePerRow, takeEvery = 100 * time.Microsecond, 10 * time.Millisecond
	// recheck is how often a drainer that still works looks for new rows.
	recheck = 100 * time.Millisecond
	// sliceTime and sliceRows are a lane's turn while others wait for theirs.
	sliceTime = 2 * time.Second
	sliceRows = 500
	// carefulRows are worked one by one after a drainer died here.
	carefulRows = 20
)

type inFlight struct {
	row   Row
	watch clock.Watch
	try   int
}

// drain is one lane in the hands of its owner. Everything but the work of rows happens in
// one goroutine.
type drain struct {
	e    *Engine
	kind *Kind
	wake
	work Work
	crew *crew

	state    ownState
	waiting  []Row
	running  map[ids.Any]inFlight
	busyKeys map[ids.Any]bool
	done     chan *Result
	results  []Result
	beside   *besideFlush
	flushed  chan *besideFlush
	oldest   clock.Watch
	limiter  *rate.Limiter
	guard    int

	slots     int
	latency   int
	drained   bool // the last take left nothing due behind
	fresh     bool // rows came since
	ending    bool // no row starts any more
	aged      bool // no row starts before the work is opened again
	urgent    bool // results should not wait for more
	probing   bool // one row alone, after a block
	careful   int  // rows still to be worked alone
	slice     clock.Watch
	took      clock.Watch
	ended     clock.Watch // when a row last did
	stepped   clock.Watch // when a row of a later priority last started
	sliceRows int
	turns     int
	tries     int

	// What others may touch while the drain runs.
	nudged chan struct{}
	held   atomic.Bool // somebody blocked the lane
	// blocking is set while a settlement is written that blocks the lane.
	blocking atomic.Bool
	leaving  atomic.Bool     // the lane is being given up
	ctx      context.Context //nolint:containedctx // ends when the lane is lost
	lost     context.CancelCauseFunc
	loops    atomic.Int64
}

// claim takes the first rows, and with them the lane.
func (d *drain) claim(ctx context.Context, how claim) error {
	first, err := d.e.takes.Ask(ctx, d.question(how, batchRows, d.kind.Priorities))
	if err == nil && !first.owned {
		err = errLost
	}
	if err == nil {
		d.adopt(first)
	}
	return err
}

// run drains the lane until it is empty, blocked, lost, or its turn is over.
func (d *drain) run(ctx context.Context) (err error) {
	if d.blocked() {
		return d.flush(ctx, settlement{ending: handOver})
	}
	if over, err := d.open(ctx); over || err != nil {
		return err
	}
	return d.loop(ctx)
}

// open reads what the rows have in common, at first and when that has aged. A lane that
// cannot be opened is left for a while.
func (d *drain) open(ctx context.Context) (over bool, err error) {
	work, err := d.kind.Open(ctx, d.Lane)
	if err != nil {
		d.e.logger.WarnContext(ctx, "lane.not_opened", "lane", d.ID, "kind", d.Kind, "error", err)
		return true, d.flush(ctx, settlement{ending: handOver, at: d.e.clock.Now().Add(patience(1))})
	}
	d.work, d.aged = work, false
	d.setPace(work.PerSecond)
	return false, nil
}

func (d *drain) question(how claim, limit, priorities int) takeQuestion {
	return takeQuestion{lane: d.ID, token: d.token, claim: how, limit: limit, priorities: priorities}
}

// adopt starts where the lane's last owner left off.
func (d *drain) adopt(first taken) {
	d.state, d.latency, d.slow = first.state, first.state.LatencyMs, first.state.Slow
	d.slots = min(max(first.state.Concurrency, d.kind.Least), d.kind.Most)
	d.probing = first.state.BlockedUntil != nil
	if first.state.Deaths > 0 {
		d.careful = carefulRows
	}
	d.receive(first.rows, batchRows)
}

func (d *drain) loop(ctx context.Context) error {
	defer d.awaitBeside()
	tick := time.NewTicker(gather / 2)
	defer tick.Stop()
	looked, stop := clock.StartWatch(), d.e.stopping
	for {
		d.loops.Add(1)
		if err := d.refill(ctx); err != nil {
			return err
		}
		wait, err := d.start(ctx)
		if err != nil {
			return err
		}
		wait = max(wait, d.linger())
		if d.beside == nil && (len(d.running) == 0 && wait == 0 || d.flushDue()) {
			over, err := d.settleResults(ctx)
			if over || err != nil {
				return err
			}
			continue
		}
		select {
		case result := <-d.done:
			d.finished(*result)
			d.finishedMore()
		case done := <-d.flushed:
			if err := d.conclude(ctx, done); err != nil {
				return err
			}
		case <-d.nudged:
			if d.drained, d.fresh = false, true; d.held.Load() {
				d.waiting, d.ending = nil, true
			}
		case <-tick.C:
			d.finishedMore() // who has finished is not hung, however long this loop stood still
			if d.abandonHung(); looked.Elapsed() > recheck {
				d.drained, d.fresh, looked = false, true, clock.StartWatch()
			}
		case <-after(wait):
		case <-stop:
			d.ending, stop = true, nil
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

// settleResults flushes what is finished, and ends the lane's turn when it should.
func (d *drain) settleResults(ctx context.Context) (over bool, err error) {
	idle := len(d.running) == 0
	d.turn()
	switch {
	case idle && d.ending:
		return true, d.flush(ctx, settlement{ending: handOver})
	case idle && len(d.waiting) == 0 && d.drained && d.linger() == 0:
		return true, d.flush(ctx, settlement{ending: disarm})
	case idle && d.aged && len(d.results) == 0:
		return d.open(ctx)
	case len(d.results) == 0:
		return false, nil
	case d.mayFlushBeside():
		d.flushBeside(ctx)
		return false, nil
	default:
		return false, d.flush(ctx, settlement{ending: keep})
	}
}

// turn ends the lane's turn when it was long enough and others wait for a worker, or when
// the lane belongs with the slow ones, or no more.
func (d *drain) turn() {
	if d.slice.Elapsed() < sliceTime && d.sliceRows < sliceRows {
		return
	}
	if slow := isSlow(d.slow, d.latency); slow != d.slow || d.crew.contended() {
		d.slow, d.ending = slow, true
		return
	}
	d.slice, d.sliceRows, d.turns = clock.StartWatch(), 0, d.turns+1
	d.aged = d.aged || d.turns%openFor == 0
}

// openFor is how many turns on end a lane has before its work is opened again.
const openFor = 5

// refill takes more rows when none of those at hand can start, or when others may go before them.
func (d *drain) refill(ctx context.Context) error {
	if d.ending || d.aged || d.drained || d.startable() && !d.mayBeOvertaken() || len(d.running) >= d.cap() {
		return nil
	}
	priorities, overtaken := d.kind.Priorities, d.startable()
	if overtaken {
		priorities = d.waiting[0].Priority
	}
	known := d.atHand(priorities)
	if len(d.running) > 0 && d.took.Elapsed() < min(time.Duration(known)*takePerRow, takeEvery) {
		return nil
	}
	d.took, d.fresh = clock.StartWatch(), false
	limit := min(batchRows+known, deepest)
	more, err := d.e.takes.Ask(ctx, d.question(owned, limit, priorities))
	if err != nil {
		return d.pause(ctx, err)
	}
	if !more.owned {
		return errLost
	}
	if d.state.BlockedUntil = more.state.BlockedUntil; d.blocked() {
		d.waiting, d.ending = nil, true
		return nil
	}
	d.receive(more.rows, limit)
	d.drained = d.drained && !overtaken // of the others nothing was asked
	return nil
}

// atHand counts the rows of the first priorities that a take would read again.
func (d *drain) atHand(priorities int) (count int) {
	for _, row := range d.waiting {
		if row.Priority < priorities {
			count++
		}
	}
	for _, one := range d.running {
		if one.row.Priority < priorities {
			count++
		}
	}
	for _, result := range d.unsettled() {
		if result.Row.Priority < priorities {
			count++
		}
	}
	return count
}

func (d *drain) blocked() bool {
	return d.state.BlockedUntil != nil && d.state.BlockedUntil.After(d.e.clock.Now())
}

// receive keeps rows that are not at hand yet, in the order in which they should start.
func (d *drain) receive(rows []Row, limit int) {
	unsettled := d.unsettled()
	known := make(map[ids.Any]bool, len(d.waiting)+len(unsettled))
	for _, row := range d.waiting {
		known[row.ID] = true
	}
	for _, result := range unsettled {
		known[result.Row.ID] = true
	}
	perPriority := make([]int, maxPriorities)
	var fresh []Row
	for _, row := range rows {
		perPriority[row.Priority]++
		if _, busy := d.running[row.ID]; !busy && !known[row.ID] {
			fresh = append(fresh, row)
		}
	}
	d.drained = true
	for _, count := range perPriority {
		d.drained = d.drained && count < limit
	}
	d.waiting = d.interleave(append(d.waiting, fresh...))
}

// pause waits a moment after the database did not answer, unless there is nothing to wait for.
func (d *drain) pause(ctx context.Context, cause error) error {
	if !away(cause) {
		return cause
	}
	d.loops.Add(1)
	d.e.logger.WarnContext(ctx, "lane.waits", "lane", d.ID, "kind", d.Kind, "error", cause)
	select {
	case <-ctx.Done():
		return cause
	case <-d.e.stopping:
		return cause
	case <-time.After(500 * time.Millisecond):
		d.drained = false
		return nil
	}
}

// cap is how many rows may be worked at once now.
func (d *drain) cap() int {
	if d.probing || d.careful > 0 {
		return 1
	}
	return d.slots
}

func (d *drain) startable() bool {
	for _, row := range d.waiting {
		if !d.busyKeys[row.Key] {
			return true
		}
	}
	return false
}
