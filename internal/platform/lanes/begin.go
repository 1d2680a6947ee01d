package lanes

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// call is one call under way.
type call[T any] struct {
	row    Row
	value  T
	try    int
	watch  clock.Watch
	cancel context.CancelFunc
	// decided is set once: by the goroutine just before it calls, or by the drainer that abandons
	// the row first. It decides whether the row was called.
	decided *atomic.Bool
}

// start begins as many rows as may start now, and calls them. wait is how long until the next row
// may start, if only a limit of starts per second holds it back.
func (d *drain[T, R]) start(ctx context.Context) (wait time.Duration, err error) {
	free := d.places() - len(d.running)
	if d.work.Call == nil {
		free -= len(d.results) // without calls, results are bounded like calls under way
	}
	// Wait until half of the places are free, then begin that many rows together: each begin costs a
	// statement.
	few := len(d.running) > 0 && free < d.places()/2 && !d.rows.overtakes()
	if d.phase != draining || d.urgent || d.blocking.Load() || free <= 0 || few {
		return 0, nil
	}
	if d.beside != nil && len(d.results) >= batchRows {
		// A full batch waits while another is written. Every unsettled row is repeated if the process dies.
		return 0, nil
	}
	chunk, wait, stale := d.rows.next(free, d.places())
	if stale {
		d.supply = more
	}
	if chunk = d.withoutSuspect(chunk); len(chunk) == 0 {
		return wait, nil
	}
	tasks := make([]*Task[T, R], len(chunk))
	for i, row := range chunk {
		tasks[i] = &Task[T, R]{Row: row}
	}
	if err := d.begin(ctx, tasks); err != nil {
		return wait, d.beginEach(ctx, tasks, err)
	}
	d.callAll(ctx, tasks)
	return wait, nil
}

// withoutSuspect counts a death against the row that was worked alone when the last drainer
// died, instead of beginning it.
func (d *drain[T, R]) withoutSuspect(chunk []Row) []Row {
	for i, row := range chunk {
		if row.ID == d.health.Suspect {
			d.health.Suspect = ids.Any{}
			d.finish(Result[T, R]{
				Row: row, class: classDeath, Answer: Answer[R]{Fault: errors.New("the process died while it worked on this row alone")},
			})
			return append(chunk[:i:i], chunk[i+1:]...)
		}
	}
	return chunk
}

// errBlocked means that the lane was blocked after its rows were taken.
var errBlocked = errors.New("the lane is blocked")

// begin reads what rows are about, and commits that they are about to be called, if the kind has
// a Begin or the lane is worked carefully after a death.
func (d *drain[T, R]) begin(ctx context.Context, tasks []*Task[T, R]) error {
	if d.work.Read != nil {
		if err := guard(func() error { return d.work.Read(ctx, tasks) }); err != nil {
			return err
		}
	}
	if d.work.Begin == nil && d.careful == 0 {
		return nil
	}
	return d.e.ownedTx(ctx, d.wake, func(tx *postgres.Tx, block *time.Time) error {
		if block != nil && block.After(d.e.clock.Now()) {
			return errBlocked
		}
		if d.careful > 0 {
			if _, err := tx.Exec(ctx, sqlSuspect, postgres.Args{"lane_id": d.ID, "suspect": tasks[0].Row.ID}); err != nil {
				return err
			}
		}
		if d.work.Begin == nil {
			return nil
		}
		return guard(func() error { return d.work.Begin(ctx, tx, tasks) })
	})
}

const sqlSuspect = `
UPDATE lanes
SET suspect = @suspect
WHERE lane_id = @lane_id`

// beginEach begins rows one by one after they could not be begun together, so that one bad
// row is found and the others go on.
func (d *drain[T, R]) beginEach(ctx context.Context, tasks []*Task[T, R], cause error) error {
	for _, task := range tasks {
		err := cause
		if len(tasks) > 1 && !notBegun(cause) {
			*task = Task[T, R]{Row: task.Row}
			err = d.begin(ctx, []*Task[T, R]{task})
		}
		switch {
		case err == nil:
			d.callAll(ctx, []*Task[T, R]{task})
		case notBegun(err):
			cause = err
			d.rows.release(task.Row)
			d.supply = more
		default:
			d.finish(Result[T, R]{Row: task.Row, class: classBegin, Answer: Answer[R]{Fault: err}})
		}
	}
	if away(cause) || errors.Is(cause, errLost) {
		return d.pause(ctx, cause)
	}
	return nil
}

// notBegun tells that a begin failed for no fault of its rows.
func notBegun(err error) bool {
	return away(err) || errors.Is(err, errLost) || errors.Is(err, errBlocked)
}

// callAll calls rows that were begun, and finishes those that were answered without a call.
func (d *drain[T, R]) callAll(ctx context.Context, tasks []*Task[T, R]) {
	begun := clock.StartWatch()
	for _, task := range tasks {
		d.turnRows++
		switch {
		case task.answer != nil:
			d.finish(Result[T, R]{Row: task.Row, Task: task.Value, Outcome: Answered, Answer: *task.answer, kindSettles: true})
		case d.work.Call == nil:
			d.finish(Result[T, R]{Row: task.Row, Task: task.Value, Outcome: Answered, kindSettles: true})
		default:
			d.calls++
			within, cancel := context.WithTimeout(ctx, d.with.timeout) //nolint:gosec // call cancels it
			one := call[T]{row: task.Row, value: task.Value, try: d.calls, watch: clock.StartWatch(), cancel: cancel, decided: new(atomic.Bool)}
			d.running[task.Row.ID] = one
			go d.call(within, d.work.Call, one, begun)
		}
	}
}

// call works one row. It uses the work that was open when the row was begun: the drainer may
// open the lane again before a hung call ends.
func (d *drain[T, R]) call(ctx context.Context, work func(context.Context, Row, T) Answer[R], one call[T], begun clock.Watch) {
	defer one.cancel()
	result := Result[T, R]{Row: one.row, Task: one.value, Outcome: Postponed, kindSettles: true, try: one.try}
	if d.e.beforeCall != nil {
		d.e.beforeCall(ctx, one.row)
	}
	late := one.row.stale() || begun.Elapsed() > callWithin || d.blocking.Load() || d.blockSeen.Load()
	if !late && one.decided.CompareAndSwap(false, true) {
		watch := clock.StartWatch()
		result.Outcome = Returned
		err := guard(func() error {
			result.Answer = work(ctx, one.row, one.value)
			return nil
		})
		result.took = watch.Elapsed()
		switch {
		case err != nil:
			result.Outcome, result.class, result.Answer = Unknown, classPanic, Answer[R]{Fault: err}
		case result.Fault != nil:
			result.class = classCall
		}
	}
	select {
	case d.done <- result:
	case <-d.ctx.Done():
	}
}

// guard turns a panic into an error.
func guard(work func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return work()
}

// finishedCall takes a result from the goroutine that called.
func (d *drain[T, R]) finishedCall(result Result[T, R]) {
	if d.running[result.Row.ID].try != result.try {
		return // it was abandoned as hung, and may have been begun again since
	}
	delete(d.running, result.Row.ID)
	d.finish(result)
}

// finishedCalls takes all results that have come in.
func (d *drain[T, R]) finishedCalls() {
	for {
		select {
		case result := <-d.done:
			d.finishedCall(result)
		default:
			return
		}
	}
}

// finish keeps a result until it is settled. A Postponed row of a kind without Begin goes back to the
// lane without a settlement: nothing was written for it.
func (d *drain[T, R]) finish(result Result[T, R]) {
	if result.Outcome == Postponed && d.work.Begin == nil {
		d.rows.release(result.Row)
		d.supply = more
		return
	}
	if len(d.results) == 0 {
		d.oldest = clock.StartWatch()
	}
	d.lastEnded = clock.StartWatch()
	d.rows.move(result.Row, settling)
	d.results = append(d.results, result)
	d.urgent = d.urgent || result.Overloaded
	if result.took > 0 {
		d.latency += (int(result.took.Milliseconds()) - d.latency) / 4
	}
}

// abandonHung gives up calls that ignore their deadline: a lane must not wait for ever.
func (d *drain[T, R]) abandonHung() {
	for _, one := range d.running {
		if one.watch.Elapsed() > d.with.timeout+startWithin {
			d.abandon(one, Answer[R]{Fault: errors.New("the call did not end within its time")}, classHung)
		}
	}
}

// cutOffCalls gives up all calls because the process stops. That is no fault of the rows: they
// go back to the lane at once unless their kind decides otherwise.
func (d *drain[T, R]) cutOffCalls() {
	for _, one := range d.running {
		d.abandon(one, Answer[R]{RetryAt: d.e.clock.Now()}, "")
	}
}

// abandon finishes a row without its call's answer, which is dropped when it comes. If the
// goroutine has not called yet, setting decided keeps it from calling, and the row is Postponed.
func (d *drain[T, R]) abandon(one call[T], answer Answer[R], class string) {
	result := Result[T, R]{Row: one.row, Task: one.value, Outcome: Unknown, Answer: answer, kindSettles: true, class: class}
	if one.decided.CompareAndSwap(false, true) {
		result.Outcome, result.Answer = Postponed, Answer[R]{}
	}
	one.cancel()
	delete(d.running, one.row.ID)
	d.finish(result)
}
