package lanes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// besideFlush is a settlement that is written beside the loop, so that calls go on while the database
// writes. There is one at a time.
type besideFlush[T, R any] struct {
	results []Result[T, R]
	s       settlement
	err     error
}

// settleResults settles what is finished, and ends the lane's turn when it should.
func (d *drain[T, R]) settleResults(ctx context.Context) (over bool, err error) {
	idle := len(d.running) == 0
	d.turn(ctx)
	switch {
	case idle && d.phase == ending:
		return true, d.flush(ctx, settlement{ending: handOver})
	case idle && d.rows.in(waiting) == 0 && d.supply == dry && d.linger() == 0:
		return true, d.flush(ctx, settlement{ending: disarm})
	case len(d.results) == 0:
		return false, nil
	case d.mayFlushBeside():
		d.flushBeside(ctx)
		return false, nil
	default:
		return false, d.flush(ctx, settlement{ending: keep})
	}
}

func (d *drain[T, R]) flushDue() bool {
	return len(d.results) >= batchRows || d.urgent || len(d.results) > 0 && d.oldest.Elapsed() > d.with.gather
}

// mayFlushBeside tells that nothing in the results decides how the lane goes on.
func (d *drain[T, R]) mayFlushBeside() bool {
	return d.work.Settle != nil && !d.urgent && d.phase != ending && !d.probing && d.careful == 0 && !faulty(d.results)
}

func (d *drain[T, R]) flushBeside(ctx context.Context) {
	mine := &besideFlush[T, R]{results: d.results, s: settlement{ending: keep}, err: errLost}
	d.describe(mine.results, &mine.s)
	d.results, d.beside = nil, mine
	go func() {
		defer func() { d.flushed <- mine }()
		mine.err = d.tryFlush(ctx, mine.results, &mine.s)
	}()
}

// conclude goes on after a flush beside the loop. If it failed, results that came in since wait
// until it is settled.
func (d *drain[T, R]) conclude(ctx context.Context, done *besideFlush[T, R]) error {
	d.beside = nil
	if done.err == nil {
		d.settled(done.results, done.s)
		return nil
	}
	since, urgent := d.results, d.urgent
	d.results = done.results
	err := d.afterFlush(ctx, done.s, done.err)
	d.results, d.urgent = since, urgent
	return err
}

// awaitBeside lets no flush outlive its drainer.
func (d *drain[T, R]) awaitBeside() {
	if d.beside != nil {
		<-d.flushed
	}
}

// flush settles the results at hand and says what becomes of the lane. Rows stay unsettled when the
// lane is lost, when the database is away for longer than the process lives, and when our own part
// of the settlement fails: the drainer then leaves the lane to the watchdog.
func (d *drain[T, R]) flush(ctx context.Context, s settlement) error {
	d.leaving.Store(s.ending != keep)
	d.describe(d.results, &s)
	err := d.tryFlush(ctx, d.results, &s)
	return d.afterFlush(ctx, s, err)
}

// afterFlush handles the result of a settlement: it repeats it while the database is away, and
// settles rows singly if it fails.
func (d *drain[T, R]) afterFlush(ctx context.Context, s settlement, err error) error {
	results := d.results
	for away(err) && d.pause(ctx, err) == nil {
		err = d.tryFlush(ctx, results, &s)
	}
	if s.ending == disarm {
		d.e.lookAgain(d.Lane) // also after an error: an earlier try may have been committed
	}
	switch {
	case err == nil:
		d.results, d.urgent = nil, false
		d.settled(results, s)
		return nil
	case errors.Is(err, errLost) || away(err) || ctx.Err() != nil:
		return err
	case errors.Is(err, errHandOver):
		d.e.alarm(ctx, d.Lane, err)
		s.unhanded = true
		return d.afterFlush(ctx, s, d.tryFlush(ctx, results, &s))
	case len(results) > 1:
		return d.flushEach(ctx, s)
	case len(results) == 1:
		return d.flushAlone(ctx, s, err)
	default:
		return err
	}
}

// flushEach settles results one by one after they could not be settled together. The last one
// ends the lane's turn as was asked.
func (d *drain[T, R]) flushEach(ctx context.Context, s settlement) error {
	all := d.results
	for i := range all {
		d.results = all[i : i+1]
		one := s
		if i < len(all)-1 {
			one.ending = keep
		}
		if err := d.flush(ctx, one); err != nil {
			return err // the next owner takes again what is left
		}
	}
	return nil
}

// flushAlone settles a row whose result could not be settled, although it was alone. Its parts
// are settled one by one, if it has any. Else the kind is told that the result is unknown, and
// if it cannot settle that either, the row is a fault without it.
func (d *drain[T, R]) flushAlone(ctx context.Context, s settlement, cause error) error {
	result := &d.results[0]
	if !result.kindSettles {
		return cause // the kind was not asked: the settlement itself is wrong
	}
	if d.work.Split != nil && !result.split {
		result.split = true
		if parts := d.work.Split(result.Task); len(parts) > 0 {
			err := d.flushParts(ctx, *result, parts)
			switch {
			case errors.Is(err, errHandOver):
				d.e.alarm(ctx, d.Lane, err)
				s.unhanded = true
				result.class, result.Fault = classUnsettled, err
			case err != nil:
				return err
			}
			result.kindSettles = false // its parts are settled
			return d.flush(ctx, s)
		}
	}
	if result.Outcome != Unknown || result.class != classSettle {
		result.Outcome, result.class, result.Answer = Unknown, classSettle, Answer[R]{Fault: cause}
		return d.flush(ctx, s)
	}
	result.kindSettles, result.Fault = false, cause
	if d.work.Begin != nil {
		result.class = classUnsettled // the row must not be called again without its kind knowing
	}
	return d.flush(ctx, s)
}

// flushParts settles each part of a row in a transaction of its own. A part that cannot be
// settled is handed to SetAside. After a crash all parts are settled again.
func (d *drain[T, R]) flushParts(ctx context.Context, of Result[T, R], parts []T) error {
	for _, part := range parts {
		one := of
		one.Task = part
		err := d.untilAnswered(ctx, func(tx *postgres.Tx) error {
			return d.settleOwn(ctx, tx, &Batch[T, R]{Lane: d.Lane, Results: []Result[T, R]{one}, blocking: &d.blocking})
		})
		if err != nil && !errors.Is(err, errLost) && ctx.Err() == nil {
			reason := brief(err)
			d.e.logger.WarnContext(ctx, "lane.part_set_aside", "lane", d.ID, "kind", d.Kind, "row", of.Row.ID, "reason", reason)
			err = d.untilAnswered(ctx, func(tx *postgres.Tx) error {
				return d.handOverTx(ctx, tx, []Aside[T]{{Row: of.Row, Task: part, Reason: reason}})
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// untilAnswered runs a transaction of the lane's owner again while the database is away.
func (d *drain[T, R]) untilAnswered(ctx context.Context, verb func(tx *postgres.Tx) error) error {
	for {
		d.loops.Add(1)
		err := d.e.ownedTx(ctx, d.wake, func(tx *postgres.Tx, _ *time.Time) error { return verb(tx) })
		if !away(err) {
			return err
		}
		if err := d.pause(ctx, err); err != nil {
			return err
		}
	}
}

// describe fills in what the next drainer should know: concurrency, latency, and whether the lane
// went well since the last death.
func (d *drain[T, R]) describe(results []Result[T, R], s *settlement) {
	s.wake, s.concurrency, s.latencyMs = d.wake, d.slots, d.latency
	s.clean = d.careful <= len(results) || s.ending == disarm
	s.liftBlock = d.probing && healthy(results)
}

// tryFlush changes nothing of the drainer: it may run beside the loop.
func (d *drain[T, R]) tryFlush(ctx context.Context, results []Result[T, R], s *settlement) error {
	if d.work.Settle == nil && s.ending != handOver && !faulty(results) {
		d.sortOut(results, s, nil)
		kept, err := d.e.settles.Ask(ctx, *s)
		if err == nil && !kept {
			err = errLost
		}
		return err
	}
	return d.e.ownedTx(ctx, s.wake, func(tx *postgres.Tx, block *time.Time) error {
		again := *s
		batch := &Batch[T, R]{Lane: d.Lane, Results: slices.Clone(results), blocking: &d.blocking}
		if err := d.settleOwn(ctx, tx, batch); err != nil {
			return err
		}
		again.block = batch.block
		judged, err := d.judgeTx(ctx, tx, batch.Results)
		if err != nil {
			return err
		}
		if aside := asideOf(batch.Results, judged); len(aside) > 0 && !again.unhanded {
			if err := d.handOverTx(ctx, tx, aside); err != nil {
				return err
			}
		}
		d.sortOut(batch.Results, &again, judged)
		if err := d.e.settleTx(ctx, tx, again, block); err != nil {
			return err
		}
		*s = again
		return nil
	})
}

// settleOwn lets the kind settle the rows that it knows. The others come after.
func (d *drain[T, R]) settleOwn(ctx context.Context, tx *postgres.Tx, batch *Batch[T, R]) error {
	if d.work.Settle == nil {
		return nil
	}
	var known, others []Result[T, R]
	for _, result := range batch.Results {
		if result.kindSettles {
			known = append(known, result)
		} else {
			others = append(others, result)
		}
	}
	if len(known) == 0 {
		return nil
	}
	batch.Results = known
	if err := guard(func() error { return d.work.Settle(ctx, tx, batch) }); err != nil {
		return err
	}
	batch.Results = append(batch.Results, others...)
	return nil
}

// handOverTx gives rows that are set aside to their kind.
func (d *drain[T, R]) handOverTx(ctx context.Context, tx *postgres.Tx, rows []Aside[T]) error {
	if d.kind.SetAside == nil {
		return nil
	}
	err := guard(func() error { return d.kind.SetAside(ctx, tx, d.Lane, rows) })
	if err != nil && !away(err) && !postgres.Repeatable(err) {
		err = fmt.Errorf("%w: %w", errHandOver, err)
	}
	return err
}

func faulty[T, R any](results []Result[T, R]) bool {
	return slices.ContainsFunc(results, func(r Result[T, R]) bool { return r.Fault != nil })
}

func healthy[T, R any](results []Result[T, R]) bool {
	return len(results) > 0 && !slices.ContainsFunc(results, func(r Result[T, R]) bool {
		return r.Fault != nil || r.Overloaded || !r.RetryAt.IsZero() || r.Outcome == Postponed
	})
}

// sortOut says which rows leave, which wait again and what that means for their keys. Postponed
// rows stay where they are.
func (d *drain[T, R]) sortOut(results []Result[T, R], s *settlement, judged []faultRow) {
	now := d.e.clock.Now()
	s.gone, s.again, s.keys, s.faults = nil, nil, nil, judged
	verdicts := make(map[ids.Any]faultRow, len(judged))
	for _, one := range judged {
		verdicts[one.ID] = one
	}
	for _, result := range results {
		if result.Outcome == Postponed {
			continue
		}
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
		s.keys = append(s.keys, d.keyStates(result, retry)...)
	}
}

// later keeps a retry after now: a row must not come back at the due time that it leaves.
func later(retry, now time.Time) time.Time {
	if retry.After(now) {
		return retry
	}
	return now.Add(time.Millisecond)
}

// keyStates says what a result means for the other rows of its key.
func (d *drain[T, R]) keyStates(result Result[T, R], retry time.Time) []keyState {
	key := result.Row.Key
	switch {
	case key.IsZero():
		return nil
	case !retry.IsZero() && d.with.retries == Hold:
		return []keyState{{key: key, holder: result.Row.ID, until: retry}}
	case !result.KeyUntil.IsZero():
		return []keyState{{key: key, until: result.KeyUntil}}
	case d.with.retries == Hold:
		return []keyState{{key: key}}
	default:
		return nil
	}
}

// settled forgets rows that were settled and learns from them.
func (d *drain[T, R]) settled(results []Result[T, R], s settlement) {
	overloaded := false
	for _, result := range results {
		if result.Outcome == Postponed {
			d.rows.release(result.Row)
			d.supply = more
		} else {
			d.rows.settled(result.Row)
		}
		overloaded = overloaded || result.Overloaded
	}
	for _, key := range s.keys {
		if !key.until.IsZero() {
			d.rows.dropKey(key.key)
		}
	}
	if len(s.again)+len(s.keys) > 0 && d.supply == dry {
		d.supply = more // rows wait again, or a parked row of a key came back
	}
	if !s.block.IsZero() {
		d.end() // blocking stays set: a row that was begun before the block must not be called
	} else {
		d.blocking.Store(false)
	}
	d.careful = max(0, d.careful-len(results))
	if len(results) > 0 {
		d.probing = d.probing && !healthy(results)
	}
	switch {
	case overloaded:
		d.slots = max(1, d.slots/2)
	case len(results) > 0:
		d.slots = min(d.slots+1, d.with.most)
	}
	d.e.rows.Add(int64(len(results)))
}
