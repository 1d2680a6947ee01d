// Package jobs is the only package that uses River, the job queue of all background work.
// A Queue adds jobs in the caller's transaction; a Runner works them.
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

// schema is the schema of River's tables.
const schema = "river"

// Table is River's table of jobs, for statements that read or lock a job together with rows of
// their own.
const Table = schema + ".river_job"

// Turn is how long a job works on something large before it makes room for other jobs. It is well below the time
// after which a job is cancelled.
const Turn = 8 * time.Second

// Maintenance is the queue of all jobs that are not urgent.
const Maintenance = "maintenance"

const (
	// maxAttempts is the number of attempts of a job that fails in a different way each time.
	maxAttempts = 12
	// notifyEvery is the shortest time between two notifications of one process that a queue has
	// new jobs.
	notifyEvery = 5 * time.Millisecond
	// fetchEvery is the shortest time between two fetches of jobs by one process.
	fetchEvery = 10 * time.Millisecond
)

// Args are the arguments of a job: ids, never secrets or content.
type Args = river.JobArgs

// Job is a job to be added.
type Job struct {
	Args Args
	// Queue is the name of the queue, for example Maintenance.
	Queue string
	// At is the earliest time to run the job. Zero means now.
	At time.Time
	// Priority is 1 (first) to 4 (last). Zero means 1.
	Priority int
}

// Queue adds jobs. A Runner works them.
type Queue struct {
	client *river.Client[pgx.Tx]
	db     *postgres.DB
}

// NewQueue returns a queue without connecting to the database.
func NewQueue(db *postgres.DB, now clock.Clock, logger *slog.Logger) (*Queue, error) {
	client, err := river.NewClient(riverpgxv5.New(db.Pool()), &river.Config{
		Schema: schema, Logger: quiet(logger), MaxAttempts: maxAttempts,
		FetchCooldown: notifyEvery, FetchPollInterval: time.Second, Test: moved(now),
	})
	return &Queue{client: client, db: db}, err
}

// AddTx adds jobs that exist once tx is committed, and returns their ids, in ascending order.
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

// moved gives River the clock of a test. Otherwise River uses the time of the database, as our
// own clock does.
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

// quiet returns a logger that drops River's messages below warn.
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
