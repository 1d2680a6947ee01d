package lanes

import (
	"context"
	"slices"
)

// besideFlush settles results while the drain goes on: an endpoint or a number does not
// stand still while the database writes. There is one at a time.
type besideFlush struct {
	results []Result
	s       settlement
	err     error
}

// mayFlushBeside tells that nothing about the results decides how the lane goes on.
func (d *drain) mayFlushBeside() bool {
	return d.work.Do != nil && d.work.Settle != nil && !d.urgent && !d.ending && !d.probing && d.careful == 0 && !faulty(d.results)
}

func (d *drain) flushBeside(ctx context.Context) {
	mine := &besideFlush{results: d.results, s: settlement{ending: keep}, err: errLost}
	d.describe(mine.results, &mine.s)
	d.results, d.beside = nil, mine
	go func() {
		defer func() { d.flushed <- mine }()
		mine.err = d.tryFlush(ctx, mine.results, &mine.s)
	}()
}

// conclude does what follows from a flush beside the loop. If it failed, what came in since
// waits until it is settled.
func (d *drain) conclude(ctx context.Context, done *besideFlush) error {
	d.beside = nil
	if done.err == nil {
		d.settled(done.results, done.s)
		d.drained = d.drained && len(done.s.again) == 0 // a take may have passed over them
		return nil
	}
	since, urgent := d.results, d.urgent
	d.results = done.results
	err := d.answered(ctx, done.s, done.err)
	d.results, d.urgent = since, urgent
	return err
}

// unsettled are the results that the database does not know of yet, for all this drain knows.
func (d *drain) unsettled() []Result {
	if d.beside == nil {
		return d.results
	}
	return slices.Concat(d.beside.results, d.results)
}

// awaitBeside lets no flush outlive its drain.
func (d *drain) awaitBeside() {
	if d.beside != nil {
		<-d.flushed
	}
}
