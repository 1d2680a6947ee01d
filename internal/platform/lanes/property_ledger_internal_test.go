package lanes

import (
	"context"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// A ledger lane keeps one line per attempt: begun by Begin, settled once by Settle.
const (
	sqlOpenAttempts = `SELECT row_id, n FROM sim_attempts WHERE row_id = ANY (@rows) AND settled = 0`
	sqlBeginAttempt = `INSERT INTO sim_attempts (row_id, n) SELECT @row, 1 + count(*) FROM sim_attempts WHERE row_id = @row`
	sqlEndAttempt   = `UPDATE sim_attempts SET settled = settled + 1, outcome = @outcome WHERE row_id = @row AND settled = 0 RETURNING n`
	sqlNote         = `INSERT INTO sim_notes (note, row_id) SELECT @note, unnest(@rows::uuid[])`
)

type attempt struct {
	RowID ids.Any
	N     int
}

// begin writes an attempt for each row. It answers rows whose last attempt is still open, which a
// death leaves behind and nothing else does.
func (c *checker) begin(ctx context.Context, tx *postgres.Tx, tasks []*testTask) error {
	asked := make([]ids.Any, len(tasks))
	for i, task := range tasks {
		asked[i] = task.Row.ID
	}
	left, err := postgres.Many[attempt](ctx, tx, sqlOpenAttempts, postgres.Args{"rows": asked})
	if err != nil {
		return err
	}
	for _, task := range tasks {
		one, next := c.row(task.Row.ID), c.next(task.Row.ID)
		switch {
		case slices.ContainsFunc(left, func(a attempt) bool { return a.RowID == task.Row.ID }):
			if c.calm {
				c.failf("an attempt stays open only after a death", "%s", one.name)
			}
			task.Answer(testAnswer{Value: "open", RetryAt: c.clock.Now()})
		case next == cannotBegin:
			return errPlanned
		case next == refused:
			task.Answer(testAnswer{Value: string(refused)})
		default:
			if _, err := tx.Exec(ctx, sqlBeginAttempt, postgres.Args{"row": task.Row.ID}); err != nil {
				return err
			}
			c.mu.Lock()
			one.begunAt = time.Now()
			c.mu.Unlock()
		}
	}
	return nil
}

// beforeCall lets time pass and blocks happen between the begin and the call of a row.
func (c *checker) beforeCall(ctx context.Context, p *process, row Row) {
	p.gate.stop(ctx, "before the call of "+c.row(row.ID).name)
}

func (c *checker) call(ctx context.Context, o *owner, row Row) testAnswer {
	c.starts(c.db.System("checker"), o, row)
	o.by.gate.stop(ctx, "call "+c.row(row.ID).name)
	if ctx.Err() != nil {
		return testAnswer{RetryAt: c.clock.Now().Add(time.Second)}
	}
	return c.answer(row.ID)
}

func (c *checker) row(id ids.Any) *simRow {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rows[id]
}

// next is what the row does at its next try.
func (c *checker) next(id ids.Any) plan {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.rows[id]
	if one.results < len(one.plan) {
		return one.plan[one.results]
	}
	return succeeds
}

func (c *checker) answer(id ids.Any) testAnswer {
	what := c.next(id)
	c.mu.Lock()
	one := c.rows[id]
	one.results++
	now := c.clock.Now()
	answer := testAnswer{Value: string(what)}
	one.pacedUntil = time.Time{}
	switch what {
	case retries:
		answer.RetryAt = now.Add(20 * time.Second)
	case retriesNow:
		answer.RetryAt = now.Add(-time.Second)
	case faults, panics, hangs:
		answer.Fault = errPlanned
	case cannotSettle:
		if !one.lane.settles() {
			one.finals++
		}
	case paces:
		one.finals++
		answer.KeyUntil = now.Add(7 * time.Second)
		one.pacedUntil = answer.KeyUntil
	default:
		one.finals++
		answer.Overloaded = what == overloads
	}
	c.logf("  %s %s", one.name, what)
	c.mu.Unlock()
	if what == panics {
		panic(errPlanned)
	}
	if what == hangs {
		<-c.ctx.Done() // past its deadline, until the simulation ends
	}
	return answer
}

// settle is the kinds' Settle: what it writes must be there once for each row.
func (c *checker) settle(ctx context.Context, tx *postgres.Tx, o *owner, batch *testBatch) error {
	var done []ids.Any
	for _, result := range batch.Results {
		id := result.Row.ID
		c.logf("  %s settles %s, outcome %d", o.by.name, c.row(id).name, result.Outcome)
		what := plan(result.Value)
		if o.lane.work == settleOnly {
			c.starts(tx, o, result.Row)
			what = c.next(id)
		}
		switch {
		case what == cannotSettle && result.Outcome != Unknown:
			return errPlanned
		case what == blocks:
			batch.Block(c.clock.Now().Add(blockedFor))
			c.stopped(tx, o)
		}
		if o.lane.work == withLedger && what != refused {
			if err := c.endAttempt(ctx, tx, result); err != nil {
				return err
			}
		}
		if result.RetryAt.IsZero() && result.Fault == nil && result.Outcome != Postponed {
			done = append(done, id)
		}
	}
	_, err := tx.Exec(ctx, sqlNote, postgres.Args{"note": "settled", "rows": done})
	return err
}

// endAttempt settles the open attempt of a row, and compares its outcome with whether it was called.
func (c *checker) endAttempt(ctx context.Context, tx *postgres.Tx, result testResult) error {
	ended, err := postgres.Many[int](ctx, tx, sqlEndAttempt, postgres.Args{"row": result.Row.ID, "outcome": result.Outcome})
	if err != nil {
		return err
	}
	one := c.row(result.Row.ID)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(ended) != 1 {
		c.failf("a begun row is settled once", "%s: %d open attempts", one.name, len(ended))
		return nil
	}
	called := one.called[ended[0]]
	if result.Outcome == Postponed && called || (result.Outcome == Returned || result.Outcome == Unknown) && !called {
		c.failf("the outcome tells whether the row was called", "%s: outcome %d, called %t", one.name, result.Outcome, called)
	}
	return nil
}

// setAside is the kinds' SetAside.
func (c *checker) setAside(ctx context.Context, tx *postgres.Tx, lane Lane, rows []Aside[string]) error {
	if c.lanes[lane.ID].asideFails {
		return errPlanned
	}
	aside := make([]ids.Any, len(rows))
	for i, row := range rows {
		aside[i] = row.Row.ID
		c.logf("  %s is set aside: %s", c.row(row.Row.ID).name, row.Reason)
		if _, err := tx.Exec(ctx, sqlEndAttempt, postgres.Args{"row": row.Row.ID, "outcome": -1}); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, sqlNote, postgres.Args{"note": "aside", "rows": aside})
	return err
}
