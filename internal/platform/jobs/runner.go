package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/telemetry"
)

const (
	// jobTimeout bounds one attempt of a job.
	jobTimeout = 20 * time.Second
	// rescueAfter is the age at which a running job is taken for dead and may be started by
	// another process. It must be longer than any job may run.
	rescueAfter = 45 * time.Second
	// softStop is the time that running jobs have to finish when the process stops.
	softStop = 15 * time.Second
	// keepFinished is how long finished jobs stay in the table.
	keepFinished = 2 * time.Minute
	// keepAside is how long jobs that were set aside stay in the table.
	keepAside = 30 * 24 * time.Hour
)

// Work works a job. After an error the job is retried later. An error of the database that passes by itself does not count
// as a failure, see snooze.
type Work[A Args] func(ctx context.Context, id int64, args A) error

// Set holds the kinds of job that a process works, and the queues that it reads.
type Set struct {
	workers *river.Workers
	queues  map[string]river.QueueConfig
}

// NewSet returns a set with the queue Maintenance and no kinds.
func NewSet() *Set {
	s := &Set{workers: river.NewWorkers(), queues: map[string]river.QueueConfig{}}
	s.Queue(Maintenance, 8, time.Second)
	return s
}

// Queue adds a queue of which up to workers jobs run at once. The process fetches jobs when it is
// notified of new ones, and otherwise once per poll.
func (s *Set) Queue(name string, workers int, poll time.Duration) {
	s.queues[name] = river.QueueConfig{MaxWorkers: workers, FetchCooldown: min(fetchEvery, poll), FetchPollInterval: poll}
}

// Leave takes a queue out of the set: its jobs wait. Their kinds stay registered, because River gives up a job
// that hangs if its kind is unknown.
func (s *Set) Leave(name string) { delete(s.queues, name) }

// Handle registers the work of a kind of job.
func Handle[A Args](s *Set, work Work[A]) {
	river.AddWorker(s.workers, &worker[A]{work: work})
}

type worker[A Args] struct {
	river.WorkerDefaults[A]

	work Work[A]
}

func (w *worker[A]) Work(ctx context.Context, job *river.Job[A]) error {
	return passing(ctx, w.work(ctx, job.ID, job.Args))
}

// Later is the error of work that must be retried after a while. It does not count as a failure.
func Later(after time.Duration) error { return river.JobSnooze(after) }

// Runner works the jobs of one database.
type Runner struct {
	connect func() (client, error)
	db      *postgres.DB
	clock   clock.Clock
	logger  *slog.Logger
	// busy is the number of jobs that run now.
	busy atomic.Int64
	// rescued is the number of jobs that were started again after their process died.
	rescued atomic.Int64
}

// NewRunner returns a runner of the kinds in set, which must be complete. Its pool must not serve
// requests, because River's leader election must not wait behind them.
func NewRunner(db *postgres.DB, now clock.Clock, logger *slog.Logger, set *Set) (*Runner, error) {
	r := &Runner{db: db, clock: now, logger: logger}
	config := &river.Config{
		Schema: schema, Logger: quiet(telemetry.Repeating(logger)), Queues: set.queues, Workers: set.workers, Test: moved(now),
		JobTimeout: jobTimeout, RescueStuckJobsAfter: rescueAfter, SoftStopTimeout: softStop, MaxAttempts: maxAttempts,
		FetchCooldown: notifyEvery, FetchPollInterval: time.Second, FetchOnlyKnownKinds: true,
		CompletedJobRetentionPeriod: keepFinished, CancelledJobRetentionPeriod: keepAside, DiscardedJobRetentionPeriod: keepAside,
		ReindexerIndexNames: indexes(), RetryPolicy: retries{now},
		ErrorHandler: &quarantine{logger: logger},
		Middleware:   []rivertype.Middleware{river.WorkerMiddlewareFunc(r.watch)},
	}
	if err := assert(config); err != nil {
		return nil, err
	}
	if config.Test.Time != nil {
		// River compares the start of a job with the machine's clock, also here: every job that runs
		// would be taken for dead.
		config.RescueStuckJobsAfter = 100 * 365 * 24 * time.Hour
	}
	r.connect = func() (client, error) { return river.NewClient(riverpgxv5.New(db.Pool()), config) }
	_, err := r.connect()
	return r, err
}

// assert checks that River uses our settings. With its defaults a crashed job would wait an hour,
// and a finished job would stay for a day.
func assert(config *river.Config) error {
	effective := config.WithDefaults()
	var wrong []error
	check := func(holds bool, setting string) {
		if !holds {
			wrong = append(wrong, fmt.Errorf("river: %s differs from the setting of this program", setting))
		}
	}
	check(effective.RescueStuckJobsAfter == rescueAfter && rescueAfter > jobTimeout+softStop, "RescueStuckJobsAfter")
	check(effective.JobTimeout == jobTimeout, "JobTimeout")
	check(effective.CompletedJobRetentionPeriod == keepFinished, "CompletedJobRetentionPeriod")
	check(effective.DiscardedJobRetentionPeriod == keepAside, "DiscardedJobRetentionPeriod")
	check(effective.CancelledJobRetentionPeriod == keepAside, "CancelledJobRetentionPeriod")
	check(len(effective.ReindexerIndexNames) == len(indexes()), "ReindexerIndexNames")
	check(effective.Schema == schema, "Schema")
	return errors.Join(wrong...)
}

// watch counts running and rescued jobs, sets aside a job whose processes died three times, and snoozes one that met an
// error of the database that passes by itself.
func (r *Runner) watch(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
	r.busy.Add(1)
	defer r.busy.Add(-1)
	if len(job.Errors) > 0 && isRescue(job.Errors[len(job.Errors)-1]) {
		r.rescued.Add(1)
	}
	if same(job.Errors, classRescued) >= asideAfter {
		return river.JobCancel(errors.New("set aside: the process died or hung each time it was tried"))
	}
	return r.snooze(ctx, job, work(ctx))
}

// retries is the retry policy: 5 s, 20 s, 45 s, and so on (5 s times the square of the failures).
type retries struct{ now clock.Clock }

func (r retries) NextRetry(job *rivertype.JobRow) time.Time {
	failures := len(job.Errors) + 1
	return r.now.Now().Add(time.Duration(failures*failures) * 5 * time.Second)
}
