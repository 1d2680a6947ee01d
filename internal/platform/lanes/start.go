package lanes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// start begins as many rows as are free to. It returns how long the lane's pace wants the
// next one to wait, if that is what holds it back.
func (d *drain) start(ctx context.Context) (wait time.Duration, err error) {
	free := d.cap() - len(d.running) - d.uncalled()
	if d.ending || d.aged || d.urgent || d.blocking.Load() || free <= 0 || (len(d.running) > 0 && free < d.cap()/2 && !d.overtakes()) {
		return 0, nil
	}
	if d.beside != nil && len(d.results) >= batchRows {
		return 0, nil // what is worked faster than it is settled would be repeated after a death
	}
	chunk, wait := d.choose(free)
	if len(chunk) == 0 {
		return wait, nil
	}
	if err := d.begin(ctx, chunk); err != nil {
		return wait, d.beginEach(ctx, chunk, err)
	}
	d.startAll(ctx, chunk)
	return wait, nil
}

// errBlocked means that the lane was blocked after its rows were taken.
var errBlocked = errors.New("the lane is blocked")

// beginEach begins rows one by one after they could not be begun together, so that one
// bad row is found and the others go on.
func (d *drain) beginEach(ctx context.Context, chunk []Row, cause error) error {
	for _, row := range chunk {
		err := cause
		if len(chunk) > 1 && !away(cause) && !unsure(cause) && !errors.Is(cause, errBlocked) {
			err = d.begin(ctx, []Row{row})
		}
		switch {
		case err == nil:
			d.startAll(ctx, []Row{row})
		case away(err) || unsure(err) || errors.Is(err, errBlocked):
			cause = err
			d.finish(Result{Row: row, unstarted: true})
		default:
			d.finish(Result{Row: row, Fault: err, class: classBegin})
		}
	}
	switch {
	case away(cause):
		return d.pause(ctx, cause)
	case unsure(cause):
		return cause
	default:
		return nil
	}
}

// unsure tells that the lane is lost, or that nobody knows what was committed: somebody
// else starts from what is there.
func unsure(err error) bool { return errors.Is(err, errLost) || errors.Is(err, postgres.ErrUnanswered) }

func (d *drain) startAll(ctx context.Context, chunk []Row) {
	for _, row := range chunk {
		d.sliceRows++
		switch {
		case row.ID == d.state.Suspect:
			d.finish(Result{Row: row, Fault: errors.New("the process died while it worked on this row alone"), class: classDeath})
			d.state.Suspect = ids.Any{}
		case d.work.Do == nil:
			d.finish(Result{Row: row})
		default:
			d.tries++
			d.running[row.ID] = inFlight{row: row, watch: clock.StartWatch(), try: d.tries}
			go d.do(ctx, d.work.Do, row, d.tries)
		}
	}
}

// uncalled counts results of rows done without a call, which are bounded like those under way.
func (d *drain) uncalled() int {
	if d.work.Do == nil {
		return len(d.results)
	}
	return 0
}

// choose takes rows out of the waiting ones: those whose key is free and whose time to
// start has not passed.
func (d *drain) choose(most int) (chunk []Row, wait time.Duration) {
	kept, late := d.waiting[:0], map[ids.Any]bool{}
	room, next := d.roomForLater()
	var paced time.Duration
	for _, row := range d.waiting {
		switch {
		case row.Stale() || late[row.Key]:
			d.drained = false // taken again if it is still ours to take, with those behind it
			late[row.Key] = !row.Key.IsZero()
			continue
		case len(chunk) == most || paced > 0 || d.busyKeys[row.Key]:
			kept = append(kept, row)
			continue
		case row.Priority > 0 && room == 0:
			kept, wait = append(kept, row), next
			continue
		case d.limiter != nil:
			if paced = d.pace(); paced > 0 {
				kept = append(kept, row)
				continue
			}
		}
		if !row.Key.IsZero() {
			d.busyKeys[row.Key] = true
		}
		if row.Priority > 0 {
			room--
			d.stepped = clock.StartWatch()
		}
		chunk = append(chunk, row)
	}
	d.waiting = kept
	return chunk, cmp.Or(paced, wait)
}

// setPace keeps what the lane's pace has counted: opening it again is no leave to hurry.
func (d *drain) setPace(perSecond float64) {
	limit, burst := rate.Limit(perSecond), max(1, int(perSecond/20))
	switch {
	case perSecond <= 0:
		d.limiter = nil
	case d.limiter == nil:
		d.limiter = rate.NewLimiter(limit, burst)
	default:
		d.limiter.SetLimit(limit)
		d.limiter.SetBurst(burst)
	}
}

func (d *drain) pace() time.Duration {
	reserved := d.limiter.Reserve()
	wait := reserved.Delay()
	if wait > 0 {
		reserved.Cancel()
	}
	return wait
}

// begin reads what rows are about, and commits that they are about to start where the kind
// or a recent death asks for it.
func (d *drain) begin(ctx context.Context, chunk []Row) error {
	if d.work.Read != nil {
		if err := guard(func() error { return d.work.Read(ctx, chunk) }); err != nil {
			return err
		}
	}
	if d.work.Begin == nil && d.careful == 0 {
		return nil
	}
	return guard(func() error {
		return d.e.ownedTx(ctx, d.wake, func(tx *postgres.Tx, block *time.Time) error {
			if block != nil && block.After(d.e.clock.Now()) {
				return errBlocked
			}
			if d.careful > 0 && chunk[0].ID != d.state.Suspect {
				if _, err := tx.Exec(ctx, sqlSuspect, postgres.Args{"lane_id": d.ID, "suspect": chunk[0].ID}); err != nil {
					return err
				}
			}
			if d.work.Begin == nil {
				return nil
			}
			return d.work.Begin(ctx, tx, chunk)
		})
	})
}

const sqlSuspect = `
UPDATE lanes
SET suspect = @suspect
WHERE lane_id = @lane_id`

// do works one row, beside others, by the work that was open when it started: one that hangs
// is given up, and the drain may open the next before it ends.
func (d *drain) do(ctx context.Context, work func(context.Context, Row) Result, row Row, try int) {
	if row.Stale() || d.blocking.Load() {
		d.hand(ctx, Result{Row: row, try: try, unstarted: true})
		return
	}
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, d.kind.Timeout)
	defer cancel()
	watch := clock.StartWatch()
	var result Result
	err := guard(func() error {
		result = work(ctx, row)
		return nil
	})
	result.Row, result.try, result.took = row, try, watch.Elapsed()
	if err != nil {
		result.Fault, result.class = err, classPanic
	} else if result.Fault != nil {
		result.class = classDo
	}
	d.hand(outer, result)
}

// hand gives a result to the drain, if that still runs.
func (d *drain) hand(ctx context.Context, result Result) {
	select {
	case d.done <- &result:
	case <-ctx.Done():
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
