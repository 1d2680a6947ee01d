package lanes

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// gate stops every statement of a process until the test lets it go on. What lies between
// two statements is then one step, and the test decides how the steps of several processes
// fall. It also is where a process dies: no code of it runs after.
type gate struct {
	// overtaken is told of lanes that a watchdog gives to somebody else.
	overtaken func(lanes []ids.Any)
	// nameOf is what the log calls a lane.
	nameOf func(lane ids.Any) string

	mu      sync.Mutex
	open    bool
	dead    bool
	holding map[*pgx.Conn]bool
	stops   []*stop
}

// stop is a goroutine that waits to be let go.
type stop struct {
	what  string
	since time.Time
	free  chan struct{}
}

type (
	unstoppedKey struct{}
	committedKey struct{}
)

// unstopped lets the statements under ctx pass every gate.
func unstopped(ctx context.Context) context.Context {
	return context.WithValue(ctx, unstoppedKey{}, true)
}

// onCommit has the gate report that a transaction under ctx was committed, also when its
// process dies of hearing so.
func onCommit(ctx context.Context, report func()) context.Context {
	return context.WithValue(ctx, committedKey{}, report)
}

// statements are the ones that the log calls by name.
func statements() map[string]string {
	return map[string]string{
		sqlTake: "take", sqlSettle: "settle", sqlFence: "fence", sqlAdd: "add", sqlAddOne: "add", sqlArm: "arm", sqlArmOne: "arm", sqlLook: "look",
		sqlLock: "lock", sqlSetTimers: "set timers", sqlOutcome: "outcome", sqlPark: "park", sqlArmByTimer: "arm by timer",
		sqlSweep: "sweep", sqlForget: "forget", sqlBeat: "beat",
		sqlOverdue: "overdue", sqlTakeOver: "take over", sqlBlock: "block", sqlUnblock: "unblock", sqlHurry: "hurry", sqlSuspect: "suspect",
		sqlKnownFaults: "known faults", sqlRecordFaults: "record faults",
	}
}

// locking are those after which others wait for the transaction: it is not stopped any
// more, or they would wait in the database, where the test cannot see them.
var locking = []string{"settle", "fence", "arm", "lock", "set timers", "arm by timer", "take over", "block", "unblock", "suspect", "park"}

var named = statements()

func nameOf(sql string) string {
	if name, known := named[sql]; known {
		return name
	}
	word, _, _ := strings.Cut(strings.TrimSpace(sql), " ")
	return strings.ToLower(strings.TrimSuffix(word, ";"))
}

func (g *gate) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	name := nameOf(data.SQL)
	if name == "begin" || name == "rollback" || name == "beat" {
		return ctx // others cannot tell when it happens
	}
	if g.holds(conn) {
		g.dieIfDead()
	} else {
		g.stop(ctx, name+g.about(data.Args))
	}
	if name == "take over" {
		g.overtaken(lanesOf(data.Args))
	}
	if conn.PgConn().TxStatus() == 'T' && slices.Contains(locking, name) {
		g.hold(conn, true)
	}
	return context.WithValue(ctx, nameKey{}, name)
}

type nameKey struct{}

// about says which lanes a statement is about.
func (g *gate) about(args []any) (names string) {
	for _, lane := range lanesOf(args) {
		names += " " + g.nameOf(lane)
	}
	return names
}

func lanesOf(args []any) []ids.Any {
	if len(args) == 0 {
		return nil
	}
	given, _ := args[0].(postgres.Args)
	if lane, one := given["lane_id"].(ids.Any); one {
		return []ids.Any{lane}
	}
	lanes, _ := given["lanes"].([]ids.Any)
	return lanes
}

func (g *gate) TraceQueryEnd(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryEndData) {
	name, _ := ctx.Value(nameKey{}).(string)
	if conn.PgConn().TxStatus() == 'I' {
		g.hold(conn, false)
	}
	if report, asked := ctx.Value(committedKey{}).(func()); asked && name == "commit" && data.Err == nil {
		report()
	}
}

// TraceBatchStart stops a commit that takes rows with it.
func (g *gate) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	if g.holds(conn) {
		g.dieIfDead()
	} else {
		first := data.Batch.QueuedQueries[0]
		g.stop(ctx, nameOf(first.SQL)+" and commit"+g.about(first.Arguments))
	}
	return ctx
}

func (g *gate) TraceBatchQuery(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	if report, asked := ctx.Value(committedKey{}).(func()); asked && data.SQL == "commit" && data.Err == nil {
		report()
	}
}

func (g *gate) TraceBatchEnd(_ context.Context, conn *pgx.Conn, _ pgx.TraceBatchEndData) {
	if conn.PgConn().TxStatus() == 'I' {
		g.hold(conn, false)
	}
}

func (g *gate) holds(conn *pgx.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.holding[conn]
}

func (g *gate) hold(conn *pgx.Conn, holds bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if holds {
		g.holding[conn] = true
	} else {
		delete(g.holding, conn)
	}
}

// dieIfDead ends the goroutine, as the death of its process would.
func (g *gate) dieIfDead() {
	g.mu.Lock()
	dead := g.dead
	g.mu.Unlock()
	if dead {
		runtime.Goexit()
	}
}

// stop waits until the goroutine may go on, or does not want to wait any longer.
func (g *gate) stop(ctx context.Context, what string) {
	g.dieIfDead()
	if ctx.Value(unstoppedKey{}) != nil {
		return
	}
	if here := g.arrive(what); here != nil {
		select {
		case <-here.free:
		case <-ctx.Done():
			g.leave(here)
		}
	}
	g.dieIfDead()
}

func (g *gate) arrive(what string) *stop {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open {
		return nil
	}
	here := &stop{what: what, since: time.Now(), free: make(chan struct{})}
	g.stops = append(g.stops, here)
	return here
}

func (g *gate) leave(here *stop) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stops = slices.DeleteFunc(g.stops, func(one *stop) bool { return one == here })
}

// waiting are those that stand here, in an order that does not depend on which of several
// goroutines happened to run first.
func (g *gate) waiting() []*stop {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.SortedStableFunc(slices.Values(g.stops), func(a, b *stop) int { return strings.Compare(a.what, b.what) })
}

func (g *gate) release(one *stop) {
	g.leave(one)
	close(one.free)
}

// openUp stops nobody any more.
func (g *gate) openUp() {
	g.mu.Lock()
	g.open = true
	g.mu.Unlock()
	for _, one := range g.waiting() {
		g.release(one)
	}
}

func (g *gate) kill() {
	g.mu.Lock()
	g.dead = true
	g.mu.Unlock()
	g.openUp()
}

func (g *gate) alive() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.dead
}
