package lanes

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Kind is one sort of lane and how its rows are worked. T is what Read or Begin finds of a
// row; R is what Call returns.
type Kind[T, R any] struct {
	// Name is also the name of the River queue on which the kind's lanes are woken.
	Name string
	// Open returns the functions that work the rows of one lane. It is called when a drainer
	// claims the lane, and again every few seconds while the lane stays busy. The new Settle
	// may get rows that the functions before began, and calls of both may be under way.
	Open func(ctx context.Context, lane Lane) (Work[T, R], error)
	// SetAside takes over rows that lanes will not try again. It runs in the transaction that
	// sets them aside. If it fails, the rows stay set aside for an operator, without the kind
	// knowing, and an error is logged. Nil leaves the rows to the operator.
	SetAside func(ctx context.Context, tx *postgres.Tx, lane Lane, rows []Aside[T]) error
	// Restore continues what else was under way, after an organization was moved to this cell. Its
	// lanes and rows are there already.
	Restore func(ctx context.Context, tx *postgres.Tx) error
	// Retries says what a row that waits for its retry does to the other rows of its key.
	Retries Rule
	// LaterPerSecond limits how many rows of priority 1 a lane starts per second, spread evenly.
	// Zero is no limit.
	LaterPerSecond int
	// Least and Most bound how many rows of one lane are worked at once. Defaults: 1 and Least.
	Least, Most int
	// Gather is how long a result may wait for others before it is settled. Default: 50 ms.
	Gather time.Duration
	// Timeout is how long one call may take. Default: 15 s.
	Timeout time.Duration
	// Workers is how many lanes a process drains at once. SlowWorkers is how many further lanes,
	// whose calls take longer than a second, it drains at once. Default of each: 1.
	Workers, SlowWorkers int
	// OnHold has the lanes drained also while the cell is on hold: its rows neither send nor deliver anything.
	OnHold bool
}

// Work is what a kind does with the rows of one lane. Every function is optional: with none, the rows
// leave the lane.
//
// A row whose Begin was committed is settled by exactly one committed transaction while its
// drainer lives; Result.Outcome says what happened in between.
type Work[T, R any] struct {
	// Read finds what rows are about, outside of any transaction. Nothing is promised of rows
	// that were only read: they may be read again without having been settled.
	Read func(ctx context.Context, tasks []*Task[T, R]) error
	// Begin runs in a transaction of the lane's owner that is committed before any of the rows is
	// called. After an error each row is begun alone.
	Begin func(ctx context.Context, tx *postgres.Tx, tasks []*Task[T, R]) error
	// Call works one row outside of any transaction, while other rows of the lane are called.
	Call func(ctx context.Context, row Row, value T) Answer[R]
	// Settle writes results in the transaction of the lane's owner that removes the rows from the
	// lane. It may change the results. If it fails, each row is settled alone. A row that still
	// cannot be settled is settled as Unknown. If that fails too, lanes count a fault for the row
	// without asking Settle; if the kind has a Begin, they set the row aside at once.
	Settle func(ctx context.Context, tx *postgres.Tx, batch *Batch[T, R]) error
	// Split divides the value of a row that cannot be settled alone. Each part is settled in a
	// transaction of its own, a part that cannot be settled is handed to SetAside, and then the
	// row is removed. No parts: the row is settled as if Split were nil.
	Split func(value T) (parts []T)
	// PerSecond limits how many rows of the lane start per second. Zero is no limit.
	PerSecond float64
}

// Task is a row that is about to be called.
type Task[T, R any] struct {
	Row Row
	// Value is set by Read or Begin and passed on to Call and Settle.
	Value T

	answer *Answer[R]
}

// Answer gives the row's result without a call: it is refused, gone, or must wait.
func (t *Task[T, R]) Answer(answer Answer[R]) { t.answer = &answer }

// Answer is what Call returns of a row, or what Read or Begin say of it.
type Answer[R any] struct {
	Value R
	// RetryAt keeps the row in the lane until then. Zero removes the row.
	RetryAt time.Time
	// KeyUntil is the earliest time at which another row of the same key may start. Zero is no
	// limit. It is ignored when a retry of this row holds the key.
	KeyUntil time.Time
	// Overloaded halves how many rows of the lane are called at once.
	Overloaded bool
	// Fault is a failure that the kind did not foresee. Lanes ignore RetryAt then: the row is
	// tried again a few seconds later. Three faults of the same class in a row set it aside.
	Fault error
}

// Outcome is what happened to a row between Begin and Settle.
type Outcome int

const (
	// Answered rows were not called: Read or Begin answered them, or the kind has no Call.
	Answered Outcome = iota
	// Postponed rows were begun and not called, because it was too late to start them or the lane
	// was blocked meanwhile. They keep their place in the lane and are begun again.
	Postponed
	// Returned rows were called, and the answer is what Call returned.
	Returned
	// Unknown rows were called and nothing is known of the result: the call panicked, did not end
	// within its time, or was cut off because the process stops; or its result could not be settled.
	Unknown
)

// Result is what Settle gets of one row, and may change: the answer decides what becomes of
// the row.
type Result[T, R any] struct {
	Answer[R]

	Row Row
	// Task is what Read or Begin found.
	Task    T
	Outcome Outcome

	class string
	// kindSettles tells that Settle gets the row: its Begin was committed, or there is none and the
	// row was read.
	kindSettles bool
	try         int // which call of this drainer
	took        time.Duration
	// split tells that Split was asked for parts.
	split bool
}

// Batch is what Settle settles.
type Batch[T, R any] struct {
	Lane    Lane
	Results []Result[T, R]

	// block is what Block was given; zero if it was not called.
	block time.Time
	// blocking stops the drainer from starting rows before the block is committed.
	blocking *atomic.Bool
}

// Block lets no row of the lane start before until. One row is then tried alone.
func (b *Batch[T, R]) Block(until time.Time) {
	b.block = until
	b.blocking.Store(true)
}

// Aside is a row, or a part of one, that lanes will not try again.
type Aside[T any] struct {
	Row Row
	// Task is what Read or Begin found; its zero value if the row was never read.
	Task   T
	Reason string
}

// settings are the fields of a Kind that have no type parameters.
type settings struct {
	name                 string
	retries              Rule
	laterPerSecond       int
	least, most          int
	gather, timeout      time.Duration
	workers, slowWorkers int
	restore              func(ctx context.Context, tx *postgres.Tx) error
	onHold               bool
}

// registered is a Kind without its type parameters.
type registered interface {
	settings() settings
	// drain works the rows of a claimed lane until the lane is empty, blocked, lost, or its turn
	// is over.
	drain(ctx context.Context, s *session) error
}

type kind[T, R any] struct {
	Kind[T, R]

	with settings
}

func (k *kind[T, R]) settings() settings { return k.with }

func (k *kind[T, R]) drain(ctx context.Context, s *session) error {
	return newDrain(k, s).run(ctx)
}

// Register makes a kind known. All kinds are registered before rows are added or drained.
func Register[T, R any](l *Lanes, k Kind[T, R]) {
	with := settings{
		name: k.Name, retries: k.Retries, laterPerSecond: k.LaterPerSecond, least: max(k.Least, 1), gather: k.Gather, timeout: k.Timeout,
		workers: max(k.Workers, 1), slowWorkers: max(k.SlowWorkers, 1), restore: k.Restore, onHold: k.OnHold,
	}
	with.most = max(k.Most, with.least)
	if with.gather == 0 {
		with.gather = defaultGather
	}
	if with.timeout == 0 {
		with.timeout = 15 * time.Second
	}
	l.kinds[k.Name] = &kind[T, R]{Kind: k, with: with}
}

const defaultGather = 50 * time.Millisecond

// errHandOver marks an error of SetAside.
var errHandOver = errors.New("the kind did not take over a row that was set aside")
