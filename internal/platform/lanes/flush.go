package lanes

import (
	"context"
	"errors"
	"time"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// finished takes a result from the goroutine that worked the row.
func (d *drain) finished(result Result) {
	if d.running[result.Row.ID].try != result.try {
		return // it was given up for hung, and may have been begun again since
	}
	delete(d.running, result.Row.ID)
	d.ended = clock.StartWatch()
	d.finish(result)
}

func (d *drain) finish(result Result) {
	if result.unstarted {
		delete(d.busyKeys, result.Row.Key)
		d.dropKey(result.Row.Key) // taken again together with it, in their order
		d.drained = false
		return
	}
	if len(d.results) == 0 {
		d.oldest = clock.StartWatch()
	}
	d.results = append(d.results, result)
	d.urgent = d.urgent || result.Overloaded // the kind may want to block the lane before more rows start
	if result.took > 0 {
		d.latency += (int(result.took.Milliseconds()) - d.latency) / 4
	}
}

// finishedMore takes what else has come in.
func (d *drain) finishedMore() {
	for {
		select {
		case result := <-d.done:
			d.finished(*result)
		default:
			return
		}
	}
}

func (d *drain) flushDue() bool {
	return len(d.results) >= batchRows || d.urgent || len(d.results) > 0 && d.oldest.Elapsed() > d.kind.Gather
}

// abandonHung gives up rows that ignore their deadline: a lane must not wait for ever.
func (d *drain) abandonHung() {
	for id, one := range d.running {
		if one.watch.Elapsed() > d.kind.Timeout+startWithin {
			delete(d.running, id)
			d.finish(Result{Row: one.row, Fault: errors.New("it did not end within its time"), class: classHung})
		}
	}
}

// flush settles the results at hand and says what becomes of the lane. Rows stay unsettled
// only when the lane is lost, or the database is away for longer than this process waits.
func (d *drain) flush(ctx context.Context, s settlement) error {
	d.leaving.Store(s.ending != keep)
	d.describe(d.results, &s)
	err := d.tryFlush(ctx, d.results, &s)
	return d.answered(ctx, s, err)
}

// answered goes on from the first try to settle the results at hand.
func (d *drain) answered(ctx context.Context, s settlement, err error) error {
	results := d.results
	for away(err) {
		if err = d.pause(ctx, err); err != nil {
			break
		}
		err = d.tryFlush(ctx, results, &s)
	}
	if s.ending == disarm {
		d.e.lookAgain(d.Lane) // also if another try than the last did it
	}
	switch {
	case err == nil:
		d.results, d.urgent = nil, false
		d.settled(results, s)
		return nil
	case errors.Is(err, errLost) || away(err) || ctx.Err() != nil:
		return err
	case fault.Of(err) == fault.ServiceUnavailable:
		return d.flushUnknown(ctx, s, err)
	case len(results) > 1:
		return d.flushEach(ctx, s)
	case len(results) == 1 && results[0].class != classSettle:
		// It cannot be settled: that is a fault of the row, recorded without asking the kind.
		d.results[0].Fault, d.results[0].class = err, classSettle
		return d.flush(ctx, s)
	default:
		return err
	}
}

// away tells a database that did nothing from one that refused.
func away(err error) bool { return postgres.Undone(err) }

// flushEach settles results one by one after they could not be settled together, and
// ends as was asked with the last.
func (d *drain) flushEach(ctx context.Context, s settlement) error {
	all := d.results
	for i := range all {
		d.results = all[i : i+1]
		one := s
		if i < len(all)-1 {
			one.ending = keep
		}
		if err := d.flush(ctx, one); err != nil {
			return err // what is left is taken again by the next owner
		}
	}
	return nil
}

// describe says how the lane does.
func (d *drain) describe(results []Result, s *settlement) {
	s.wake, s.concurrency, s.latencyMs = d.wake, d.slots, d.latency
	s.clean = d.careful <= len(results) || s.ending == disarm
	if d.probing && healthy(results) {
		s.blocked = new(time.Time) // the probe went well
	}
}

// tryFlush touches nothing of the drain that changes: it may run beside its loop.
func (d *drain) tryFlush(ctx context.Context, results []Result, s *settlement) error {
	if d.work.Settle == nil && s.ending != handOver && !faulty(results) {
		d.divide(results, s, nil)
		kept, err := d.e.settles.Ask(ctx, *s)
		if err == nil && !kept {
			err = errLost
		}
		return err
	}
	return d.e.ownedTx(ctx, s.wake, func(tx *postgres.Tx, block *time.Time) error {
		again := *s
		batch := &Batch{Lane: d.Lane, Results: append([]Result(nil), results...), blocking: &d.blocking}
		if d.work.Settle != nil && len(results) > 0 {
			if err := d.settleOwn(ctx, tx, batch); err != nil {
				return err
			}
		}
		if batch.blocked != nil {
			again.blocked = batch.blocked
		}
		judged, err := judgeTx(ctx, tx, d.ID, failed(batch.Results))
		if err != nil {
			return err
		}
		d.divide(batch.Results, &again, judged)
		if err := d.e.settleTx(ctx, tx, again, block); err != nil {
			return err
		}
		*s = again
		return nil
	})
}

// settleOwn lets the kind settle what did not fail.
func (d *drain) settleOwn(ctx context.Context, tx *postgres.Tx, batch *Batch) error {
	all := batch.Results
	batch.Results = nil
	for _, result := range all {
		if result.Fault == nil {
			batch.Results = append(batch.Results, result)
		}
	}
	if len(batch.Results) > 0 {
		if err := guard(func() error { return d.work.Settle(ctx, tx, batch) }); err != nil {
			return err
		}
	}
	batch.Results = append(batch.Results, failed(all)...)
	return nil
}

func failed(results []Result) (faults []Result) {
	for _, result := range results {
		if result.Fault != nil {
			faults = append(faults, result)
		}
	}
	return faults
}

func faulty(results []Result) bool { return len(failed(results)) > 0 }

func healthy(results []Result) bool {
	for _, result := range results {
		if result.Fault != nil || result.Overloaded || !result.RetryAt.IsZero() {
			return false
		}
	}
	return len(results) > 0
}

// divide says which rows leave, which wait again and what that means for their keys.
func (d *drain) divide(results []Result, s *settlement, judged []faultRow) {
	now := d.e.clock.Now()
	s.gone, s.again, s.keys, s.faults = nil, nil, nil, judged
	verdicts := make(map[ids.Any]faultRow, len(judged))
	for _, one := range judged {
		verdicts[one.ID] = one
	}
	for _, result := range results {
		retry := result.RetryAt
		if one, found := verdicts[result.Row.ID]; found {
			if retry = (time.Time{}); !one.aside {
				retry = now.Add(patience(one.times))
			}
		}
		s.gone = append(s.gone, result.Row)
		if !retry.IsZero() {
			again := result.Row
			again.DueAt = later(retry, now)
			s.again = append(s.again, again)
		}
		d.divideKey(result, retry, s)
	}
}

// later keeps a retry after now: a row must not come back under the key that it leaves.
func later(retry, now time.Time) time.Time {
	if retry.After(now) {
		return retry
	}
	return now.Add(time.Millisecond)
}

func (d *drain) divideKey(result Result, retry time.Time, s *settlement) {
	key := result.Row.Key
	switch {
	case key.IsZero():
	case !retry.IsZero() && d.kind.Retries == Hold:
		s.keys = append(s.keys, keyState{key: key, holder: result.Row.ID, until: retry})
	case !result.KeyUntil.IsZero():
		s.keys = append(s.keys, keyState{key: key, until: result.KeyUntil})
	case d.kind.Retries == Hold:
		s.keys = append(s.keys, keyState{key: key})
	}
}

// settled forgets rows that were settled and learns from them.
func (d *drain) settled(results []Result, s settlement) {
	if s.blocked != nil && !s.blocked.IsZero() {
		d.waiting, d.ending = nil, true // the lane is handed over once the rows under way are settled
	}
	d.blocking.Store(false)
	overloaded := false
	for _, result := range results {
		delete(d.busyKeys, result.Row.Key)
		overloaded = overloaded || result.Overloaded
	}
	for _, key := range s.keys {
		if !key.until.IsZero() {
			d.dropKey(key.key)
		}
	}
	d.careful = max(0, d.careful-len(results))
	if len(results) > 0 {
		d.probing = d.probing && !healthy(results)
	}
	switch {
	case overloaded:
		d.slots = max(1, d.slots/2)
	case len(results) > 0:
		d.slots = min(d.slots+1, d.kind.Most)
	}
	d.e.rows.Add(int64(len(results)))
}

// dropKey leaves rows alone whose key is held: they are taken again when it is free.
func (d *drain) dropKey(key ids.Any) {
	if key.IsZero() {
		return
	}
	kept := d.waiting[:0]
	for _, row := range d.waiting {
		if row.Key != key {
			kept = append(kept, row)
		}
	}
	d.waiting = kept
}

const sqlStillThere = `
SELECT EXISTS (
    SELECT FROM lane_rows WHERE lane_id = @lane_id AND priority = @priority AND due_at = @due_at AND id = @id)`

// flushUnknown finds out whether an unanswered commit was made: the fence waits for whoever
// still holds the lane, and a row that was settled is not where it was.
func (d *drain) flushUnknown(ctx context.Context, s settlement, cause error) error {
	results, there := d.results, true
	for err := cause; err != nil; {
		err = d.e.ownedTx(ctx, d.wake, func(tx *postgres.Tx, _ *time.Time) (err error) {
			if len(results) > 0 {
				row := results[0].Row
				there, err = postgres.One[bool](ctx, tx, sqlStillThere,
					postgres.Args{"lane_id": d.ID, "priority": row.Priority, "due_at": row.DueAt, "id": row.ID})
			}
			return err
		})
		switch {
		case away(err):
			if err := d.pause(ctx, err); err != nil {
				return err
			}
		case err != nil && !errors.Is(err, postgres.ErrUnanswered):
			return err
		}
	}
	if there {
		return d.flush(ctx, s)
	}
	d.results, d.urgent = nil, false
	d.settled(results, s)
	return nil
}
