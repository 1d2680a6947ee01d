package lanes

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// plan is what a simulated row does at one try.
type plan string

const (
	succeeds     plan = "succeeds"
	retries      plan = "retries"
	retriesNow   plan = "retries at once"
	faults       plan = "faults"
	panics       plan = "panics"
	hangs        plan = "hangs"
	paces        plan = "holds its key for a while"
	overloads    plan = "overloads"
	blocks       plan = "blocks its lane"
	cannotSettle plan = "cannot be settled"
	cannotBegin  plan = "cannot begin"
	refused      plan = "is answered by Begin"
)

// simRow is a row of the simulation and what is known of it.
type simRow struct {
	Row

	name string
	lane *simLane
	plan []plan
	// committedAt is when the transaction that added it committed; zero until then.
	committedAt time.Time

	tries, results, finals int
	// by is the owner that works on it, and under which due time, as far as is known.
	by    *owner
	under time.Time
	// pacedUntil is how long its last result keeps the key back.
	pacedUntil time.Time
	// excused rows were under way when their drainer died or lost the lane, or were cut off. Others were
	// started by a drainer that a watchdog had just overtaken: it took them at its last moment, and
	// without a Begin nothing tells it.
	excused bool
	// called are the attempts that were called, and begunAt is when the last one was begun.
	called  map[int]bool
	begunAt time.Time
}

// simLane is a lane of the simulation.
type simLane struct {
	Lane

	name string
	rule Rule
	work workShape
	pace float64
	// openFails is how often Open will fail.
	openFails int
	owners    []*owner
	// blockedUntil is what an operator set last, and blockedAt when that was committed.
	blockedUntil, blockedAt time.Time
	// operator lets in one operator at a time, so that commits and reports have one order.
	operator chan struct{}
	// stoppedBy is the owner that blocked the lane by a result, and stoppedAt when that was committed.
	stoppedBy *owner
	stoppedAt time.Time
	// asideFails tells that SetAside fails.
	asideFails bool
}

type workShape string

const (
	callOnly   workShape = "call"
	callSettle workShape = "call, settle"
	withLedger workShape = "begin, call, settle"
	settleOnly workShape = "settle"
)

func (l *simLane) settles() bool { return l.work != callOnly }

// owner is a lane in the hands of one drainer.
type owner struct {
	lane *simLane
	by   *process
	n    int
	// overtaken tells that a watchdog has given the lane to somebody else.
	overtaken bool
}

// checker knows the rules, and compares what happens with them and with the database.
type checker struct {
	ctx   context.Context //nolint:containedctx // that of the run
	db    *postgres.DB
	clock *clock.Manual
	logf  func(format string, args ...any)
	failf func(rule, format string, args ...any)

	mu    sync.Mutex
	lanes map[ids.Any]*simLane
	rows  map[ids.Any]*simRow
	calm  bool
}

func (c *checker) nameOf(lane ids.Any) string { return c.lanes[lane].name }

// committed is told of rows as soon as they are committed.
func (c *checker) committed(added []*simRow) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range added {
		one.committedAt = time.Now()
		c.logf("  %s is committed", one.name)
	}
}

// blocked is told what an operator did; zero is the end of a block.
func (c *checker) blocked(on *simLane, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if until.After(on.blockedUntil) || until.IsZero() {
		on.blockedUntil, on.blockedAt = until, time.Now()
	}
	c.logf("  %s is blocked until %s", on.name, until.Format(time.DateTime))
}

// died excuses rows that were under way: how far they got is unknown.
func (c *checker) died(p *process) { c.excuse(func(by *owner) bool { return by.by == p }) }

func (c *checker) overtaken(lanes []ids.Any) {
	c.logf("  a watchdog takes over")
	c.excuse(func(by *owner) bool { return slices.Contains(lanes, by.lane.ID) })
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, lane := range lanes {
		for _, one := range c.lanes[lane].owners {
			one.overtaken = true
		}
	}
}

func (c *checker) excuse(of func(by *owner) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.rows {
		if one.by != nil && of(one.by) {
			one.excused, one.by, one.pacedUntil = true, nil, time.Time{}
		}
	}
}

var errPlanned = errors.New("as planned")

// open is the kinds' Open: from here on a drainer owns the lane.
func (c *checker) open(ctx context.Context, p *process, lane Lane) (testWork, error) {
	c.mu.Lock()
	on := c.lanes[lane.ID]
	if on.openFails > 0 {
		on.openFails--
		c.mu.Unlock()
		return testWork{}, errPlanned
	}
	o := &owner{lane: on, by: p, n: len(on.owners) + 1}
	on.owners = append(on.owners, o)
	c.mu.Unlock()
	c.logf("  %s opens %s", p.name, on.name)
	p.gate.stop(ctx, "opened "+on.name)
	work := testWork{PerSecond: on.pace}
	if on.work == withLedger {
		work.Begin = func(ctx context.Context, tx *postgres.Tx, tasks []*testTask) error { return c.begin(ctx, tx, tasks) }
	}
	if on.work != settleOnly {
		work.Call = func(ctx context.Context, row Row, _ string) testAnswer { return c.call(ctx, o, row) }
	}
	if on.settles() {
		work.Settle = func(ctx context.Context, tx *postgres.Tx, batch *testBatch) error { return c.settle(ctx, tx, o, batch) }
	}
	return work, nil
}

// stopped notes when a result's block is committed. Until then its owner may start rows.
func (c *checker) stopped(tx *postgres.Tx, o *owner) {
	note := func(at time.Time) {
		c.mu.Lock()
		defer c.mu.Unlock()
		o.lane.stoppedBy, o.lane.stoppedAt = o, at
	}
	note(time.Time{})
	tx.AfterCommit(func() { note(time.Now()) })
}

const blockedFor = 23*time.Second + 5*time.Millisecond

type waitingRow struct {
	ID       ids.Any
	Priority int
	DueAt    time.Time
}

const sqlKeyed = `
SELECT id, priority, coalesce(parked_from, due_at) AS due_at
FROM lane_rows
WHERE lane_id = @lane AND (id = @id OR key = @key)`

type laneView struct {
	BlockedUntil *time.Time
	// Open is the number of the open attempt, zero if there is none.
	Open int

	began time.Time
}

const sqlLaneView = `
SELECT blocked_until, (SELECT coalesce(sum(n), 0) FROM sim_attempts WHERE row_id = @id AND settled = 0) AS open
FROM lanes
WHERE lane_id = @lane`

// starts checks whether this row may start here and now.
func (c *checker) starts(in postgres.Scope, o *owner, row Row) {
	began := time.Now()
	args := postgres.Args{"lane": o.lane.ID, "id": row.ID, "key": row.Key}
	waiting, err := postgres.Many[waitingRow](c.ctx, in, sqlKeyed, args)
	if err == nil {
		var now laneView
		if now, err = postgres.One[laneView](c.ctx, in, sqlLaneView, postgres.Args{"lane": o.lane.ID, "id": row.ID}); err == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			now.began = began
			c.checkStart(o, row, waiting, now)
			return
		}
	}
	if o.by.gate.alive() {
		c.failf("the simulation itself", "%v", err)
	}
}

func (c *checker) checkStart(o *owner, row Row, waiting []waitingRow, now laneView) {
	one := c.rows[row.ID]
	one.tries++
	unaware := o.overtaken && o.lane.work != withLedger
	one.excused = one.excused || unaware
	c.logf("  %s starts %s on %s, try %d, owner %d", o.by.name, one.name, o.lane.name, one.tries, o.n)
	if one.committedAt.IsZero() {
		c.failf("a row that was rolled back is never worked", "%s", one.name)
	}
	if !slices.ContainsFunc(waiting, func(w waitingRow) bool { return w.ID == row.ID && w.DueAt.Equal(row.DueAt) }) {
		c.failf("a row that was settled does not start again", "%s", one.name)
	}
	if o != o.lane.owners[len(o.lane.owners)-1] && !unaware {
		c.failf("a drainer that has lost its lane starts nothing", "%s", one.name)
	}
	if row.DueAt.After(c.clock.Now()) {
		c.failf("no row starts before it is due", "%s", one.name)
	}
	if o.lane.work == withLedger {
		if now.Open == 0 || one.called[now.Open] {
			c.failf("a row is called once for each attempt that was begun", "%s: open attempt %d", one.name, now.Open)
		}
		one.called[now.Open] = true
		if time.Since(one.begunAt) > callWithin {
			c.failf("a row is called soon after its begin", "%s", one.name)
		}
	}
	c.checkBlock(o, row, now)
	if !row.Key.IsZero() {
		c.checkKey(one, row, waiting)
	}
	one.by, one.under = o, row.DueAt
}

func (c *checker) checkBlock(o *owner, row Row, now laneView) {
	on, at := o.lane, c.clock.Now()
	if on.blockedUntil.After(at) && on.blockedAt.Before(began(row.taken)) {
		c.failf("no row of a blocked lane starts", "%s", c.rows[row.ID].name)
	}
	if c.calm && on.work != settleOnly && on.blockedUntil.After(at) && on.blockedAt.Before(o.by.lastBeat) {
		c.failf("no row of a lane that was blocked before the last heartbeat starts", "%s", c.rows[row.ID].name)
	}
	if on.work == settleOnly {
		return // such a row started before its settlement, and started rows are finished
	}
	if on.stoppedBy == o && (on.stoppedAt.IsZero() || on.stoppedAt.After(now.began)) {
		return // the block and the start came at the same time
	}
	if now.BlockedUntil != nil && now.BlockedUntil.After(at) && !now.BlockedUntil.Equal(on.blockedUntil) {
		c.failf("no row starts after its lane was blocked by a result", "%s", c.rows[row.ID].name)
	}
}

// checkKey compares a row with those of the same key.
func (c *checker) checkKey(one *simRow, row Row, waiting []waitingRow) {
	for _, w := range waiting {
		other := c.rows[w.ID]
		first := w.DueAt.Equal(other.DueAt)
		switch {
		case other == one:
		case other.by != nil && other.under.Equal(w.DueAt):
			c.failf("rows of one key do not overlap", "%s, %s is under way", one.name, other.name)
		case !first && one.lane.rule == Hold:
			c.failf("a row that waits for its retry holds its key", "%s, %s waits", one.name, other.name)
		case !first || w.Priority != row.Priority || !other.committedAt.Before(began(row.taken)):
		case one.lane.rule == Hold && !row.DueAt.Equal(one.DueAt):
		case byDue(other.Row, row) < 0:
			c.failf("rows of one key keep their order", "%s, %s is first", one.name, other.name)
		}
	}
	for _, other := range c.rows {
		if other.lane == one.lane && other.Key == row.Key && other.pacedUntil.After(c.clock.Now()) && isSettled(other, waiting) {
			c.failf("a key is held as long as asked", "%s, %s asked", one.name, other.name)
		}
	}
}

func isSettled(one *simRow, waiting []waitingRow) bool {
	return !slices.ContainsFunc(waiting, func(w waitingRow) bool { return w.ID == one.ID && w.DueAt.Equal(one.under) })
}

type total struct {
	RowID    ids.Any
	Settled  int
	Aside    bool
	Handed   int
	Unclosed int
}

const sqlTotals = `
SELECT row_id, sum(settled) AS settled, bool_or(aside) AS aside, sum(handed) AS handed, sum(unclosed) AS unclosed
FROM (
    SELECT row_id, (note = 'settled')::int AS settled, false AS aside, (note = 'aside')::int AS handed, 0 AS unclosed FROM sim_notes
    UNION ALL
    SELECT id, 0, true, 0, 0 FROM lane_faults WHERE aside
    UNION ALL
    SELECT row_id, 0, false, 0, 1 FROM sim_attempts WHERE settled <> 1
) AS noted
GROUP BY row_id`

// checkEnd checks every row at the end, when no row waits any more.
func (c *checker) checkEnd() {
	totals, err := postgres.Many[total](c.ctx, c.db.System("checker"), sqlTotals, nil)
	if err != nil {
		c.failf("the simulation itself", "%v", err)
	}
	byRow := make(map[ids.Any]total, len(totals))
	for _, one := range totals {
		byRow[one.RowID] = one
	}
	for _, one := range c.rows {
		c.checkRow(one, byRow[one.ID])
	}
}

func (c *checker) checkRow(one *simRow, end total) {
	wanted := 1
	if one.committedAt.IsZero() || end.Aside {
		wanted = 0
	}
	if one.lane.settles() && end.Settled != wanted {
		c.failf("a row is settled once", "%s: %d times, aside %t", one.name, end.Settled, end.Aside)
	}
	if end.Unclosed > 0 && !(end.Aside && one.lane.asideFails) {
		c.failf("every attempt that was begun is settled once", "%s: %d are not", one.name, end.Unclosed)
	}
	if handed := end.Aside && !one.lane.asideFails; end.Handed > 1 || (end.Handed == 1) != handed {
		c.failf("a row that is set aside is handed to its kind once", "%s: %d times, aside %t", one.name, end.Handed, end.Aside)
	}
	if slices.Contains(one.plan, refused) && one.lane.work == withLedger {
		return // not called, or not as often as planned
	}
	if one.lane.work != settleOnly && (one.finals < wanted || one.finals > wanted && !one.excused) {
		c.failf("a row succeeds once", "%s: %d times, aside %t, excused %t", one.name, one.finals, end.Aside, one.excused)
	}
	if end.Aside && c.calm && one.lane.work != settleOnly && !slices.Contains(one.plan, cannotBegin) && one.planned(faults, panics, hangs, cannotSettle) < asideAfter {
		c.failf("only rows with three faults are set aside", "%s", one.name)
	}
}

// planned counts how often the row is to do one of these.
func (r *simRow) planned(plans ...plan) (count int) {
	for _, one := range r.plan {
		if slices.Contains(plans, one) {
			count++
		}
	}
	return count
}

// began is when a watch was started.
func began(watch clock.Watch) time.Time { return time.Now().Add(-watch.Elapsed()) }
