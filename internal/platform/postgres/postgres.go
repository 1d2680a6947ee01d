// Package postgres is the only way to the database. A statement runs either in the scope of one
// organization, whose id the package binds as @org_id, or in a system scope with a reason.
// A Scope runs one statement, in a transaction of its own; a Tx runs several in one transaction. The
// data of an organization is written in a Tx.
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
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
)

// Config configures the connections to one database.
type Config struct {
	// URL may name several hosts; the one that accepts writes is used.
	URL string
	// Name is the application_name of the connections.
	Name string
	// MaxConns is the size of the pool. Default: that of pgxpool (4, or the number of CPUs).
	MaxConns int32
	// AcquireWait is the longest wait for a free connection; after it the request is answered
	// with 503. Default: 1 s. Connecting may take as long, and at least 2 s.
	AcquireWait time.Duration
	// StatementTimeout is the server's limit for one statement, in addition to the deadline of
	// each request. Default: 10 s.
	StatementTimeout time.Duration
	// Steady uses one generic plan per statement, whatever its arguments. It is for work that
	// reads few rows by their keys, where planning would take longer than reading.
	Steady bool
	// Opened is closed when the pool may be used; until then it has no connections. Nil: at once.
	Opened <-chan struct{}
	// Shared divides the connections among organizations (shares.go).
	Shared bool
	// Enter returns the first statement of each transaction of an organization. It refuses or
	// waits while the organization moves.
	Enter func(org ids.Org) string
	// EnterAll is the first statement of each system transaction.
	EnterAll string
	// Tracers see every statement. Default: none.
	Tracers []pgx.QueryTracer
}

// DB is one cell's database.
type DB struct {
	pool    *pgxpool.Pool
	wait    time.Duration
	traced  bool
	steady  bool
	opened  <-chan struct{}
	shares  *shares
	evicted atomic.Int64

	enter    func(org ids.Org) string
	enterAll string
}

// Open builds the pool without connecting, so that a process can start while its database is down.
func Open(ctx context.Context, config Config) (*DB, error) {
	settings, err := poolConfig(config)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, err
	}
	db := &DB{
		pool: pool, wait: orElse(config.AcquireWait, time.Second), traced: len(config.Tracers) > 0,
		steady: config.Steady, opened: config.Opened, enter: config.Enter, enterAll: config.EnterAll,
	}
	if config.Shared {
		db.shares = newShares(int(settings.MaxConns))
	}
	return db, nil
}

// lockTimeout is how long a statement waits for a lock before the caller is asked to retry.
const lockTimeout = 1500 * time.Millisecond

func poolConfig(config Config) (*pgxpool.Config, error) {
	settings, err := pgxpool.ParseConfig(config.URL)
	if err != nil {
		return nil, err
	}
	connection := settings.ConnConfig
	// Refuse a standby that answers at the address of the primary.
	if connection.ValidateConnect == nil {
		connection.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if connection.ConnectTimeout == 0 {
		connection.ConnectTimeout = max(2*time.Second, config.AcquireWait)
	}
	timeout := orElse(config.StatementTimeout, 10*time.Second)
	setDefault(connection.RuntimeParams, "application_name", config.Name)
	setDefault(connection.RuntimeParams, "statement_timeout", fmt.Sprint(timeout.Milliseconds()))
	setDefault(connection.RuntimeParams, "lock_timeout", fmt.Sprint(lockTimeout.Milliseconds()))
	setDefault(connection.RuntimeParams, "idle_in_transaction_session_timeout", fmt.Sprint(2*timeout.Milliseconds()))
	setDefault(connection.RuntimeParams, "timezone", "UTC")
	// JIT compilation can take seconds, and our statements read few rows.
	setDefault(connection.RuntimeParams, "jit", "off")
	if config.Steady {
		setDefault(connection.RuntimeParams, "plan_cache_mode", "force_generic_plan")
		// The rows of this work were just written, so they are in memory: index reads are cheap. The
		// generic plan of a table that was empty when it was planned must still use an index.
		setDefault(connection.RuntimeParams, "random_page_cost", "1.1")
		setDefault(connection.RuntimeParams, "enable_seqscan", "off")
	}
	// When a request is cancelled, cancel its statement instead of closing the connection.
	connection.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: time.Second}
	}
	if len(config.Tracers) > 0 {
		connection.Tracer = multitracer.New(config.Tracers...)
	}
	settings.AfterConnect = readUTC
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

// Pool returns the pool, for libraries with statements of their own (River, goose). A test
// refuses its use in domain and edge.
func (db *DB) Pool() *pgxpool.Pool { return db.pool }

// Stat returns the statistics of the pool, for metrics.
func (db *DB) Stat() *pgxpool.Stat { return db.pool.Stat() }

// Ping checks that the database answers.
func (db *DB) Ping(ctx context.Context) error {
	_, err := One[int](ctx, db.System("ping"), `SELECT 1 AS one`, nil)
	return err
}

// Scope is what a read may see: one organization, a transaction, or the whole database with a
// reason.
type Scope interface {
	rows(ctx context.Context, sql string, args Args, collect func(pgx.Rows) error) error
	batch(ctx context.Context, statements []Statement) error
}

// Of returns the scope of one organization.
func (db *DB) Of(org ids.Org) Scope { return scope{db: db, mark: mark{org: org}} }

// System returns a scope for work that crosses organizations: sweeps, retention, ingress,
// administration, and the look-up of a request's organization. The reason is documentation for
// readers of the code.
func (db *DB) System(reason string) Scope { return scope{db: db, mark: mark{system: reason}} }

// SteadyOf is Of for statements that are planned once per connection, for any arguments. It is for
// lists of tables with many partitions, whose planning takes longer than their execution.
func (db *DB) SteadyOf(org ids.Org) Scope { return scope{db: db, mark: mark{org: org}, steady: true} }

type scope struct {
	db     *DB
	mark   mark
	steady bool
}

// sqlSteady does what beginSteady does, for the statements of a batch.
const sqlSteady = `SELECT set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true)`

func (s scope) rows(ctx context.Context, sql string, args Args, collect func(pgx.Rows) error) error {
	if s.steady {
		return s.batch(ctx, []Statement{{sql: sql, args: args, read: collect}})
	}
	conn, release, err := s.db.acquire(ctx, s.mark.org)
	if err != nil {
		return err
	}
	defer release()
	rows, err := conn.Query(s.db.marked(ctx, s.mark), sql, s.mark.bind(args))
	if err != nil {
		return s.db.classify(err)
	}
	return s.db.classify(collect(rows))
}

// ErrBusy means that another process holds the lock of Alone.
var ErrBusy = errors.New("another process holds the lock")

// Alone runs work under a lock with a name, or returns ErrBusy when another process holds it. The
// lock belongs to a connection: it ends with the process, or a few seconds after the process was
// suspended.
func (db *DB) Alone(ctx context.Context, name string, work func(context.Context) error) error {
	conn, release, err := db.acquire(ctx, ids.Org{})
	if err != nil {
		return err
	}
	defer release()
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
			_ = conn.Conn().Close(ctx) // closing the connection releases the lock
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

// ping keeps the session of a lock alive. A process that was suspended does not ping, so the
// server ends its session and releases the lock.
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

// acquire waits a bounded time for a connection, so that the queue of waiting requests stays short. The organization
// is zero for work that belongs to none.
func (db *DB) acquire(ctx context.Context, org ids.Org) (_ *pgxpool.Conn, release func(), err error) {
	leave := func() {}
	if err := db.awaitOpened(ctx); err != nil {
		return nil, nil, err
	}
	if db.shares != nil && !org.IsZero() {
		limit := db.wait
		if rankOf(ctx) == begun {
			limit *= 2 // refusing it would waste what was done for it
		}
		turn, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		if leave, err = db.shares.enter(turn, org); err != nil {
			err = fmt.Errorf("the requests of the organization, or all together, held their connections for %s: %w", limit, err)
		}
	}
	wait, cancel := context.WithTimeout(ctx, db.wait)
	defer cancel()
	if err == nil {
		var conn *pgxpool.Conn
		if conn, err = db.pool.Acquire(wait); err == nil {
			return conn, func() { conn.Release(); leave() }, nil
		}
		err = db.explain(err)
		leave()
	}
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	return nil, nil, fault.Unavailable(time.Second, fmt.Errorf("acquire connection: %w", err))
}

// explain says whether there was no free connection, or the database did not let the pool open one.
func (db *DB) explain(err error) error {
	stat := db.pool.Stat()
	if errors.Is(err, context.DeadlineExceeded) && stat.ConstructingConns() == 0 && stat.TotalConns() == stat.MaxConns() {
		return fmt.Errorf("all %d connections were in use for %s: %w", stat.MaxConns(), db.wait, err)
	}
	return fmt.Errorf("the database did not answer: %w", err)
}

// awaitOpened waits until the pool may be used, a bounded time.
func (db *DB) awaitOpened(ctx context.Context) error {
	if db.opened == nil {
		return nil
	}
	select {
	case <-db.opened:
		return nil
	default:
	}
	timer := time.NewTimer(db.wait)
	defer timer.Stop()
	select {
	case <-db.opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fault.Unavailable(time.Second, errors.New("the pool is closed until the master key was checked"))
	}
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

// scan reads a single column into T itself, and several columns into the fields with their names.
func scan[T any](row pgx.CollectableRow) (T, error) {
	if len(row.FieldDescriptions()) == 1 {
		return pgx.RowTo[T](row)
	}
	return pgx.RowToStructByName[T](row)
}
