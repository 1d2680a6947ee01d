package main

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// rowJob is the job of one row, where a fixture does without lanes: no order, no pace, no
// fairness. It carries what a lane row holds.
type rowJob struct {
	Lane     ids.Any `json:"lane"`
	Org      ids.Org `json:"org"`
	Of       string  `json:"of"`
	ID       ids.Any `json:"id"`
	Key      ids.Any `json:"key"`
	Priority int     `json:"priority"`
}

// Kind names the job.
func (rowJob) Kind() string { return "row" }

const (
	rowQueue = "rows"
	// rowPoll is how often lanes look for jobs, too.
	rowPoll = 50 * time.Millisecond
)

// addJobs adds one job for each row, on the product's own queue.
func (f *fixture) addJobs(ctx context.Context, tx *postgres.Tx, lane ids.Any, rows ...lanes.Row) error {
	added := make([]jobs.Job, len(rows))
	for i, row := range rows {
		added[i] = jobs.Job{
			Args:  rowJob{Lane: lane, Org: tx.Org(), Of: rowQueue, ID: row.ID, Key: row.Key, Priority: row.Priority},
			Queue: rowQueue, Priority: row.Priority + 1,
		}
	}
	_, err := f.queue.AddTx(ctx, tx, added...)
	return err
}

// handleRowJobs has the runner that wakes lanes work the jobs of rows with the same handler.
func (f *fixture) handleRowJobs(set *jobs.Set) {
	set.Queue(rowQueue, f.workers, rowPoll)
	jobs.Handle(set, func(ctx context.Context, _ int64, row rowJob) error {
		if retryAt := f.call(ctx, row.Lane, row.ID); !retryAt.IsZero() {
			return jobs.Later(time.Until(retryAt))
		}
		return nil
	})
}
