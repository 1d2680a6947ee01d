package callbacks

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// drainer applies the callbacks of one lane. A batch is applied in one transaction; if that
// fails, each item of the batch is applied in a transaction of its own.
type drainer struct {
	s   *Service
	org orgs.ID
}

// apart are the callbacks whose items are applied one by one. The set outlives a drainer: the
// rows go back into the lane, and the next drainer may take them.
type apart struct {
	mu   sync.Mutex
	rows map[ids.Any]bool
}

func (a *apart) set(rows []lanes.Row, in bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, row := range rows {
		if in {
			a.rows[row.ID] = true
		} else {
			delete(a.rows, row.ID)
		}
	}
}

func (a *apart) has(row lanes.Row) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rows[row.ID]
}

func (s *Service) open(_ context.Context, lane lanes.Lane) (lanes.Work, error) {
	d := &drainer{s: s, org: lane.Org}
	return lanes.Work{Read: d.read, Do: d.do, Settle: d.settle}, nil
}

func (d *drainer) read(ctx context.Context, rows []lanes.Row) error {
	asked, least, greatest := lanes.Span(rows)
	found, err := d.s.read(ctx, d.org, asked, least, greatest)
	if err != nil {
		return err
	}
	for i := range rows {
		if one, there := found[rows[i].ID]; there {
			rows[i].Value = one
		}
	}
	return nil
}

// do applies the items of a callback one by one if its batch failed before.
func (d *drainer) do(ctx context.Context, row lanes.Row) lanes.Result {
	one, there := row.Value.(received)
	if !there || !d.s.apart.has(row) {
		return lanes.Result{Value: row.Value}
	}
	if err := d.applyEach(ctx, one); err != nil {
		return lanes.Result{RetryAt: d.s.clock.Now().Add(retryAfter)}
	}
	return lanes.Result{}
}

// retryAfter is how long a callback waits after the database did not answer.
const retryAfter = time.Second

// settle applies the callbacks of a batch.
func (d *drainer) settle(ctx context.Context, tx *postgres.Tx, batch *lanes.Batch) error {
	var all []received
	var done []lanes.Row
	for i := range batch.Results {
		result := &batch.Results[i]
		one, read := result.Value.(received)
		switch {
		case !result.RetryAt.IsZero():
			continue
		case !read:
			one = gone(ids.From[Kind](result.Row.ID))
		case d.s.apart.has(result.Row):
			result.RetryAt = d.s.clock.Now() // its batch failed: do applies its items one by one
			continue
		}
		all, done = append(all, one), append(done, result.Row)
	}
	if err := d.s.settleTx(ctx, tx, all); err != nil {
		if !postgres.Repeatable(err) {
			d.s.apart.set(done, true)
		}
		return err
	}
	tx.AfterCommit(func() { d.s.apart.set(done, false) })
	return nil
}

// applyEach applies each item in a transaction of its own. An error means that the database did
// not answer: the callback stays in the lane, and its items will be applied again.
func (d *drainer) applyEach(ctx context.Context, one received) error {
	for _, part := range one.split() {
		_, err := postgres.InTx(ctx, d.s.work, d.org, func(tx *postgres.Tx) (struct{}, error) {
			return struct{}{}, d.s.settleTx(ctx, tx, []received{part})
		})
		if unanswered(err) || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if err == nil {
			continue
		}
		d.s.logger.WarnContext(ctx, "callback.item_dead", "org", d.org, "field", part.items[0].Field, "error", err)
		_, err = postgres.InTx(ctx, d.s.work, d.org, func(tx *postgres.Tx) (struct{}, error) {
			return struct{}{}, d.s.setAsideTx(ctx, tx, part, err.Error())
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// unanswered reports that the database failed, not the item.
func unanswered(err error) bool {
	return fault.Of(err) == fault.ServiceUnavailable || postgres.Repeatable(err)
}
