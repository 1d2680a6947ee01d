// Package lanes is the engine under sends, inbound callbacks and webhooks. A lane is a queue
// of rows with one drainer at a time; River wakes lanes, lanes drain rows. A lane that is
// dead, slow or blocked costs its neighbours nothing, because the unit of scheduling is the
// lane and never the row.
//
// Rows are the truth: losing every River job delays rows and loses none. What a row means is
// known only to its Kind. CONTRIBUTING.md shows how to write one.
package lanes

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Rule is what happens to the rows of a key while one of them waits for its retry.
type Rule int

const (
	// Pass lets later rows go on: order holds among first tries.
	Pass Rule = iota
	// Hold keeps later rows waiting until the one that waits for its retry is settled.
	Hold
)

// Lane names one lane.
type Lane struct {
	ID   ids.Any
	Org  ids.Org
	Kind string
}

// Row is something that waits in a lane.
type Row struct {
	ID ids.Any
	// Key has its rows worked one at a time and in order. Zero is no key.
	Key ids.Any
	// Priority is 0 or 1. Rows of priority 0 start first, but one start in eight is the oldest
	// row of priority 1.
	Priority int
	// DueAt is the earliest time to start; zero is now.
	DueAt time.Time

	taken clock.Watch
}

// priorities is how many there are.
const priorities = 2

const (
	// startWithin is how long after its take a row may start: a process that stood still for
	// longer may no longer own the lane.
	startWithin = 5 * time.Second
	// callWithin is how long after its begin a row may be called: an attempt that began and was
	// never called looks like one whose process died.
	callWithin = time.Second
)

// stale tells that it is too late to start the row.
func (r Row) stale() bool { return r.taken.Elapsed() > startWithin }

// RowIDs are the ids of the rows of tasks.
func RowIDs[T, R any](tasks []*Task[T, R]) []ids.Any {
	return postgres.Each(tasks, func(task *Task[T, R]) ids.Any { return task.Row.ID })
}

// Span returns the least and the greatest id of rows, for statements that read partitions by id.
func Span(rows []ids.Any) (least, greatest ids.Any) {
	for _, id := range rows {
		if least.IsZero() || id.Compare(least) < 0 {
			least = id
		}
		if id.Compare(greatest) > 0 {
			greatest = id
		}
	}
	return least, greatest
}

// Lanes adds rows and wakes lanes. It drains none: an Engine does.
type Lanes struct {
	db     *postgres.DB
	queue  *jobs.Queue
	clock  clock.Clock
	logger *slog.Logger
	kinds  map[string]registered
	looker looker
	busy   busy
	// engine is set while this process also drains.
	engine atomic.Pointer[Engine]
}

// New makes no request to the database.
func New(db *postgres.DB, queue *jobs.Queue, now clock.Clock, logger *slog.Logger) *Lanes {
	l := &Lanes{db: db, queue: queue, clock: now, logger: logger, kinds: map[string]registered{}}
	l.looker.look = l.look
	return l
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
	// Timer jobs own no lane: they arm the lane if it is still idle.
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
