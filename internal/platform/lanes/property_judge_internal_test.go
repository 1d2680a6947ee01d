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

// outcome is what the play has planned for one try of a row.
type outcome string

const (
	goesWell    outcome = "goes well"
	retries     outcome = "retries"
	retriesNow  outcome = "retries at once"
	fails       outcome = "fails"
	panics      outcome = "panics"
	paces       outcome = "holds its key for a while"
	overloads   outcome = "overloads"
	blocks      outcome = "blocks its lane"
	unsettled   outcome = "cannot be settled"
	unbeginning outcome = "cannot begin"
)

// part is a row of the play and what is known of it.
type part struct {
	Row

	name string
	line *line
	plan []outcome
	// visible is when its adder committed; zero until then.
	visible time.Time

	tries, results, finals, faults int
	// by is who works on it, and under which due time, as far as is known.
	by    *session
	under time.Time
	// pacedUntil is how long its last result keeps the key back.
	pacedUntil time.Time
	// excused rows were under way when their drainer died or lost the lane.
	excused bool
}

// line is a lane of the play.
type line struct {
	Lane

	name string
	rule Rule
	work workOf
	pace float64
	// unopened is how often Open will fail.
	unopened int
	sessions []*session
	// blockedUntil is what an operator said last, and when.
	blockedUntil, blockedAt time.Time
	// operator lets in one operator at a time: the last to be heard is the last who did something.
	operator chan struct{}
	// stoppedBy is who blocked the lane by a result, and when that was done.
	stoppedBy *session
	stoppedAt time.Time
}

type workOf string

const (
	doOnly      workOf = "do"
	beginDo     workOf = "begin, do"
	doSettle    workOf = "do, settle"
	beginToEnd  workOf = "begin, do, settle"
	settleAlone workOf = "settle"
)

func (l *line) begins() bool { return l.work == beginDo || l.work == beginToEnd }

func (l *line) settles() bool {
	return l.work == doSettle || l.work == beginToEnd || l.work == settleAlone
}

// session is a lane in the hands of one drainer.
type session struct {
	line *line
	by   *process
	n    int
}

// judge knows the rules, and compares what happens with them and with the database.
type judge struct {
	ctx   context.Context //nolint:containedctx // that of the play
	db    *postgres.DB
	clock *clock.Manual
	tellf func(format string, args ...any)
	failf func(rule, format string, args ...any)

	mu    sync.Mutex
	lines map[ids.Any]*line
	parts map[ids.Any]*part
	calm  bool
}

func (j *judge) nameOf(lane ids.Any) string { return j.lines[lane].name }

// committed is told of rows as soon as they are.
func (j *judge) committed(added []*part) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, one := range added {
		one.visible = time.Now()
		j.tellf("  %s is committed", one.name)
	}
}

// blocked is told what an operator did; no time is the end of a block.
func (j *judge) blocked(on *line, until time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if until.After(on.blockedUntil) || until.IsZero() {
		on.blockedUntil, on.blockedAt = until, time.Now()
	}
	j.tellf("  %s is blocked until %s", on.name, until.Format(time.DateTime))
}

// died excuses what was under way: nobody can know how far it got.
func (j *judge) died(p *process) {
	j.excuse(func(by *session) bool { return by.by == p })
}

func (j *judge) overtaken(lanes []ids.Any) {
	j.tellf("  a watchdog takes over")
	j.excuse(func(by *session) bool { return slices.Contains(lanes, by.line.ID) })
}

func (j *judge) excuse(who func(by *session) bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, one := range j.parts {
		if one.by != nil && who(one.by) {
			one.excused, one.by, one.pacedUntil = true, nil, time.Time{}
		}
	}
}

var errPlanned = errors.New("as planned")

// open is the kinds' Open: from here on a drainer owns the lane.
func (j *judge) open(ctx context.Context, p *process, lane Lane) (Work, error) {
	j.mu.Lock()
	on := j.lines[lane.ID]
	if on.unopened > 0 {
		on.unopened--
		j.mu.Unlock()
		return Work{}, errPlanned
	}
	s := &session{line: on, by: p, n: len(on.sessions) + 1}
	on.sessions = append(on.sessions, s)
	j.mu.Unlock()
	j.tellf("  %s opens %s", p.name, on.name)
	p.gate.stop(ctx, "opened "+on.name)
	work := Work{PerSecond: on.pace}
	if on.begins() {
		work.Begin = func(ctx context.Context, tx *postgres.Tx, rows []Row) error { return j.begin(ctx, tx, rows) }
	}
	if on.work != settleAlone {
		work.Do = func(ctx context.Context, row Row) Result { return j.do(ctx, s, row) }
	}
	if on.settles() {
		work.Settle = func(ctx context.Context, tx *postgres.Tx, batch *Batch) error { return j.settle(ctx, tx, s, batch) }
	}
	return work, nil
}

const sqlNote = `INSERT INTO play_notes (note, row_id) SELECT @note, unnest(@rows::uuid[])`

func (j *judge) begin(ctx context.Context, tx *postgres.Tx, rows []Row) error {
	var begun []ids.Any
	for _, row := range rows {
		if j.next(row.ID) == unbeginning {
			return errPlanned
		}
		begun = append(begun, row.ID)
	}
	_, err := tx.Exec(ctx, sqlNote, postgres.Args{"note": "begun", "rows": begun})
	return err
}

func (j *judge) do(ctx context.Context, s *session, row Row) Result {
	j.starts(j.db.System("judge"), s, row)
	s.by.gate.stop(ctx, "do "+j.part(row.ID).name)
	if ctx.Err() != nil {
		return Result{RetryAt: j.clock.Now().Add(time.Second)}
	}
	return j.result(row.ID)
}

func (j *judge) part(id ids.Any) *part {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.parts[id]
}

// next is what the plan says of the row's next result.
func (j *judge) next(id ids.Any) outcome {
	j.mu.Lock()
	defer j.mu.Unlock()
	one := j.parts[id]
	if one.results < len(one.plan) {
		return one.plan[one.results]
	}
	return goesWell
}

func (j *judge) result(id ids.Any) Result {
	what := j.next(id)
	j.mu.Lock()
	one := j.parts[id]
	one.results++
	now := j.clock.Now()
	result := Result{Value: what}
	one.pacedUntil = time.Time{}
	switch what {
	case retries:
		result.RetryAt = now.Add(20 * time.Second)
	case retriesNow:
		result.RetryAt = now.Add(-time.Second)
	case fails, panics:
		one.faults++
		result.Fault = errPlanned
	case unsettled:
		if one.line.settles() {
			one.faults++
		} else {
			one.finals++
		}
	case paces:
		one.finals++
		result.KeyUntil = now.Add(7 * time.Second)
		one.pacedUntil = result.KeyUntil
	default:
		one.finals++
		result.Overloaded = what == overloads
	}
	j.tellf("  %s %s", one.name, what)
	j.mu.Unlock()
	if what == panics {
		panic(errPlanned)
	}
	return result
}

// settle is the kinds' Settle: what it writes must be there once for each row.
func (j *judge) settle(ctx context.Context, tx *postgres.Tx, s *session, batch *Batch) error {
	var done []ids.Any
	for _, result := range batch.Results {
		id := result.Row.ID
		j.tellf("  %s settles %s", s.by.name, j.part(id).name)
		what, _ := result.Value.(outcome)
		if s.line.work == settleAlone {
			j.starts(tx, s, result.Row)
			what = j.next(id)
		}
		switch {
		case what == unsettled:
			return errPlanned
		case what == blocks:
			batch.Block(j.clock.Now().Add(blockedFor))
			j.stopped(tx, s)
		}
		if result.RetryAt.IsZero() {
			done = append(done, id)
		}
	}
	_, err := tx.Exec(ctx, sqlNote, postgres.Args{"note": "settled", "rows": done})
	return err
}

// stopped notes when a result's block is committed. Until then who commits it may start rows.
func (j *judge) stopped(tx *postgres.Tx, s *session) {
	note := func(at time.Time) {
		j.mu.Lock()
		defer j.mu.Unlock()
		s.line.stoppedBy, s.line.stoppedAt = s, at
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
SELECT id, priority, due_at
FROM lane_rows
WHERE lane_id = @lane AND (id = @id OR key = @key)`

type scene struct {
	BlockedUntil *time.Time
	Begun        int

	began time.Time
}

const sqlScene = `
SELECT blocked_until, (SELECT count(*) FROM play_notes WHERE note = 'begun' AND row_id = @id) AS begun
FROM lanes
WHERE lane_id = @lane`

// starts judges whether this row may start here and now.
func (j *judge) starts(in postgres.Scope, s *session, row Row) {
	began := time.Now()
	args := postgres.Args{"lane": s.line.ID, "id": row.ID, "key": row.Key}
	waiting, err := postgres.Many[waitingRow](j.ctx, in, sqlKeyed, args)
	if err == nil {
		var now scene
		if now, err = postgres.One[scene](j.ctx, in, sqlScene, postgres.Args{"lane": s.line.ID, "id": row.ID}); err == nil {
			j.mu.Lock()
			defer j.mu.Unlock()
			now.began = began
			j.judgeStart(s, row, waiting, now)
			return
		}
	}
	if s.by.gate.alive() {
		j.failf("the play itself", "%v", err)
	}
}

func (j *judge) judgeStart(s *session, row Row, waiting []waitingRow, now scene) {
	one := j.parts[row.ID]
	one.tries++
	j.tellf("  %s starts %s on %s, try %d, session %d", s.by.name, one.name, s.line.name, one.tries, s.n)
	if one.visible.IsZero() {
		j.failf("a row that was rolled back is never done", "%s", one.name)
	}
	if !slices.ContainsFunc(waiting, func(w waitingRow) bool { return w.ID == row.ID && w.DueAt.Equal(row.DueAt) }) {
		j.failf("a row that was settled does not start again", "%s", one.name)
	}
	if s != s.line.sessions[len(s.line.sessions)-1] {
		j.failf("who has lost a lane starts nothing", "%s", one.name)
	}
	if row.DueAt.After(j.clock.Now()) {
		j.failf("no row starts before it is due", "%s", one.name)
	}
	if s.line.begins() && now.Begun < one.tries {
		j.failf("a row starts once its beginning is committed", "%s", one.name)
	}
	j.judgeBlock(s, row, now)
	if !row.Key.IsZero() {
		j.judgeKey(one, row, waiting)
	}
	one.by, one.under = s, row.DueAt
}

func (j *judge) judgeBlock(s *session, row Row, now scene) {
	on, at := s.line, j.clock.Now()
	if on.blockedUntil.After(at) && on.blockedAt.Before(began(row.taken)) {
		j.failf("no row of a blocked lane starts", "%s", j.parts[row.ID].name)
	}
	if on.work == settleAlone {
		return // a row that is settled has started before, and those are finished
	}
	if on.stoppedBy == s && (on.stoppedAt.IsZero() || on.stoppedAt.After(now.began)) {
		return // the block and the start came at the same time
	}
	if now.BlockedUntil != nil && now.BlockedUntil.After(at) && !now.BlockedUntil.Equal(on.blockedUntil) {
		j.failf("no row starts after its lane was blocked by a result", "%s", j.parts[row.ID].name)
	}
}

// judgeKey compares a row with those of the same key.
func (j *judge) judgeKey(one *part, row Row, waiting []waitingRow) {
	for _, w := range waiting {
		other := j.parts[w.ID]
		first := w.DueAt.Equal(other.DueAt)
		switch {
		case other == one:
		case other.by != nil && other.under.Equal(w.DueAt):
			j.failf("rows of one key do not overlap", "%s, %s is under way", one.name, other.name)
		case !first && one.line.rule == Hold:
			j.failf("a row that waits for its retry holds its key", "%s, %s waits", one.name, other.name)
		case !first || w.Priority != row.Priority || !other.visible.Before(began(row.taken)):
		case one.line.rule == Hold && !row.DueAt.Equal(one.DueAt):
		case byDue(other.Row, row) < 0:
			j.failf("rows of one key keep their order", "%s, %s is first", one.name, other.name)
		}
	}
	for _, other := range j.parts {
		if other.line == one.line && other.Key == row.Key && other.pacedUntil.After(j.clock.Now()) && isSettled(other, waiting) {
			j.failf("a key is held as long as asked", "%s, %s asked", one.name, other.name)
		}
	}
}

func isSettled(one *part, waiting []waitingRow) bool {
	return !slices.ContainsFunc(waiting, func(w waitingRow) bool { return w.ID == one.ID && w.DueAt.Equal(one.under) })
}

type sum struct {
	RowID   ids.Any
	Settled int
	Aside   bool
}

const sqlSums = `
SELECT row_id, sum(settled) AS settled, bool_or(aside) AS aside
FROM (
    SELECT row_id, 1 AS settled, false AS aside FROM play_notes WHERE note = 'settled'
    UNION ALL
    SELECT id, 0, true FROM lane_faults WHERE aside
) AS noted
GROUP BY row_id`

// verdict judges the end, when no row waits any more.
func (j *judge) verdict() {
	sums, err := postgres.Many[sum](j.ctx, j.db.System("judge"), sqlSums, nil)
	if err != nil {
		j.failf("the play itself", "%v", err)
	}
	byRow := make(map[ids.Any]sum, len(sums))
	for _, one := range sums {
		byRow[one.RowID] = one
	}
	for _, one := range j.parts {
		j.judgeEnd(one, byRow[one.ID])
	}
}

func (j *judge) judgeEnd(one *part, end sum) {
	wanted := 1
	if one.visible.IsZero() || end.Aside {
		wanted = 0
	}
	if one.line.settles() {
		if end.Settled != wanted {
			j.failf("a row is settled once", "%s: %d times, aside %t", one.name, end.Settled, end.Aside)
		}
	}
	if one.line.work != settleAlone && (one.finals < wanted || one.finals > wanted && !one.excused) {
		j.failf("a row is done once", "%s: %d times, aside %t, excused %t", one.name, one.finals, end.Aside, one.excused)
	}
	if end.Aside && j.calm && !slices.Contains(one.plan, fails) && !slices.Contains(one.plan, panics) &&
		!slices.Contains(one.plan, unsettled) && !slices.Contains(one.plan, unbeginning) {
		j.failf("only rows at fault are set aside", "%s", one.name)
	}
}

// began is when a watch was started.
func began(watch clock.Watch) time.Time { return time.Now().Add(-watch.Elapsed()) }
