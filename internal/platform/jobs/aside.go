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

// asideAfter is how often a job may fail in one and the same way before it is set aside.
const asideAfter = 3

const (
	classRescued = "rescued"
	classPanic   = "panic"
)

// quarantine sets aside what keeps failing, so that it stops costing others.
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

// classOf is what an error says before its first colon: what went wrong, without the particulars.
func classOf(text string) string {
	class, _, _ := strings.Cut(text, ":")
	return class
}

func isRescue(failure rivertype.AttemptError) bool {
	return strings.HasPrefix(failure.Error, "Stuck job rescued")
}

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
	ID       int64
	Kind     string
	Args     string
	Attempts int
	Reason   string
	At       time.Time
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

// Its failures are forgotten, or the next one would set it aside at once.
const sqlRetry = `
UPDATE river.river_job
SET state = 'available', attempt = 0, errors = NULL, finalized_at = NULL, scheduled_at = @now
WHERE id = @id AND state IN ('cancelled', 'discarded')
RETURNING id`

// Retry puts a job that was set aside back in its queue.
func (q *Queue) Retry(ctx context.Context, id int64, now time.Time) error {
	_, err := postgres.One[int64](ctx, q.db.System("retry a job"), sqlRetry, postgres.Args{"id": id, "now": now})
	if errors.Is(err, postgres.ErrNoRow) {
		return fault.New(fault.ResourceNotFound, "No job with that id was set aside.")
	}
	return err
}

// Standing is how the jobs of a database are doing.
type Standing struct {
	// OldestDue is when the job that waits longest should have begun; nil if none waits.
	OldestDue *time.Time
	Aside     int64
}

const sqlStanding = `
SELECT (SELECT min(scheduled_at) FROM river.river_job WHERE state = 'available' AND scheduled_at <= @now) AS oldest_due,
       (SELECT count(*) FROM river.river_job WHERE state IN ('cancelled', 'discarded')) AS aside`

// Standing counts what waits and what was set aside.
func (q *Queue) Standing(ctx context.Context, now time.Time) (Standing, error) {
	return postgres.One[Standing](ctx, q.db.System("standing of the jobs"), sqlStanding, postgres.Args{"now": now})
}

// Busy is how many jobs are being worked here now.
func (r *Runner) Busy() int64 { return r.busy.Load() }

// Rescued is how many jobs were begun here after another process died of them.
func (r *Runner) Rescued() int64 { return r.rescued.Load() }
