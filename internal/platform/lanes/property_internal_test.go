package lanes

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/proof"
)

// config is who runs: drawn once for each run.
type config struct {
	// Calm runs know no crash and no silence: then nothing but the engine's own looking
	// may be needed, and every row is done exactly once.
	Calm        bool
	Lanes       []laneConfig
	Workers     int
	Least, Most int
}

type laneConfig struct {
	Rule       Rule
	Work       workShape
	Pace       float64
	OpenFails  int
	AsideFails bool
}

type verb string

const (
	adds      verb = "add"
	fetches   verb = "fetch"
	goesOn    verb = "go on"
	flows     verb = "flow"
	races     verb = "race"
	passes    verb = "pass"
	jumps     verb = "jump"
	retires   verb = "retire"
	cutsOff   verb = "cut off"
	starts    verb = "start"
	holds     verb = "block"
	lifts     verb = "unblock"
	crashes   verb = "crash"
	sweeps    verb = "sweep"
	watches   verb = "watch"
	takesOver verb = "take over"
	rescues   verb = "rescue"
)

type commit string

const (
	commits       commit = "commits"
	rollsBack     commit = "rolls back"
	rollsBackLate commit = "rolls back late"
)

type script []step

// GoString is short: the log tells what happens.
func (s script) GoString() string { return fmt.Sprintf("%d steps", len(s)) }

// step is one thing that happens.
type step struct {
	Do         verb
	Who, Which int
	Rows       []newRow
	Commit     commit
}

type newRow struct {
	Lane, Key, Priority int
	Due                 time.Duration
	Plan                []plan
}

// oneOf draws each of the values equally often: rapid's own generators prefer the first ones.
func oneOf[T any](values ...T) *rapid.Generator[T] {
	return rapid.Custom(func(t *rapid.T) T {
		at := 0
		for range 8 {
			at *= 2
			if rapid.Bool().Draw(t, "half") {
				at++
			}
		}
		return values[at*len(values)/256]
	})
}

func upTo(most int) *rapid.Generator[int] {
	numbers := make([]int, most+1)
	for i := range numbers {
		numbers[i] = i
	}
	return oneOf(numbers...)
}

func configs(calm bool) *rapid.Generator[config] {
	return rapid.Custom(func(t *rapid.T) config {
		c := config{Calm: calm, Workers: oneOf(8, 1, 40).Draw(t, "workers"), Least: oneOf(1, 4).Draw(t, "least")}
		c.Most = c.Least * oneOf(1, 3).Draw(t, "most")
		c.Lanes = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) laneConfig {
			return laneConfig{
				Rule: oneOf(Hold, Pass).Draw(t, "rule"), Work: oneOf(callOnly, callSettle, withLedger, withLedger, withLedger, settleOnly).Draw(t, "work"),
				Pace: oneOf(0.0, 0, 0, 20).Draw(t, "pace"), OpenFails: oneOf(0, 0, 0, 1).Draw(t, "open fails"),
				AsideFails: oneOf(false, false, false, true).Draw(t, "aside fails"),
			}
		}), 1, 3).Draw(t, "lanes")
		return c
	})
}

func newRows() *rapid.Generator[newRow] {
	return rapid.Custom(func(t *rapid.T) newRow {
		return newRow{
			Lane: upTo(2).Draw(t, "lane"), Key: oneOf(1, 1, 2, 0).Draw(t, "key"), Priority: oneOf(0, 0, 0, 1, 1).Draw(t, "priority"),
			Due: oneOf(0, 0, 0, -time.Second, time.Millisecond, 700*time.Millisecond, 30*time.Second, 10*time.Minute).Draw(t, "due"),
			Plan: rapid.SliceOfN(oneOf(
				succeeds, succeeds, succeeds, succeeds, succeeds, succeeds, succeeds, succeeds, succeeds,
				retries, retries, retriesNow, faults, faults, panics, hangs, paces, paces, overloads, blocks, cannotSettle, cannotBegin, refused,
			), 0, 4).Draw(t, "plan"),
		}
	})
}

// weights say how often each thing happens.
func weights(calm bool) (verbs []verb) {
	often := map[verb]int{
		goesOn: 24, adds: 6, fetches: 4, passes: 4, races: 3, lifts: 2, starts: 2, flows: 1, jumps: 1, holds: 1, retires: 1, cutsOff: 1,
	}
	if !calm {
		maps.Copy(often, map[verb]int{crashes: 3, takesOver: 4, sweeps: 2, watches: 1, rescues: 1})
	}
	for _, one := range slices.Sorted(maps.Keys(often)) {
		verbs = append(verbs, slices.Repeat([]verb{one}, often[one])...)
	}
	return verbs
}

func steps(calm bool) *rapid.Generator[step] {
	verbs := weights(calm)
	return rapid.Custom(func(t *rapid.T) step {
		s := step{Do: oneOf(verbs...).Draw(t, "do"), Who: upTo(3).Draw(t, "who"), Which: upTo(11).Draw(t, "which")}
		if s.Do == adds {
			s.Rows = rapid.SliceOfN(newRows(), 1, 4).Draw(t, "rows")
			s.Commit = oneOf(commits, commits, commits, commits, rollsBack, rollsBackLate).Draw(t, "commit")
		}
		return s
	})
}

// simDatabase is the database of all runs of a test.
type simDatabase struct {
	url string
	org ids.Org
	// first is the log of the first run that failed: rapid may be unable to repeat it.
	first string
}

func newSimDatabase(t *testing.T) *simDatabase {
	t.Helper()
	address, err := url.Parse(pgtest.URL(t))
	require.NoError(t, err)
	query := address.Query()
	query.Set("synchronous_commit", "off") // no run outlives the server
	address.RawQuery = query.Encode()
	f := fixtureOn(t, pgtest.Connect(t, address.String()), clock.NewManual(pgtest.Start()))
	_, err = postgres.InSystemTx(t.Context(), f.db, "test", func(tx *postgres.Tx) (int64, error) {
		_, err := tx.Exec(t.Context(), `CREATE TABLE sim_notes (note text NOT NULL, row_id uuid NOT NULL)`, nil)
		if err != nil {
			return 0, err
		}
		return tx.Exec(t.Context(), `CREATE TABLE sim_attempts (
			row_id uuid NOT NULL, n int NOT NULL, settled int NOT NULL DEFAULT 0, outcome int, PRIMARY KEY (row_id, n))`, nil)
	})
	require.NoError(t, err)
	h := &simDatabase{url: address.String(), org: f.org}
	t.Cleanup(func() {
		if h.first != "" {
			t.Logf("the first run that failed:\n%s", h.first)
		}
	})
	return h
}

// The scripts that are drawn in CI are the same each time: a change that breaks one turns CI red.
// `make proof-lanes` draws others each time, and finds what was wrong before.
func TestMain(m *testing.M) {
	if !proof.Full() {
		for name, value := range map[string]string{"rapid.seed": "1", "rapid.checks": "60"} {
			if err := flag.Set(name, value); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}

// check runs drawn scripts.
func (h *simDatabase) check(t *testing.T, calm bool) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		with := configs(calm).Draw(rt, "config")
		length := oneOf(2, 5, 10, 20, 40, 60, 80, 80, 100, 100).Draw(rt, "length")
		drawn := rapid.Map(rapid.SliceOfN(steps(calm), length, length), func(all []step) script { return all }).Draw(rt, "script")
		rapid.SyncTest(rt, func(rt *rapid.T) {
			s := h.run(t, rt.Context(), with, func(s *simulation) {
				for _, one := range drawn {
					if s.do(one); s.failed() {
						return
					}
				}
			})
			if s.failed() {
				rt.Logf("%s", strings.Join(s.log, "\n"))
				rt.Fatalf("broken: %s", s.broken)
			}
		})
	})
}

// run runs one history and then lets everything end.
func (h *simDatabase) run(t *testing.T, ctx context.Context, with config, history func(s *simulation)) *simulation { //nolint:revive // t first, as in helpers
	t.Helper()
	s := &simulation{t: t, url: h.url, org: h.org, config: with, clock: clock.NewManual(pgtest.Start())}
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.setUp()
	defer s.tearDown()
	if history(s); !s.failed() {
		s.end()
	}
	if s.failed() && h.first == "" {
		h.first = fmt.Sprintf("%+v\n%s", with, strings.Join(s.log, "\n"))
	}
	return s
}

// setUp empties the database, opens the lanes and starts the first process.
func (s *simulation) setUp() {
	s.db = s.connect("simulation")
	s.exec(`DELETE FROM lanes`, nil)
	for _, table := range []string{"lane_rows", "lane_keys", "lane_faults", "sim_notes", "sim_attempts", "river.river_job"} {
		s.exec(`DELETE FROM `+table, nil)
	}
	s.checker = &checker{
		ctx: s.ctx, db: s.db, clock: s.clock, logf: s.logf, failf: s.failf, calm: s.config.Calm,
		lanes: map[ids.Any]*simLane{}, rows: map[ids.Any]*simRow{},
	}
	for i, lane := range s.config.Lanes {
		on := &simLane{
			Lane: Lane{ID: simID(1, i), Org: s.org, Kind: kindOf(lane.Rule)}, name: fmt.Sprintf("L%d", i),
			rule: lane.Rule, work: lane.Work, pace: lane.Pace, openFails: lane.OpenFails, asideFails: lane.AsideFails,
			operator: make(chan struct{}, 1),
		}
		s.lanes = append(s.lanes, on)
		s.logf("%s: %s, %s", on.name, on.Kind, on.work)
		s.checker.lanes[on.ID] = on
		s.exec(`INSERT INTO lanes (lane_id, org_id, kind) VALUES (@lane, @org, @kind)`,
			postgres.Args{"lane": on.ID, "org": s.org, "kind": on.Kind})
	}
	s.startProcess()
}

// tearDown ends everything: a run must leave no goroutine behind.
func (s *simulation) tearDown() {
	s.cancel()
	for len(s.living) > 0 {
		s.crash(s.living[0])
	}
	time.Sleep(time.Second)
	s.db.Close()
}

// simID is an id whose order has nothing to do with when it was made.
func simID(noun byte, n int) (id ids.Any) {
	var raw [16]byte
	raw[0] = noun
	binary.BigEndian.PutUint32(raw[4:], uint32(n)*2_654_435_769)
	binary.BigEndian.PutUint32(raw[12:], uint32(n))
	text := fmt.Sprintf("%x-%x-%x-%x-%x", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:])
	if err := id.UnmarshalText([]byte(text)); err != nil {
		panic(err)
	}
	return id
}

func (s *simulation) do(one step) {
	time.Sleep(time.Microsecond) // no two steps happen at the same time
	s.logf("%s %d %d", one.Do, one.Who, one.Which)
	p := s.anyone(one.Who)
	on := s.lanes[one.Which%len(s.lanes)]
	switch one.Do {
	case adds:
		if len(p.gate.waiting()) > 6 { // a process has so many connections
			s.flow(p)
		}
		s.add(p, s.newSimRows(one.Rows), one.Commit)
	case fetches:
		s.fetch(p, 1+one.Which%3)
	case goesOn:
		for range 1 + one.Who {
			s.goOn(one.Which, 1)
		}
	case races:
		s.goOn(one.Which, 2+one.Who)
	case flows:
		s.flow(s.living[one.Who%len(s.living)])
	case passes:
		s.passBy(one)
	case jumps:
		s.clock.Move([]time.Duration{time.Millisecond, 5 * time.Second, time.Minute, 11 * time.Minute}[one.Which%4])
	case retires:
		p.retire()
	case cutsOff:
		p.retire()
		s.checker.died(p)
		p.engine.cut()
	case starts:
		if len(s.living) < 4 {
			s.startProcess()
		}
	case holds:
		until := []time.Time{s.clock.Now().Add(time.Second), s.clock.Now().Add(time.Minute), Forever()}[one.Who%3]
		s.block(p, on, until)
	case lifts:
		s.unblock(p.ctx, p, on)
	case crashes:
		s.crash(s.living[one.Who%len(s.living)])
	case sweeps:
		go func() { _ = p.lanes.Sweep(p.ctx) }()
	case watches:
		s.watch(p)
	case takesOver:
		s.takeOver(p, func() {
			for range one.Which % 4 {
				s.goOn(one.Which, 1)
			}
		})
	case rescues:
		s.rescue()
	}
	s.rest()
}

func (s *simulation) passBy(one step) {
	spans := []time.Duration{6 * time.Millisecond, 60 * time.Millisecond, 150 * time.Millisecond, 1200 * time.Millisecond, 6 * time.Second}
	if s.config.Calm {
		spans = spans[:4]
	}
	s.pass(spans[one.Which%len(spans)], everyone)
}

// goOn lets some of those that wait go on, at once.
func (s *simulation) goOn(which, many int) {
	type place struct {
		p    *process
		stop *stop
	}
	var places []place
	for _, p := range s.living {
		for _, one := range p.gate.waiting() {
			places = append(places, place{p, one})
		}
	}
	for i := range min(many, len(places)) {
		at := places[(which+i)%len(places)]
		s.logf("  %s goes on: %s", at.p.name, at.stop.what)
		at.p.gate.release(at.stop)
	}
	s.rest()
}

func (s *simulation) newSimRows(rows []newRow) (made []*simRow) {
	s.checker.mu.Lock()
	defer s.checker.mu.Unlock()
	for _, row := range rows {
		s.added++
		one := &simRow{name: fmt.Sprintf("r%d", s.added), lane: s.lanes[row.Lane%len(s.lanes)], plan: row.Plan, called: map[int]bool{}}
		one.Row = Row{ID: simID(2, s.added), Priority: row.Priority, DueAt: s.clock.Now().Add(row.Due)}
		if row.Key > 0 {
			one.Key = simID(3, row.Key)
		}
		s.logf("  %s: %s, key %d, priority %d, due %s, %v", one.name, one.lane.name, row.Key, row.Priority, row.Due, row.Plan)
		s.checker.rows[one.ID] = one
		made = append(made, one)
	}
	return made
}

// Without a crash no wake-up is lost, and every row succeeds once.
func TestProperty_Calm(t *testing.T) {
	t.Parallel()
	newSimDatabase(t).check(t, true)
}

// A crash repeats only rows that were under way, and loses none.
func TestProperty_Crashes(t *testing.T) {
	t.Parallel()
	newSimDatabase(t).check(t, false)
}
