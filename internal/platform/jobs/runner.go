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
)

const (
	jobTimeout = 20 * time.Second
	// rescueAfter is when a job whose process died is given to another. It must be longer
	// than any job may run.
	rescueAfter  = 45 * time.Second
	softStop     = 15 * time.Second
	keepFinished = 2 * time.Minute
	// keepAside is how long a job that was set aside waits for an operator.
	keepAside = 30 * 24 * time.Hour
)

// Work does a job; an error has it tried again later.
type Work[A Args] func(ctx context.Context, id int64, args A) error

// Set is which jobs a process knows how to do, and on which queues.
type Set struct {
	workers *river.Workers
	queues  map[string]river.QueueConfig
}

// NewSet starts with the queue for everything that is in no hurry.
func NewSet() *Set {
	s := &Set{workers: river.NewWorkers(), queues: map[string]river.QueueConfig{}}
	s.Queue(Maintenance, 8, time.Second)
	return s
}

// Queue has up to workers jobs of a queue done at once. Other processes announce new
// jobs; every poll the queue is looked at without being told.
func (s *Set) Queue(name string, workers int, poll time.Duration) {
	s.queues[name] = river.QueueConfig{MaxWorkers: workers, FetchCooldown: min(fetchEvery, poll), FetchPollInterval: poll}
}

// Handle registers how a kind of job is done.
func Handle[A Args](s *Set, work Work[A]) {
	river.AddWorker(s.workers, &worker[A]{work: work})
}

type worker[A Args] struct {
	river.WorkerDefaults[A]

	work Work[A]
}

func (w *worker[A]) Work(ctx context.Context, job *river.Job[A]) error {
	return w.work(ctx, job.ID, job.Args)
}

// Later is returned by work that should be tried again after a while without counting as failed.
func Later(after time.Duration) error { return river.JobSnooze(after) }

// Runner works the jobs of one database.
type Runner struct {
	connect func() (client, error)
	db      *postgres.DB
	logger  *slog.Logger
	busy    atomic.Int64
	// rescued counts jobs begun again after their process died.
	rescued atomic.Int64
}

// NewRunner is built last, when everything is registered. The pool is its own: River's
// leader election must not queue behind requests.
func NewRunner(db *postgres.DB, now clock.Clock, logger *slog.Logger, set *Set) (*Runner, error) {
	r := &Runner{db: db, logger: logger}
	config := &river.Config{
		Schema: schema, Logger: quiet(logger), Queues: set.queues, Workers: set.workers, Test: moved(now),
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
	r.connect = func() (client, error) { return river.NewClient(riverpgxv5.New(db.Pool()), config) }
	_, err := r.connect()
	return r, err
}

// assert refuses settings under which a crash would cost an hour or a finished job a day.
func assert(config *river.Config) error {
	effective := config.WithDefaults()
	var wrong []error
	check := func(holds bool, setting string) {
		if !holds {
			wrong = append(wrong, fmt.Errorf("river: %s is not what the design rests on", setting))
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

// watch counts, and sets aside a job that its processes keep dying of.
func (r *Runner) watch(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
	r.busy.Add(1)
	defer r.busy.Add(-1)
	if len(job.Errors) > 0 && isRescue(job.Errors[len(job.Errors)-1]) {
		r.rescued.Add(1)
	}
	if same(job.Errors, classRescued) >= asideAfter {
		return river.JobCancel(errors.New("set aside: the process died or hung each time it was tried"))
	}
	return work(ctx)
}

// retries waits 5 s, 20 s, 45 s and so on.
type retries struct{ now clock.Clock }

func (r retries) NextRetry(job *rivertype.JobRow) time.Time {
	failures := len(job.Errors) + 1
	return r.now.Now().Add(time.Duration(failures*failures) * 5 * time.Second)
}
