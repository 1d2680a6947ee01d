package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	// snoozeFor is how long a job waits after an error of the database that passes by itself.
	snoozeFor = 5 * time.Second
	// mostSnoozed is for how long such errors in a row do not count as failures.
	mostSnoozed = 30 * time.Minute
)

// passingError is an error of the database that passes by itself, such as a lock timeout or a lost connection.
type passingError struct{ error }

func (e *passingError) Unwrap() error { return e.error }

// passing marks errors of the database that pass by themselves. After the end of ctx no error is marked, because a job that
// needed more than its time would need it again.
func passing(ctx context.Context, err error) error {
	if ctx.Err() == nil && (postgres.Undone(err) || errors.Is(err, postgres.ErrUnanswered)) {
		return &passingError{err}
	}
	return err
}

// snoozed is stored as the output of a job.
type snoozed struct {
	// Since is when the first of the snoozes in a row began. Any other result of the job clears it.
	Since time.Time `json:"snoozed_since,omitzero"`
}

// snooze puts a job back that met an error which passes by itself. River counts no attempt and stores no error then: a
// job that works for hours would otherwise be set aside at the third such error of its life.
func (r *Runner) snooze(ctx context.Context, job *rivertype.JobRow, err error) error {
	var before snoozed
	_ = json.Unmarshal(job.Output(), &before) // without output there was no snooze
	_, passes := errors.AsType[*passingError](err)
	now, already := r.clock.Now(), !before.Since.IsZero()
	switch {
	case passes && (!already || now.Sub(before.Since) < mostSnoozed):
		if !already {
			before.Since = now
		}
		r.logger.WarnContext(ctx, "job.snoozed", "job", job.ID, "kind", job.Kind, "since", before.Since, "reason", err)
		return errors.Join(river.JobSnooze(snoozeFor), river.RecordOutput(ctx, before))
	case err != nil && !passes && already:
		return errors.Join(err, river.RecordOutput(ctx, snoozed{}))
	default:
		return err
	}
}
