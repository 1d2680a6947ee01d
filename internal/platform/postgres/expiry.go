package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// maxAhead is how much further than monotonic time the clock may move between two rounds.
	maxAhead = 48 * time.Hour
	// maxDropped is how many partitions of a table one round drops, oldest first.
	maxDropped = 2
)

// ErrClockAhead means that the clock is further ahead than the time since the last round explains.
var ErrClockAhead = errors.New("the clock is ahead: expiry waits for `parley admin clock confirm`")

// ErrNotDropped means that the clock was right and a partition could not be dropped. The next round tries again.
var ErrNotDropped = errors.New("a partition was not dropped")

// Expiry drops the expired partitions of a database, round by round. A round drops nothing if the clock moved more
// than 48 hours further than the process ran, because dropped history cannot be brought back.
type Expiry struct {
	db     *DB
	tables []Partitioned
	halted atomic.Bool
	// own is the last round of this process that was not halted; nil before.
	own atomic.Pointer[ownRound]
}

type ownRound struct {
	at     time.Time
	uptime time.Duration
}

// NewExpiry returns the expiry of these tables.
func NewExpiry(db *DB, tables []Partitioned) *Expiry { return &Expiry{db: db, tables: tables} }

// Halted tells whether the last round dropped nothing because of its clock.
func (e *Expiry) Halted() bool { return e.halted.Load() }

// Round drops at most two partitions of each table that ended longer than Keep ago, stores its time and
// returns the names. uptime is the monotonic time since the process started: while it runs, but cannot
// reach its database, time passes that no round has stored.
func (e *Expiry) Round(ctx context.Context, now time.Time, uptime time.Duration) ([]string, error) {
	last, err := e.db.LastRound(ctx)
	if err != nil {
		return nil, err
	}
	// Since its own round this process knows how much time has passed; since the round of another it does not.
	passed := time.Duration(0)
	if own := e.own.Load(); own != nil && last != nil && last.Equal(own.at) {
		passed = uptime - own.uptime
	}
	if err := CheckRound(last, now, passed); err != nil {
		e.halted.Store(true)
		return nil, err
	}
	e.halted.Store(false)
	dropped, failed := e.db.dropExpired(ctx, e.tables, now)
	err = e.db.StoreRound(ctx, now)
	if err == nil {
		e.own.Store(&ownRound{at: now, uptime: uptime})
	}
	return dropped, errors.Join(failed, err)
}

// CheckRound returns ErrClockAhead if the clock moved more than 48 hours further than passed since the last round.
// last is nil before the first round.
func CheckRound(last *time.Time, now time.Time, passed time.Duration) error {
	if last == nil || now.Sub(*last)-passed <= maxAhead {
		return nil
	}
	return fmt.Errorf("%w: it shows %s, the last round was at %s", ErrClockAhead, now.Format(time.RFC3339), last.UTC().Format(time.RFC3339))
}

// LastRound returns when expiry last ran, or nil if it never did.
func (db *DB) LastRound(ctx context.Context) (*time.Time, error) {
	at, err := One[time.Time](ctx, db.System("expiry"), `SELECT at FROM expiry_rounds`, nil)
	if errors.Is(err, ErrNoRow) {
		return nil, nil //nolint:nilnil // documented
	}
	return &at, err
}

const sqlStoreRound = `
INSERT INTO expiry_rounds (at)
VALUES (@at)
ON CONFLICT (only_row) DO UPDATE
SET at = excluded.at`

// StoreRound stores when expiry last ran. An operator stores the current time to confirm that the
// clock is right.
func (db *DB) StoreRound(ctx context.Context, at time.Time) error {
	_, err := InSystemTx(ctx, db, "expiry", func(tx *Tx) (struct{}, error) {
		_, err := tx.Exec(ctx, sqlStoreRound, Args{"at": at})
		return struct{}{}, err
	})
	return err
}

// dropExpired drops the oldest partitions that ended longer than Keep ago, and returns their names.
func (db *DB) dropExpired(ctx context.Context, tables []Partitioned, now time.Time) ([]string, error) {
	dropped, failures := []string{}, []error{}
	for _, table := range tables {
		if table.Keep == 0 {
			continue
		}
		ended, err := db.EndedBefore(ctx, []Partitioned{table}, now.Add(-table.Keep))
		if err != nil {
			return dropped, errors.Join(append(failures, err)...)
		}
		for _, start := range ended[:min(len(ended), maxDropped)] {
			if err := db.DropStarted(ctx, []Partitioned{table}, start); err != nil {
				failures = append(failures, errors.Join(ErrNotDropped, err))
				break // PostgreSQL detaches one partition of a table at a time
			}
			dropped = append(dropped, table.name(start))
		}
	}
	return dropped, errors.Join(failures...)
}
