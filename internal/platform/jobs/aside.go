package jobs

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// asideAfter is the number of failures of one class after which a job is set aside.
const asideAfter = 3

const (
	classRescued = "rescued"
	classPanic   = "panic"
)

// quarantine sets aside jobs that fail again and again, so that they take no time from others.
type quarantine struct{ logger *slog.Logger }

func (q *quarantine) HandleError(ctx context.Context, job *rivertype.JobRow, err error) *river.ErrorHandlerResult {
	return q.judge(ctx, job, classOf(err.Error()), err.Error())
}

func (q *quarantine) HandlePanic(ctx context.Context, job *rivertype.JobRow, _ any, _ string) *river.ErrorHandlerResult {
	return q.judge(ctx, job, classPanic, classPanic)
}

func (q *quarantine) judge(ctx context.Context, job *rivertype.JobRow, class, reason string) *river.ErrorHandlerResult {
	aside := same(job.Errors, class)+1 >= asideAfter
	q.logger.WarnContext(ctx, "job.failed", "job", job.ID, "kind", job.Kind, "attempt", job.Attempt, "reason", reason, "aside", aside)
	return &river.ErrorHandlerResult{SetCancelled: aside}
}

// classOf returns the text of an error up to its first colon: the kind of failure without details.
func classOf(text string) string {
	class, _, _ := strings.Cut(text, ":")
	return class
}

func isRescue(failure rivertype.AttemptError) bool {
	return strings.HasPrefix(failure.Error, "Stuck job rescued")
}

// same counts the failures of a class.
func same(failures []rivertype.AttemptError, class string) (count int) {
	for _, failure := range failures {
		of := classOf(failure.Error)
		switch {
		case isRescue(failure):
			of = classRescued
		case failure.Trace != "":
			of = classPanic
		}
		if of == class {
			count++
		}
	}
	return count
}

// Aside is a job that was set aside.
type Aside struct {
	ID   int64
	Kind string
	// Args is the JSON of the job's arguments.
	Args     string
	Attempts int
	// Reason is the error of the last attempt.
	Reason string
	// At is when the job was set aside.
	At time.Time
}

const sqlAside = `
SELECT id, kind, args::text AS args, attempt AS attempts, finalized_at AS at,
       coalesce(errors[array_upper(errors, 1)]->>'error', '') AS reason
FROM river.river_job
WHERE state IN ('cancelled', 'discarded')
ORDER BY id
LIMIT @limit`

// Aside lists jobs that were set aside, oldest first.
func (q *Queue) Aside(ctx context.Context, limit int) ([]Aside, error) {
	return postgres.Many[Aside](ctx, q.db.System("jobs set aside"), sqlAside, postgres.Args{"limit": limit})
}

// The errors are deleted, because otherwise the next failure would set the job aside at once; so is the output, which
// says since when the job was snoozed.
const sqlRetry = `
UPDATE river.river_job
SET state = 'available', attempt = 0, errors = NULL, metadata = metadata - 'output', finalized_at = NULL, scheduled_at = @now
WHERE id = @id AND state IN ('cancelled', 'discarded')
RETURNING args::text`

// Retry puts a job that was set aside back in its queue, and returns the JSON of its arguments.
func (q *Queue) Retry(ctx context.Context, id int64, now time.Time) (args string, err error) {
	args, err = postgres.One[string](ctx, q.db.System("retry a job"), sqlRetry, postgres.Args{"id": id, "now": now})
	if errors.Is(err, postgres.ErrNoRow) {
		return "", fault.New(fault.ResourceNotFound, "No job with that id was set aside.")
	}
	return args, err
}

// Standing counts the jobs of a database that wait or were set aside.
type Standing struct {
	// OldestDue is the time at which the oldest waiting job was due; nil when none waits.
	OldestDue *time.Time
	// Aside is the number of jobs that were set aside.
	Aside int64
}

const sqlStanding = `
SELECT (SELECT min(scheduled_at) FROM river.river_job WHERE state = 'available' AND scheduled_at <= @now) AS oldest_due,
       (SELECT count(*) FROM river.river_job WHERE state IN ('cancelled', 'discarded')) AS aside`

// Standing reads the Standing of the database.
func (q *Queue) Standing(ctx context.Context, now time.Time) (Standing, error) {
	return postgres.One[Standing](ctx, q.db.System("standing of the jobs"), sqlStanding, postgres.Args{"now": now})
}

// Busy is the number of jobs that this process works now.
func (r *Runner) Busy() int64 { return r.busy.Load() }

// Rescued is the number of jobs that this process started after their process had died or hung.
func (r *Runner) Rescued() int64 { return r.rescued.Load() }
