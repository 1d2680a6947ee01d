// Package postgres is the only way to the database. A statement runs either in the
// scope of one organization, whose id the package itself binds as @org_id, or under the
// named system accessor; there is no third way, and writes exist only inside a Tx.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
)

// Config says how to reach one database. Zero durations and counts take the defaults.
type Config struct {
	// URL may name several hosts; the one that accepts writes is used.
	URL      string
	Name     string
	MaxConns int32
	// AcquireWait bounds the wait for a free connection; a longer wait is answered 503.
	AcquireWait time.Duration
	// StatementTimeout is the server's own limit, behind the deadline of each request.
	StatementTimeout time.Duration
	// Steady plans each statement once, whatever it is asked for: for work that asks for rows
	// by their keys, a few at a time, and would spend more time on plans than on rows.
	Steady bool
	// Enter is the first statement of each transaction of an organization, EnterAll that of
	// each that crosses organizations; they refuse or wait while an organization moves.
	Enter    func(org ids.Org) string
	EnterAll string
	Tracers  []pgx.QueryTracer
}

// DB is one cell's database.
type DB struct {
	pool    *pgxpool.Pool
	wait    time.Duration
	traced  bool
	evicted atomic.Int64

	enter    func(org ids.Org) string
	enterAll string
}

// Open builds the pool without connecting, so that a process starts while its database is away.
func Open(ctx context.Context, config Config) (*DB, error) {
	settings, err := poolConfig(config)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, err
	}
	return &DB{
		pool: pool, wait: orElse(config.AcquireWait, time.Second), traced: len(config.Tracers) > 0,
		enter: config.Enter, enterAll: config.EnterAll,
	}, nil
}

// lockTimeout is how long a statement waits for another transaction before the caller is
// asked to come back.
const lockTimeout = 1500 * time.Millisecond

func poolConfig(config Config) (*pgxpool.Config, error) {
	settings, err := pgxpool.ParseConfig(config.URL)
	if err != nil {
		return nil, err
	}
	connection := settings.ConnConfig
	// A standby behind the primary's address must not be taken for it.
	if connection.ValidateConnect == nil {
		connection.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if connection.ConnectTimeout == 0 {
		connection.ConnectTimeout = 2 * time.Second
	}
	timeout := orElse(config.StatementTimeout, 10*time.Second)
	setDefault(connection.RuntimeParams, "application_name", config.Name)
	setDefault(connection.RuntimeParams, "statement_timeout", fmt.Sprint(timeout.Milliseconds()))
	setDefault(connection.RuntimeParams, "lock_timeout", fmt.Sprint(lockTimeout.Milliseconds()))
	setDefault(connection.RuntimeParams, "idle_in_transaction_session_timeout", fmt.Sprint(2*timeout.Milliseconds()))
	setDefault(connection.RuntimeParams, "timezone", "UTC")
	// Statements here touch few rows; compiling one takes seconds where running it takes none.
	setDefault(connection.RuntimeParams, "jit", "off")
	if config.Steady {
		setDefault(connection.RuntimeParams, "plan_cache_mode", "force_generic_plan")
		// What is worked on was written a moment ago and is in memory. A table that was empty when
		// its plan was made must not be read whole when it has grown.
		setDefault(connection.RuntimeParams, "random_page_cost", "1.1")
		setDefault(connection.RuntimeParams, "enable_seqscan", "off")
	}
	// A request that gives up cancels its statement instead of losing the connection.
	connection.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: time.Second}
	}
	if len(config.Tracers) > 0 {
		connection.Tracer = multitracer.New(config.Tracers...)
	}
	settings.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		conn.TypeMap().RegisterType(&pgtype.Type{
			Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
		})
		return nil
	}
	if config.MaxConns > 0 {
		settings.MaxConns = config.MaxConns
	}
	settings.MaxConnLifetime = 10 * time.Minute
	settings.MaxConnLifetimeJitter = time.Minute
	settings.MaxConnIdleTime = 5 * time.Minute
	return settings, nil
}

func orElse[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

func setDefault(params map[string]string, name, value string) {
	if _, set := params[name]; !set && value != "" {
		params[name] = value
	}
}

// Close waits for connections in use and closes all of them.
func (db *DB) Close() { db.pool.Close() }

// Pool is the pool itself, for engines that bring their own statements. Domain and edge
// may not touch it: a test refuses.
func (db *DB) Pool() *pgxpool.Pool { return db.pool }

// Stat tells how the pool is used, for metrics.
func (db *DB) Stat() *pgxpool.Stat { return db.pool.Stat() }

// Ping asks the database for an answer.
func (db *DB) Ping(ctx context.Context) error {
	_, err := One[int](ctx, db.System("ping"), `SELECT 1 AS one`, nil)
	return err
}

// Scope is where a read may look: one organization, a transaction, or the whole database
// under a reason.
type Scope interface {
	rows(ctx context.Context, sql string, args Args, collect func(pgx.Rows) error) error
}

// Of is the scope of one organization.
func (db *DB) Of(org ids.Org) Scope { return scope{db: db, mark: mark{org: org}} }

// System is the accessor for work that crosses organizations: sweeps, retention,
// ingress, administration, and the look-up that finds out whose request it is. The reason
// is for the reader.
func (db *DB) System(reason string) Scope { return scope{db: db, mark: mark{system: reason}} }

type scope struct {
	db   *DB
	mark mark
}

func (s scope) rows(ctx context.Context, sql string, args Args, collect func(pgx.Rows) error) error {
	conn, err := s.db.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	rows, err := conn.Query(s.db.marked(ctx, s.mark), sql, s.mark.bind(args))
	if err != nil {
		return s.db.classify(err)
	}
	return s.db.classify(collect(rows))
}

// ErrBusy means that another process holds the lock of Alone.
var ErrBusy = errors.New("another process holds the lock")

// Alone runs work while no other process runs work under the same name. The lock belongs
// to a connection: it ends with the process, and a few seconds after that was stopped.
func (db *DB) Alone(ctx context.Context, name string, work func(context.Context) error) error {
	conn, err := db.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	var locked bool
	if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(hashtextextended($1, 0))`, name).Scan(&locked); err != nil {
		return db.classify(err)
	}
	if !locked {
		return ErrBusy
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackWait)
		defer cancel()
		if _, err := conn.Exec(ctx, `SELECT pg_advisory_unlock(hashtextextended($1, 0))`, name); err != nil {
			_ = conn.Conn().Close(ctx) // the lock goes with the connection
		}
		if _, err := conn.Exec(ctx, `RESET idle_session_timeout`); err != nil {
			_ = conn.Conn().Close(ctx)
		}
	}()
	if _, err := conn.Exec(ctx, `SET idle_session_timeout = '12s'`); err != nil {
		return db.classify(err)
	}
	ctx, lost := context.WithCancelCause(ctx)
	pinged := make(chan struct{})
	go func() {
		defer close(pinged)
		ping(ctx, conn, lost)
	}()
	defer func() {
		lost(nil)
		<-pinged
	}()
	return work(ctx)
}

const pingEvery = 3 * time.Second

// ping keeps the session of a lock alive. A process that was stopped does not ping: the
// server ends its session, and the lock is free for another.
func ping(ctx context.Context, conn *pgxpool.Conn, lost context.CancelCauseFunc) {
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if _, err := conn.Exec(ctx, `SELECT 1`); err != nil {
				lost(err)
			}
		}
	}
}

// acquire waits a bounded time for a connection: a longer queue would only grow.
func (db *DB) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	wait, cancel := context.WithTimeout(ctx, db.wait)
	defer cancel()
	conn, err := db.pool.Acquire(wait)
	if err == nil {
		return conn, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, fault.Unavailable(time.Second, fmt.Errorf("acquire connection: %w", err))
}

// One returns the single row of a statement; no row is ErrNoRow.
func One[T any](ctx context.Context, s Scope, sql string, args Args) (T, error) {
	var one T
	err := s.rows(ctx, sql, args, func(rows pgx.Rows) (err error) {
		one, err = pgx.CollectExactlyOneRow(rows, scan[T])
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return one, ErrNoRow
	}
	return one, err
}

// Many returns every row of a statement, never nil.
func Many[T any](ctx context.Context, s Scope, sql string, args Args) ([]T, error) {
	many := []T{}
	err := s.rows(ctx, sql, args, func(rows pgx.Rows) (err error) {
		many, err = pgx.AppendRows(many, rows, scan[T])
		return err
	})
	return many, err
}

// scan reads one column as it is and several into the struct fields of their names.
func scan[T any](row pgx.CollectableRow) (T, error) {
	if len(row.FieldDescriptions()) == 1 {
		return pgx.RowTo[T](row)
	}
	return pgx.RowToStructByName[T](row)
}
