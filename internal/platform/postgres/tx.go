package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
)

// Tx is a transaction of one organization, or of the whole system (InSystemTx). It also holds the
// hooks that run before and after its commit.
type Tx struct {
	db           *DB
	tx           pgx.Tx
	mark         mark
	beforeCommit []func(context.Context) error
	last         pgx.Batch
	ended        bool
	afterCommit  []func()
	kept         map[any]any
}

// Witness is called at the start and before the commit of a transaction, in that transaction. The
// API uses it to store the answer of a request with an Idempotency-Key together with its effect.
type Witness interface {
	Begin(ctx context.Context, tx *Tx) error
	Keep(ctx context.Context, tx *Tx, result any) error
}

type witnessKey struct{}

// WithWitness returns a context whose transactions of an organization call w.
func WithWitness(ctx context.Context, w Witness) context.Context {
	return context.WithValue(ctx, witnessKey{}, w)
}

// Apart returns ctx without its witness, for a second transaction of the same request.
func Apart(ctx context.Context) context.Context { return context.WithValue(ctx, witnessKey{}, nil) }

const (
	// repeats is how often a transaction is run again after a repeatable error.
	repeats      = 3
	commitWait   = 10 * time.Second
	rollbackWait = 2 * time.Second
)

// InTx runs a verb in a transaction of the organization: begin, witness, verb, witness,
// hooks, commit, hooks. The verb may run again after a deadlock, so it must have no
// effect outside of tx.
func InTx[T any](ctx context.Context, db *DB, org ids.Org, verb func(tx *Tx) (T, error)) (T, error) {
	witness, _ := ctx.Value(witnessKey{}).(Witness)
	return repeat(ctx, db, mark{org: org}, witness, verb)
}

// InFirstTx is InTx for the transaction that creates or opens the organization, which cannot be
// entered before.
func InFirstTx[T any](ctx context.Context, db *DB, org ids.Org, verb func(tx *Tx) (T, error)) (T, error) {
	witness, _ := ctx.Value(witnessKey{}).(Witness)
	return repeat(ctx, db, mark{org: org, unentered: true}, witness, verb)
}

// InClosingTx is a system transaction that freezes an organization.
func InClosingTx[T any](ctx context.Context, db *DB, reason string, verb func(tx *Tx) (T, error)) (T, error) {
	return repeat(ctx, db, mark{system: reason, unentered: true}, nil, verb)
}

// InSystemTx is InTx for work that crosses organizations. No idempotent answer is stored with it.
func InSystemTx[T any](ctx context.Context, db *DB, reason string, verb func(tx *Tx) (T, error)) (T, error) {
	return repeat(ctx, db, mark{system: reason}, nil, verb)
}

func repeat[T any](ctx context.Context, db *DB, m mark, witness Witness, verb func(tx *Tx) (T, error)) (T, error) {
	for try := 0; ; try++ {
		result, after, err := attempt(ctx, db, m, witness, verb)
		if err == nil {
			// The hooks run after the connection was released, because they may need one.
			for _, hook := range after {
				hook()
			}
			return result, nil
		}
		err = db.classify(err)
		if try == repeats || !Repeatable(err) {
			return result, err
		}
		select {
		case <-ctx.Done():
			return result, ctx.Err()
		case <-time.After(rand.N(10 * time.Millisecond << try)): //nolint:gosec // jitter
		}
	}
}

// attempt runs the transaction once and returns the hooks that run after its commit.
func attempt[T any](
	ctx context.Context, db *DB, m mark, witness Witness, verb func(tx *Tx) (T, error),
) (result T, after []func(), err error) {
	if m.system == "" && m.org.IsZero() {
		return result, nil, errNoOrganization
	}
	conn, release, err := db.acquire(ctx, m.org)
	if err != nil {
		return result, nil, err
	}
	defer release()
	begun, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: db.begin(m)})
	if err != nil {
		return result, nil, err
	}
	tx := &Tx{db: db, tx: begun, mark: m}
	defer tx.end(ctx)
	if witness != nil {
		if err := witness.Begin(ctx, tx); err != nil {
			return result, nil, err
		}
	}
	if result, err = verb(tx); err != nil {
		return result, nil, err
	}
	if witness != nil {
		if err := witness.Keep(ctx, tx, result); err != nil {
			return result, nil, err
		}
	}
	err = tx.commit(ctx) // its hooks may add to those after the commit
	return result, tx.afterCommit, err
}

// beginSteady begins a transaction that uses one generic plan per statement. The statements of a
// transaction find rows by their keys, so that planning them anew for each call takes longer than
// running them: storing callbacks spent more time in the planner than in the executor. Lists run
// outside of transactions and keep plans made for their arguments. A plan that was made while a
// table was empty must still use an index.
const beginSteady = "begin; set local plan_cache_mode = force_generic_plan; set local enable_seqscan = off; "

// begin returns the statement that begins the transaction and enters the organization, in one
// round trip.
func (db *DB) begin(m mark) string {
	begin := beginSteady
	if db.steady {
		begin = "begin; " // its connections have these settings
	}
	switch {
	case m.unentered:
		return "begin"
	case m.system == "" && db.enter != nil:
		return begin + db.enter(m.org)
	case m.system != "" && db.enterAll != "":
		return begin + db.enterAll
	default:
		return "begin"
	}
}

var errNoOrganization = errors.New("a transaction without an organization")

// end rolls back a transaction that was not committed, after an error or a panic.
func (tx *Tx) end(ctx context.Context) {
	if tx.ended {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackWait)
	defer cancel()
	_ = tx.tx.Rollback(ctx) // does nothing after a commit; a lost connection rolls back by itself
}

func (tx *Tx) commit(ctx context.Context) error {
	for i := 0; i < len(tx.beforeCommit); i++ { //nolint:intrange // a hook may add another
		if err := tx.beforeCommit[i](ctx); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// Wait for the answer of the commit even when ctx ends, because its outcome would be unknown.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitWait)
	defer cancel()
	err := tx.send(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return fmt.Errorf("a statement of the transaction failed and its error was dropped: %w", err)
	case state(err) == "":
		return fault.OutcomeUnknown(errors.Join(ErrUnanswered, err))
	default:
		return err
	}
}

// send commits, together with the statements of Last.
func (tx *Tx) send(ctx context.Context) error {
	if tx.last.Len() == 0 {
		return tx.tx.Commit(ctx)
	}
	var committed bool
	tx.last.Queue("commit").Exec(func(tag pgconn.CommandTag) error {
		if committed = tag.String() == "COMMIT"; !committed {
			return pgx.ErrTxCommitRollback
		}
		return nil
	})
	err := tx.tx.SendBatch(tx.db.marked(ctx, tx.mark), &tx.last).Close()
	if tx.ended = committed; committed {
		return nil // committed; later errors of the connection do not matter
	}
	return err
}

// Last adds a statement that is sent with the commit, in one round trip. It runs after all other
// statements and before the commit, in the order of the calls of Last; its failure rolls the
// transaction back. Read gets its rows before InTx returns; nil for a statement without rows.
func (tx *Tx) Last(sql string, args Args, read func(pgx.Rows) error) {
	queued := tx.last.Queue(sql, tx.mark.bind(args))
	if read != nil {
		queued.Query(read)
	}
}

// Org returns the organization of the transaction.
func (tx *Tx) Org() ids.Org { return tx.mark.org }

// BeforeCommit adds a last step inside the transaction; an error rolls it back.
func (tx *Tx) BeforeCommit(hook func(context.Context) error) {
	tx.beforeCommit = append(tx.beforeCommit, hook)
}

// AfterCommit adds a hook that runs once the transaction is durable. It does not run when the
// process dies after the commit.
func (tx *Tx) AfterCommit(hook func()) { tx.afterCommit = append(tx.afterCommit, hook) }

// Keep returns the value that the transaction holds under a key, and creates it on first use. A
// package uses it to collect rows that it writes before the commit.
func Keep[T any](tx *Tx, key any, first func() T) T {
	if kept, found := tx.kept[key]; found {
		return kept.(T) //nolint:forcetypeassert // a key belongs to one caller, which always uses the same type
	}
	if tx.kept == nil {
		tx.kept = map[any]any{}
	}
	made := first()
	tx.kept[key] = made
	return made
}

// Raw returns pgx's transaction. A test refuses its use outside of platform/jobs.
func (tx *Tx) Raw() pgx.Tx { return tx.tx }

// Exec runs a statement that returns no rows, and returns the number of rows that it changed.
func (tx *Tx) Exec(ctx context.Context, sql string, args Args) (int64, error) {
	tag, err := tx.tx.Exec(tx.db.marked(ctx, tx.mark), sql, tx.mark.bind(args))
	return tag.RowsAffected(), err
}

func (tx *Tx) rows(ctx context.Context, sql string, args Args, collect func(pgx.Rows) error) error {
	rows, err := tx.tx.Query(tx.db.marked(ctx, tx.mark), sql, tx.mark.bind(args))
	if err != nil {
		return err
	}
	return collect(rows)
}
