package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/parley-chat/parley/internal/platform/ids"
)

// Pooler is what stands between this process and the server.
type Pooler struct {
	// Between tells that a pooler does: the id that a connection was given is not that of the server's process.
	Between bool
	// Drops tells that the settings of our sessions are not in force, such as lock_timeout. Poolers in transaction mode
	// drop them, because a session has no server process of its own.
	Drops bool
}

// Pooler looks for a pooler between this process and the server.
func (db *DB) Pooler(ctx context.Context) (found Pooler, err error) {
	conn, release, err := db.acquire(ctx, ids.Org{})
	if err != nil {
		return found, err
	}
	defer release()
	var pid uint32
	var kept bool
	err = conn.QueryRow(ctx, `
SELECT pg_backend_pid(), source IN ('client', 'session')
FROM pg_settings
WHERE name = 'lock_timeout'`).Scan(&pid, &kept)
	found.Between = pid != conn.Conn().PgConn().PID()
	found.Drops = !kept
	return found, db.classify(err)
}

// protocolViolation is the answer of PgBouncer to settings that it does not know.
const protocolViolation = "08P01"

// RefusedByPooler reports whether a pooler refused the settings of our sessions.
func RefusedByPooler(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == protocolViolation && strings.Contains(pgErr.Message, "startup parameter")
}
