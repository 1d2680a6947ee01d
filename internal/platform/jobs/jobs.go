// Package jobs is the one place that knows River, the queue behind all background work:
// a Queue adds jobs in the transactions of others, a Runner works them.
package jobs

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// schema holds River's tables, apart from ours.
const schema = "river"

// Table is where the jobs stand, for statements that claim one together with what it is for.
const Table = schema + ".river_job"

// Maintenance is the queue for everything that is in no hurry.
const Maintenance = "maintenance"

const (
	// maxAttempts ends the retries of a job that fails in ever new ways.
	maxAttempts = 12
	// notifyEvery is how often one process tells the others at most that a queue has a new job.
	notifyEvery = 5 * time.Millisecond
	// fetchEvery is how often a process asks for jobs at most.
	fetchEvery = 10 * time.Millisecond
)

// Args are what a job carries: ids, never secrets or content.
type Args = river.JobArgs

// Job is a job to be added.
type Job struct {
	Args  Args
	Queue string
	// At is the earliest time to run it; zero is now.
	At time.Time
	// Priority is 1 (first) to 4; zero is 1.
	Priority int
}

// Queue adds jobs. It works none.
type Queue struct {
	client *river.Client[pgx.Tx]
	db     *postgres.DB
}

// NewQueue needs no answer of the database.
func NewQueue(db *postgres.DB, now clock.Clock, logger *slog.Logger) (*Queue, error) {
	client, err := river.NewClient(riverpgxv5.New(db.Pool()), &river.Config{
		Schema: schema, Logger: quiet(logger), MaxAttempts: maxAttempts,
		FetchCooldown: notifyEvery, FetchPollInterval: time.Second, Test: moved(now),
	})
	return &Queue{client: client, db: db}, err
}

// AddTx adds jobs that exist once tx is committed, and returns their ids, which only grow.
func (q *Queue) AddTx(ctx context.Context, tx *postgres.Tx, jobs ...Job) ([]int64, error) {
	many := make([]river.InsertManyParams, len(jobs))
	for i, job := range jobs {
		many[i] = river.InsertManyParams{Args: job.Args, InsertOpts: &river.InsertOpts{
			Queue: job.Queue, ScheduledAt: job.At, Priority: job.Priority,
		}}
	}
	inserted, err := q.client.InsertManyTx(ctx, tx.Raw(), many)
	if err != nil {
		return nil, err
	}
	added := make([]int64, len(inserted))
	for i, result := range inserted {
		added[i] = result.Job.ID
	}
	return added, nil
}

// moved hands a clock that a test moves to River too. River otherwise goes by the
// database's time, as our own clock does.
func moved(now clock.Clock) river.TestConfig {
	if manual, is := now.(*clock.Manual); is {
		return river.TestConfig{Time: stubbed{manual}}
	}
	return river.TestConfig{}
}

type stubbed struct{ *clock.Manual }

var _ rivertype.TimeGenerator = stubbed{}

func (s stubbed) NowOrNil() *time.Time {
	now := s.Now()
	return &now
}

// quiet lets River's warnings through and none of its chatter.
func quiet(logger *slog.Logger) *slog.Logger {
	return slog.New(warnings{logger.Handler()})
}

type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}

func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }
