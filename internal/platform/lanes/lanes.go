// Package lanes is the engine under sends, inbound callbacks and webhooks. A lane is a
// line of waiting rows with one drainer at a time; River wakes lanes, lanes drain rows.
// A lane that is dead, slow or blocked costs its neighbours nothing, because the unit of
// scheduling is the lane and never the row.
//
// Rows are the truth, River is the clock and the hands: losing every job delays rows and
// loses none. What a row means is known to its Kind alone.
package lanes

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Kind is one sort of lane and how its rows are worked.
type Kind struct {
	// Name is also that of the queue on which the kind's lanes are woken.
	Name string
	// Open reads what the rows of a lane have in common. It is asked again every few turns of a busy lane.
	Open func(ctx context.Context, lane Lane) (Work, error)
	// Restore adds the organization's waiting rows again, out of the domain's own tables.
	Restore func(ctx context.Context, tx *postgres.Tx) error
	// Priorities is how many there are, 0 being the first; at most 4, at least 1.
	Priorities int
	// LaterPerSecond, unless zero, is how many rows of later priorities one lane starts in a
	// second, spread evenly.
	LaterPerSecond int
	// Retries says what a row that waits for its retry does to the others of its key.
	Retries Rule
	// Least and Most bound how many rows of one lane are worked at once.
	Least, Most int
	// Gather is how long a result may wait for others; zero is 50 ms.
	Gather time.Duration
	// Timeout is how long one row may take.
	Timeout time.Duration
	// Workers and SlowWorkers are how many lanes a process drains at once.
	Workers, SlowWorkers int
	// PerRow runs one River job for each row instead: no order, no fairness, no lanes.
	PerRow bool
}

// Rule is what happens to the rows of a key while one of them waits for its retry.
type Rule int

const (
	// Pass lets later rows go on: order holds among first tries.
	Pass Rule = iota
	// Hold keeps later rows back until the one that waits is settled.
	Hold
)

// Lane names a lane in the hands of its drainer.
type Lane struct {
	ID   ids.Any
	Org  ids.Org
	Kind string
}

// Row is something that waits in a lane.
type Row struct {
	ID ids.Any
	// Key, unless zero, has its rows worked one at a time and in order.
	Key      ids.Any
	Priority int
	// DueAt is the earliest time to start; zero is now.
	DueAt time.Time
	// Value is what Read found.
	Value any

	taken clock.Watch
}

// startWithin is how long after it was taken a row may start: somebody who was stopped
// for longer may no longer own the lane.
const startWithin = 5 * time.Second

// Stale tells that it is too late to start the row.
func (r Row) Stale() bool { return r.taken.Elapsed() > startWithin }

// Span lists the ids of rows, with the least and the greatest of them: whoever reads
// partitions needs to look only between.
func Span(rows []Row) (all []ids.Any, least, greatest ids.Any) {
	all = make([]ids.Any, len(rows))
	for i, row := range rows {
		all[i] = row.ID
		if least.IsZero() || row.ID.Compare(least) < 0 {
			least = row.ID
		}
		if row.ID.Compare(greatest) > 0 {
			greatest = row.ID
		}
	}
	return all, least, greatest
}

// Work is what a kind does with the rows of one lane.
type Work struct {
	// Read, unless nil, finds what rows that are about to start are about, and may leave it
	// in their Value.
	Read func(ctx context.Context, rows []Row) error
	// Begin, unless nil, runs in a transaction of the lane's owner that is committed before
	// any of the rows is done.
	Begin func(ctx context.Context, tx *postgres.Tx, rows []Row) error
	// Do, unless nil, does one row outside of any transaction, beside others of the lane.
	Do func(ctx context.Context, row Row) Result
	// Settle, unless nil, writes what came out of rows, in the transaction of the owner that
	// takes them out of the lane. It may change the results. After an error each row is
	// settled alone. Other rows of the lane may be read and done meanwhile.
	Settle func(ctx context.Context, tx *postgres.Tx, batch *Batch) error
	// PerSecond, unless zero, is how many rows of the lane may start in a second.
	PerSecond float64
}

// Result is what came out of a row.
type Result struct {
	Row Row
	// Value is between Do and Settle.
	Value any
	// RetryAt, unless zero, keeps the row in the lane until then.
	RetryAt time.Time
	// KeyUntil, unless zero, keeps the rows of this key back until then.
	KeyUntil time.Time
	// Overloaded halves how many rows of the lane are done at once.
	Overloaded bool
	// Fault is a failure that the kind did not foresee. The row is tried again a little
	// later; the third fault of one class sets it aside.
	Fault error

	class     string
	try       int
	took      time.Duration
	unstarted bool
}

// Batch is what Settle settles.
type Batch struct {
	Lane    Lane
	Results []Result

	blocked *time.Time
	// blocking tells the drain at once that no row may start.
	blocking *atomic.Bool
}

// Block lets no row of the lane start before until. One row is then tried alone.
func (b *Batch) Block(until time.Time) {
	b.blocked = &until
	b.blocking.Store(true)
}

// Lanes adds rows and wakes lanes. It drains none: an Engine does.
type Lanes struct {
	db     *postgres.DB
	queue  *jobs.Queue
	clock  clock.Clock
	logger *slog.Logger
	kinds  map[string]*Kind
	looker looker
	busy   busy
	// engine is there when this process also drains.
	engine atomic.Pointer[Engine]
}

// New needs no answer of the database. Kinds are registered before anything else is asked.
func New(db *postgres.DB, queue *jobs.Queue, now clock.Clock, logger *slog.Logger) *Lanes {
	l := &Lanes{db: db, queue: queue, clock: now, logger: logger, kinds: map[string]*Kind{}}
	l.looker.look = l.look
	return l
}

// maxPriorities bounds what a statement asks for.
const maxPriorities = 4

// Register makes a kind known.
func (l *Lanes) Register(kind Kind) {
	kind.Priorities = min(max(kind.Priorities, 1), maxPriorities)
	kind.Least = max(kind.Least, 1)
	kind.Most = max(kind.Most, kind.Least)
	kind.Workers = max(kind.Workers, 1)
	kind.SlowWorkers = max(kind.SlowWorkers, 1)
	if kind.Gather == 0 {
		kind.Gather = gather
	}
	if kind.Timeout == 0 {
		kind.Timeout = 15 * time.Second
	}
	l.kinds[kind.Name] = &kind
}

// slowSuffix names the queue of a kind's slow lanes.
const slowSuffix = "_slow"

func queueOf(kind string, slow bool) string {
	if slow {
		return kind + slowSuffix
	}
	return kind
}

// wakeArgs is the job that wakes a lane.
type wakeArgs struct {
	Lane ids.Any `json:"lane"`
	Org  ids.Org `json:"org"`
	Of   string  `json:"of"`
	Slow bool    `json:"slow,omitempty"`
	// Timer jobs own nothing: they arm the lane when nobody else has.
	Timer bool `json:"timer,omitempty"`
}

// Kind names the job.
func (wakeArgs) Kind() string { return "lane" }

// wake is a lane together with the token that owns it.
type wake struct {
	Lane

	slow  bool
	token int64
}

func (w wake) job(at time.Time) jobs.Job {
	return jobs.Job{Args: wakeArgs{Lane: w.ID, Org: w.Org, Of: w.Kind, Slow: w.slow}, Queue: queueOf(w.Kind, w.slow), At: at}
}
