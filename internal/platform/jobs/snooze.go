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
	// mostSnoozes is how many such errors in a row do not count as failures: half an hour of them.
	mostSnoozes = 360
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
	// InARow is the number of snoozes since the work of the job last got on.
	InARow int `json:"snoozed_in_a_row"`
}

// snooze puts a job back that met an error which passes by itself. River counts no attempt and stores no error then: a
// job that works for hours would otherwise be set aside at the third such error of its life.
func (r *Runner) snooze(ctx context.Context, job *rivertype.JobRow, err error) error {
	var before snoozed
	_ = json.Unmarshal(job.Output(), &before) // without output there was no snooze
	_, passes := errors.AsType[*passingError](err)
	switch {
	case passes && before.InARow < mostSnoozes:
		r.logger.WarnContext(ctx, "job.snoozed", "job", job.ID, "kind", job.Kind, "in_a_row", before.InARow+1, "reason", err)
		return errors.Join(river.JobSnooze(snoozeFor), river.RecordOutput(ctx, snoozed{before.InARow + 1}))
	case err != nil && !passes && before.InARow > 0:
		return errors.Join(err, river.RecordOutput(ctx, snoozed{}))
	default:
		return err
	}
}
