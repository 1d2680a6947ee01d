package lanes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// rowArgs is the job of one row, for kinds that run without lanes.
type rowArgs struct {
	Lane     ids.Any `json:"lane"`
	Org      ids.Org `json:"org"`
	Of       string  `json:"of"`
	ID       ids.Any `json:"id"`
	Key      ids.Any `json:"key"`
	Priority int     `json:"priority"`
}

// Kind names the job.
func (rowArgs) Kind() string { return "lane_row" }

func (l *Lanes) addJobsTx(ctx context.Context, tx *postgres.Tx, kind *Kind, lane ids.Any, rows []Row) error {
	added := make([]jobs.Job, len(rows))
	for i, row := range rows {
		added[i] = jobs.Job{
			Args:  rowArgs{Lane: lane, Org: tx.Org(), Of: kind.Name, ID: row.ID, Key: row.Key, Priority: row.Priority},
			Queue: kind.Name, Priority: row.Priority + 1,
		}
		if row.DueAt.After(l.clock.Now()) {
			added[i].At = row.DueAt // a time that has come would wait for River's scheduler
		}
	}
	_, err := l.queue.AddTx(ctx, tx, added...)
	return err
}

// workRow works one row by its own job: the same handler, without order, pace or fairness.
func (l *Lanes) workRow(ctx context.Context, _ int64, args rowArgs) error {
	kind := l.kinds[args.Of]
	if kind == nil {
		return errors.New("unknown kind: " + args.Of)
	}
	lane := Lane{ID: args.Lane, Org: args.Org, Kind: args.Of}
	row := Row{ID: args.ID, Key: args.Key, Priority: args.Priority, DueAt: l.clock.Now(), taken: clock.StartWatch()}
	work, err := kind.Open(ctx, lane)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if work.Read != nil {
		rows := []Row{row}
		if err := work.Read(ctx, rows); err != nil {
			return fmt.Errorf("read: %w", err)
		}
		row = rows[0]
	}
	if work.Begin != nil {
		if err := l.inRowTx(ctx, args.Org, func(tx *postgres.Tx) error { return work.Begin(ctx, tx, []Row{row}) }); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
	}
	result := Result{Row: row}
	if work.Do != nil {
		result = work.Do(ctx, row)
		result.Row = row
	}
	if result.Fault != nil {
		return fmt.Errorf("do: %w", result.Fault)
	}
	batch := &Batch{Lane: lane, Results: []Result{result}}
	if work.Settle != nil {
		if err := l.inRowTx(ctx, args.Org, func(tx *postgres.Tx) error { return work.Settle(ctx, tx, batch) }); err != nil {
			return fmt.Errorf("settle: %w", err)
		}
	}
	return l.rowOutcome(batch)
}

func (l *Lanes) inRowTx(ctx context.Context, org ids.Org, verb func(tx *postgres.Tx) error) error {
	_, err := postgres.InTx(ctx, l.db, org, func(tx *postgres.Tx) (struct{}, error) { return struct{}{}, verb(tx) })
	return err
}

// rowOutcome turns what lanes would do into what a single job can.
func (l *Lanes) rowOutcome(batch *Batch) error {
	retry := batch.Results[0].RetryAt
	if batch.blocked != nil && retry.Before(*batch.blocked) && !retry.IsZero() {
		retry = *batch.blocked
	}
	if retry.IsZero() {
		return nil
	}
	return jobs.Later(max(retry.Sub(l.clock.Now()), time.Millisecond))
}
