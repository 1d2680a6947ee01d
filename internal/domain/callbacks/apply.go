package callbacks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// drainer applies what waits in one lane. What is taken together is applied together; when
// that fails, all of it is taken apart and each item applied in a transaction of its own.
type drainer struct {
	s   *Service
	org orgs.ID
}

// apart are callbacks whose items are applied one by one. They outlive the drainer: what
// was put back is taken by the next.
type apart struct {
	mu   sync.Mutex
	rows map[ids.Any]bool
}

func (a *apart) add(rows []lanes.Row) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, row := range rows {
		a.rows[row.ID] = true
	}
}

func (a *apart) has(row lanes.Row) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rows[row.ID]
}

func (a *apart) drop(rows []lanes.Row) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, row := range rows {
		delete(a.rows, row.ID)
	}
}

// parcel is a callback taken apart into its items; nil once each was applied alone.
type parcel struct{ items []provider.Notification }

func (s *Service) open(_ context.Context, lane lanes.Lane) (lanes.Work, error) {
	d := &drainer{s: s, org: lane.Org}
	return lanes.Work{Read: d.read, Do: d.do, Settle: d.settle}, nil
}

// read finds the bodies. What is not found any more has no items.
func (d *drainer) read(ctx context.Context, rows []lanes.Row) error {
	asked, least, greatest := lanes.Span(rows)
	bodies, err := postgres.Many[stored](ctx, d.s.work.Of(d.org), sqlBodies,
		postgres.Args{"ids": asked, "least": least, "greatest": greatest})
	if err != nil {
		return err
	}
	found := make(map[ids.Any]*parcel, len(bodies))
	for _, one := range bodies {
		items, err := d.s.parser.Parse(one.Body)
		if err != nil {
			items = []provider.Notification{unreadable(one)}
		}
		found[one.ID.Any()] = &parcel{items: items}
	}
	for i := range rows {
		if one := found[rows[i].ID]; one != nil {
			rows[i].Value = one
		}
	}
	return nil
}

// unreadable is a body that could be read when it was stored.
func unreadable(one stored) provider.Notification {
	item := provider.Notification{Item: provider.Unknown{Reason: "the body can no longer be read"}, Raw: one.Body}
	part := one.part(orgs.ID{})
	item.NumberID, item.BusinessAccountID = part.NumberID, part.BusinessAccountID
	return item
}

// do has work only for callbacks that are taken apart.
func (d *drainer) do(ctx context.Context, row lanes.Row) lanes.Result {
	one, there := row.Value.(*parcel)
	if !there || !d.s.apart.has(row) {
		return lanes.Result{Value: one}
	}
	if err := d.applyEach(ctx, one.items); err != nil {
		return lanes.Result{RetryAt: d.s.clock.Now().Add(retryAfter)}
	}
	return lanes.Result{}
}

// retryAfter is how long an item waits for a database that did not answer.
const retryAfter = time.Second

// settle applies what is together, and notes what is done.
func (d *drainer) settle(ctx context.Context, tx *postgres.Tx, batch *lanes.Batch) error {
	var items []provider.Notification
	var together, done []lanes.Row
	for i := range batch.Results {
		result := &batch.Results[i]
		one, _ := result.Value.(*parcel)
		switch {
		case !result.RetryAt.IsZero():
		case one != nil && d.s.apart.has(result.Row):
			result.RetryAt = d.s.clock.Now() // it failed with others: do takes it apart
		default:
			if one != nil {
				items, together = append(items, one.items...), append(together, result.Row)
			}
			done = append(done, result.Row)
		}
	}
	if err := d.s.applyTx(ctx, tx, items); err != nil {
		if !postgres.Repeatable(err) {
			d.s.apart.add(together)
		}
		return err
	}
	if len(done) == 0 {
		return nil
	}
	tx.AfterCommit(func() { d.s.apart.drop(done) })
	applied, least, greatest := lanes.Span(done)
	_, err := tx.Exec(ctx, sqlApplied, postgres.Args{"ids": applied, "least": least, "greatest": greatest})
	return err
}

// applyTx gives items to the consumers, and sets aside what none of them takes.
func (s *Service) applyTx(ctx context.Context, tx *postgres.Tx, items []provider.Notification) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	for _, consume := range s.consumers {
		if len(items) == 0 {
			return nil
		}
		if items, err = consume(ctx, tx, items); err != nil {
			return err
		}
	}
	return s.setAsideTx(ctx, tx, Unhandled, "nobody takes such items yet", items)
}

// applyEach applies each item in a transaction of its own. An error means that the database
// did not answer: what was applied already will be applied again.
func (d *drainer) applyEach(ctx context.Context, items []provider.Notification) error {
	for _, item := range items {
		one := []provider.Notification{item}
		_, err := postgres.InTx(ctx, d.s.work, d.org, func(tx *postgres.Tx) (struct{}, error) {
			return struct{}{}, d.s.applyTx(ctx, tx, one)
		})
		if unanswered(err) || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if err == nil {
			continue
		}
		d.s.logger.WarnContext(ctx, "callback.item_dead", "org", d.org, "field", item.Field, "error", err)
		_, err = postgres.InTx(ctx, d.s.work, d.org, func(tx *postgres.Tx) (struct{}, error) {
			return struct{}{}, d.s.setAsideTx(ctx, tx, Dead, err.Error(), one)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// unanswered tells the database's condition from a fault of the item.
func unanswered(err error) bool {
	return fault.Of(err) == fault.ServiceUnavailable || postgres.Repeatable(err)
}

const maxReason = 500

// setAsideTx keeps items for an operator, or for a consumer that does not exist yet.
func (s *Service) setAsideTx(ctx context.Context, tx *postgres.Tx, state State, reason string, items []provider.Notification) error {
	if len(items) == 0 {
		return nil
	}
	count := len(items)
	all, fields := make([]ID, count), make([]string, count)
	numbers, accounts, bodies := make([]*string, count), make([]*string, count), make([][]byte, count)
	for i, item := range items {
		body, err := item.Envelope()
		if err != nil {
			body = item.Raw
		}
		all[i], fields[i], bodies[i] = ids.New[Kind](s.clock.Now()), Storable(item.Field), body
		numbers[i], accounts[i] = orNil(Storable(item.NumberID)), orNil(Storable(item.BusinessAccountID))
	}
	reason = Storable(reason[:min(len(reason), maxReason)])
	_, err := tx.Exec(ctx, sqlSetAside, postgres.Args{
		"state": state, "reason": reason, "ids": all, "fields": fields, "numbers": numbers,
		"accounts": accounts, "bodies": bodies,
	})
	return err
}

// Storable is text that PostgreSQL can store: valid UTF-8 without NUL.
func Storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
