package postgres

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/parley-chat/parley/internal/fault"
)

// ErrNoRow means that the one row asked for is not there.
var ErrNoRow = errors.New("no such row")

// The SQLSTATE values that the product decides on.
const (
	deadlockDetected     = "40P01"
	serializationFailure = "40001"
	uniqueViolation      = "23505"
	foreignKeyViolation  = "23503"
	readOnlyTransaction  = "25006"
	idleInTransaction    = "25P03"
	lockNotAvailable     = "55P03"
	queryCanceled        = "57014"
	adminShutdown        = "57P01"
	crashShutdown        = "57P02"
	cannotConnectNow     = "57P03"
	diskFull             = "53100"
	outOfMemory          = "53200"
	tooManyConnections   = "53300"
)

func state(err error) string {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pgErr.Code
	}
	return ""
}

// Violates tells whether err is a broken unique key, primary key or foreign key of that name.
func Violates(err error, constraint string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.ConstraintName == constraint && (pgErr.Code == uniqueViolation || pgErr.Code == foreignKeyViolation)
}

const (
	undefinedTable = "42P01"
	// notOpenHere is our own: the organization is frozen, or lives elsewhere.
	notOpenHere = "PF001"
)

var (
	// ErrNotOpenHere means that the organization is frozen, or lives elsewhere.
	ErrNotOpenHere = errors.New("the organization is not open here")
	// ErrAgain means that what a transaction rests on changed under it: InTx runs it again.
	ErrAgain = errors.New("something changed under the transaction")
	// ErrUnanswered means that a commit was sent and its answer never came.
	ErrUnanswered = errors.New("the commit was not answered")
)

// Undone tells that a transaction surely did nothing, for want of a database that answers.
func Undone(err error) bool {
	return fault.Of(err) == fault.ServiceUnavailable && !errors.Is(err, ErrUnanswered) && !errors.Is(err, ErrNotOpenHere)
}

// Unmigrated tells whether err comes from a database without the schema.
func Unmigrated(err error) bool { return state(err) == undefinedTable }

// Repeatable errors rolled back the whole transaction for reasons outside of it, before
// its commit.
func Repeatable(err error) bool {
	if errors.Is(err, ErrAgain) {
		return true
	}
	switch state(err) {
	case deadlockDetected, serializationFailure, readOnlyTransaction:
		return true
	}
	return false
}

// classify turns what only the server's condition explains into an answer that asks the
// caller to come back, and leaves everything else as it is.
func (db *DB) classify(err error) error {
	if err == nil {
		return nil
	}
	if fault.Of(err) != "" {
		return err
	}
	if errors.Is(err, ErrAgain) {
		return fault.Unavailable(time.Second, err)
	}
	switch state(err) {
	case notOpenHere:
		return fault.Moving(ErrNotOpenHere)
	case readOnlyTransaction:
		db.evictDemoted()
		return fault.Unavailable(time.Second, err)
	case adminShutdown, crashShutdown, cannotConnectNow, tooManyConnections, diskFull, outOfMemory, lockNotAvailable, queryCanceled,
		deadlockDetected, serializationFailure, idleInTransaction:
		return fault.Unavailable(time.Second, err)
	case "":
		if lostConnection(err) {
			return fault.Unavailable(time.Second, err)
		}
	}
	return err
}

// evictDemoted replaces every connection, at most once a second: a primary that was
// demoted stays connected for ever and refuses every write.
func (db *DB) evictDemoted() {
	now := time.Now().Unix() //nolint:forbidigo // this process alone
	if last := db.evicted.Load(); now > last && db.evicted.CompareAndSwap(last, now) {
		db.pool.Reset()
	}
}

func lostConnection(err error) bool {
	var connect *pgconn.ConnectError
	var network interface{ Timeout() bool }
	return errors.As(err, &connect) || errors.As(err, &network) || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.DeadlineExceeded)
}
