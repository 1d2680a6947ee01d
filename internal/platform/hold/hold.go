// Package hold is the hold of a cell. An operator restores the cell's database from a backup: what the restored
// database has as unsent may have been sent after the time of the backup. So nothing is sent or delivered
// until the operator has decided what becomes of it, and releases the hold.
package hold

import (
	"context"
	"errors"
	"time"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Hold reads and writes the hold of one cell.
type Hold struct {
	db    *postgres.DB
	clock clock.Clock
}

// New makes no request to the database.
func New(db *postgres.DB, now clock.Clock) *Hold { return &Hold{db: db, clock: now} }

// State is a hold that was not released yet.
type State struct {
	// HeldAt divides the messages: those that were accepted before are in doubt, later ones are simply sent.
	HeldAt time.Time
	// HeldBy is the name of the operator who started the process with --hold.
	HeldBy string
}

const why = "the hold of the cell"

const sqlRead = `
SELECT held_at, held_by
FROM holds
WHERE released_at IS NULL`

// Read returns the hold; nil if nothing is held. Nothing is cached: every process sees a hold as soon as it is written.
func (h *Hold) Read(ctx context.Context) (*State, error) {
	state, err := postgres.One[State](ctx, h.db.System(why), sqlRead, nil)
	if errors.Is(err, postgres.ErrNoRow) {
		return nil, nil //nolint:nilnil // documented
	}
	return &state, err
}

const (
	sqlTimeline = `SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)`

	// A hold stays as it is, so that a second process with --hold, or a restart of the first, does not put the messages in
	// doubt that were accepted since. A hold of another timeline came out of the backup: it is renewed, because it may have
	// been released after the time of the backup.
	sqlWrite = `
INSERT INTO holds (held_at, held_by, timeline)
VALUES (@now, @by, @timeline)
ON CONFLICT (only_row) DO UPDATE
SET held_at = EXCLUDED.held_at,
    held_by = EXCLUDED.held_by,
    timeline = EXCLUDED.timeline,
    released_at = NULL,
    released_by = NULL,
    unsent = NULL
WHERE holds.released_at IS NOT NULL
   OR holds.timeline <> EXCLUDED.timeline`
)

// Write holds the cell, and returns its hold. The clock must have been compared with the database's.
func (h *Hold) Write(ctx context.Context, by string) (*State, error) {
	timeline, err := postgres.One[string](ctx, h.db.System(why), sqlTimeline, nil)
	if err != nil && postgres.Undone(err) {
		return nil, err
	}
	if err != nil {
		timeline = "" // a service without PostgreSQL's own log
	}
	_, err = postgres.InSystemTx(ctx, h.db, why, func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(ctx, sqlWrite, postgres.Args{"now": h.clock.Now(), "by": by, "timeline": timeline})
	})
	if err != nil {
		return nil, err
	}
	return h.Read(ctx)
}

// retryAfter is the Retry-After of a refusal. An operator needs minutes or hours to release a hold.
const retryAfter = time.Minute

// Refuse returns an error while the cell is held, for requests that call the provider.
func (h *Hold) Refuse(ctx context.Context) error {
	state, err := h.Read(ctx)
	if err != nil || state == nil {
		return err
	}
	refusal := fault.New(fault.ServiceUnavailable,
		"The service was restored from a backup and is on hold: it does not call the messaging network until an operator releases it. "+
			"Retry after the time given in Retry-After.")
	refusal.RetryAfter = retryAfter
	return refusal
}

// Unsent is what becomes of the messages that were unsent when the hold was written.
type Unsent string

const (
	// Wait never sends them again: callbacks prove those that were sent, and the others fail.
	Wait Unsent = "wait"
	// Fail fails them at once. A later callback supersedes the failure.
	Fail Unsent = "fail"
	// Send sends those without an attempt under way. The messages that were sent after the time of the backup are
	// doubled by it.
	Send Unsent = "send"
)

const sqlRelease = `
UPDATE holds
SET released_at = @now,
    released_by = @by,
    unsent = @unsent
WHERE released_at IS NULL
  AND held_at = @held_at`

// errRenewed means that the hold that was decided about is not the one that is in force.
var errRenewed = errors.New("the hold was renewed or released meanwhile: run this again")

// Release lifts a hold. The caller has decided about the messages that were unsent before it.
func (h *Hold) Release(ctx context.Context, held *State, by string, unsent Unsent) error {
	lifted, err := postgres.InSystemTx(ctx, h.db, why, func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(ctx, sqlRelease, postgres.Args{"now": h.clock.Now(), "by": by, "unsent": unsent, "held_at": held.HeldAt})
	})
	if err == nil && lifted == 0 {
		err = errRenewed
	}
	return err
}

// Alone runs the decision about unsent messages and the release, for one operator at a time.
func (h *Hold) Alone(ctx context.Context, work func(context.Context) error) error {
	err := h.db.Alone(ctx, "release the hold", work)
	if errors.Is(err, postgres.ErrBusy) {
		return errors.New("another `parley admin hold release` is under way: wait for its end")
	}
	return err
}
