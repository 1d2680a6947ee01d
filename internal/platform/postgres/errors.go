package postgres

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/parley-chat/parley/internal/fault"
)

// ErrNoRow means that a statement that must return one row returned none.
var ErrNoRow = errors.New("no such row")

// The SQLSTATE values that the code distinguishes.
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
	invalidCatalogName   = "3D000"
	invalidPassword      = "28P01"
	invalidAuthorization = "28000"
)

func state(err error) string {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pgErr.Code
	}
	return ""
}

// Violates reports whether err is a violation of the unique, primary or foreign key of that name.
func Violates(err error, constraint string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.ConstraintName == constraint && (pgErr.Code == uniqueViolation || pgErr.Code == foreignKeyViolation)
}

const (
	undefinedTable = "42P01"
	// notOpenHere is raised by our functions: the organization is frozen, or not in this database.
	notOpenHere = "PF001"
)

var (
	// ErrNotOpenHere means that the organization is frozen, or not in this database.
	ErrNotOpenHere = errors.New("the organization is not open here")
	// ErrAgain means that rows which the transaction had read were changed by another one. InTx
	// runs the transaction again.
	ErrAgain = errors.New("something changed under the transaction")
	// ErrUnanswered means that a commit was sent and never answered: its outcome is unknown.
	ErrUnanswered = errors.New("the commit was not answered")
)

// Undone reports whether a transaction was surely not committed, for a reason that may pass: no
// connection, shutdown, a lock timeout, a deadlock, a full disk. A single statement outside of a Tx
// may have been committed all the same if the connection broke.
func Undone(err error) bool {
	return fault.Of(err) == fault.ServiceUnavailable && !errors.Is(err, ErrUnanswered) && !errors.Is(err, ErrNotOpenHere)
}

// Unmigrated reports whether err comes from a database without our tables.
func Unmigrated(err error) bool { return state(err) == undefinedTable }

// Absent returns the name of the database that its server does not have, or "" if err says something else.
func Absent(err error) string {
	connect, ok := errors.AsType[*pgconn.ConnectError](err)
	if !ok || state(err) != invalidCatalogName {
		return ""
	}
	return connect.Config.Database
}

// Denied reports whether the server refused the user or the password.
func Denied(err error) bool {
	return state(err) == invalidPassword || state(err) == invalidAuthorization
}

// Repeatable reports whether err rolled back the whole transaction before its commit, for a
// reason outside of it, so that it can run again.
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

// classify turns errors that come from the state of the server (shutdown, overload, lost
// connection, locks) into faults that ask the caller to retry. It leaves other errors as they are.
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

// evictDemoted replaces every connection, at most once a second. Connections to a primary that
// was demoted would otherwise stay open and refuse every write.
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
