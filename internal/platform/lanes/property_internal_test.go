package lanes

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/url"
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
)

// cast is who plays: drawn once for each play.
type cast struct {
	// Calm plays know no crash and no silence: then nothing but the engine's own looking
	// may be needed, and every row is done exactly once.
	Calm        bool
	Lanes       []laneOf
	Workers     int
	Least, Most int
}

type laneOf struct {
	Rule     Rule
	Work     workOf
	Pace     float64
	Unopened int
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
	starts    verb = "start"
	holds     verb = "block"
	lifts     verb = "unblock"
	crashes   verb = "crash"
	sweeps    verb = "sweep"
	watches   verb = "watch"
	takesOver verb = "take over"
	rescues   verb = "rescue"
)

type fate string

const (
	commits       fate = "commits"
	rollsBack     fate = "rolls back"
	rollsBackLate fate = "rolls back late"
)

type script []step

// GoString leaves it to the story what happens.
func (s script) GoString() string { return fmt.Sprintf("%d steps", len(s)) }

// step is one thing that happens.
type step struct {
	Do         verb
	Who, Which int
	Rows       []newRow
	Fate       fate
}

type newRow struct {
	Lane, Key, Priority int
	Due                 time.Duration
	Plan                []outcome
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

func casts(calm bool) *rapid.Generator[cast] {
	return rapid.Custom(func(t *rapid.T) cast {
		c := cast{Calm: calm, Workers: oneOf(8, 1, 40).Draw(t, "workers"), Least: oneOf(1, 4).Draw(t, "least")}
		c.Most = c.Least * oneOf(1, 3).Draw(t, "most")
		c.Lanes = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) laneOf {
			return laneOf{
				Rule: oneOf(Hold, Pass).Draw(t, "rule"), Work: oneOf(doOnly, doSettle, beginDo, beginToEnd, settleAlone).Draw(t, "work"),
				Pace: oneOf(0.0, 0, 0, 20).Draw(t, "pace"), Unopened: oneOf(0, 0, 0, 1).Draw(t, "unopened"),
			}
		}), 1, 3).Draw(t, "lanes")
		return c
	})
}

func newRows() *rapid.Generator[newRow] {
	return rapid.Custom(func(t *rapid.T) newRow {
		return newRow{
			Lane: upTo(2).Draw(t, "lane"), Key: oneOf(1, 1, 2, 0).Draw(t, "key"), Priority: oneOf(0, 0, 0, 1, 3).Draw(t, "priority"),
			Due: oneOf(0, 0, 0, -time.Second, time.Millisecond, 700*time.Millisecond, 30*time.Second, 10*time.Minute).Draw(t, "due"),
			Plan: rapid.SliceOfN(oneOf(
				goesWell, goesWell, goesWell, goesWell, goesWell, goesWell, goesWell, goesWell,
				retries, retries, retriesNow, fails, fails, panics, paces, paces, overloads, blocks, unsettled, unbeginning,
			), 0, 4).Draw(t, "plan"),
		}
	})
}

// weights say how often each thing happens.
func weights(calm bool) (verbs []verb) {
	often := map[verb]int{
		goesOn: 24, adds: 6, fetches: 4, passes: 4, races: 3, lifts: 2, starts: 2, flows: 1, jumps: 1, holds: 1, retires: 1,
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
			s.Fate = oneOf(commits, commits, commits, commits, rollsBack, rollsBackLate).Draw(t, "fate")
		}
		return s
	})
}

// theatre is the database of all plays of a test.
type theatre struct {
	url string
	org ids.Org
	// first is the story of the first play that went wrong: rapid may fail to repeat it.
	first string
}

func newTheatre(t *testing.T) *theatre {
	t.Helper()
	address, err := url.Parse(pgtest.URL(t))
	require.NoError(t, err)
	query := address.Query()
	query.Set("synchronous_commit", "off") // no play outlives the server
	address.RawQuery = query.Encode()
	w := worldOn(t, pgtest.Connect(t, address.String()), clock.NewManual(pgtest.Start()))
	_, err = postgres.InSystemTx(t.Context(), w.db, "test", func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(t.Context(), `CREATE TABLE play_notes (note text NOT NULL, row_id uuid NOT NULL)`, nil)
	})
	require.NoError(t, err)
	h := &theatre{url: address.String(), org: w.org}
	t.Cleanup(func() {
		if h.first != "" {
			t.Logf("the first play that went wrong:\n%s", h.first)
		}
	})
	return h
}

func (h *theatre) play(t *testing.T, calm bool) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		who := casts(calm).Draw(rt, "cast")
		length := oneOf(2, 5, 10, 20, 40, 60, 80, 80, 100, 100).Draw(rt, "length")
		script := rapid.Map(rapid.SliceOfN(steps(calm), length, length), func(all []step) script { return all }).Draw(rt, "script")
		rapid.SyncTest(rt, func(rt *rapid.T) {
			s := &stage{t: t, ctx: rt.Context(), url: h.url, org: h.org, cast: who, clock: clock.NewManual(pgtest.Start())}
			s.raise()
			defer s.strike()
			for _, one := range script {
				s.do(one)
				if s.failed() {
					break
				}
			}
			if !s.failed() {
				s.end()
			}
			if s.failed() {
				story := strings.Join(s.story, "\n")
				if h.first == "" {
					h.first = fmt.Sprintf("%+v\n%s", who, story)
				}
				rt.Logf("%s", story)
				rt.Fatalf("broken: %s", s.broken)
			}
		})
	})
}

// raise prepares the stage: an empty database, open lanes and the first process.
func (s *stage) raise() {
	s.db = s.connect("play")
	s.exec(`DELETE FROM lanes`, nil)
	for _, table := range []string{"lane_rows", "lane_keys", "lane_faults", "play_notes", "river.river_job"} {
		s.exec(`DELETE FROM `+table, nil)
	}
	s.judge = &judge{
		ctx: s.ctx, db: s.db, clock: s.clock, tellf: s.tellf, failf: s.failf, calm: s.cast.Calm,
		lines: map[ids.Any]*line{}, parts: map[ids.Any]*part{},
	}
	for i, lane := range s.cast.Lanes {
		on := &line{
			Lane: Lane{ID: playID(1, i), Org: s.org, Kind: kindOf(lane.Rule)}, name: fmt.Sprintf("L%d", i),
			rule: lane.Rule, work: lane.Work, pace: lane.Pace, unopened: lane.Unopened, operator: make(chan struct{}, 1),
		}
		s.lines = append(s.lines, on)
		s.tellf("%s: %s, %s", on.name, on.Kind, on.work)
		s.judge.lines[on.ID] = on
		s.exec(`INSERT INTO lanes (lane_id, org_id, kind) VALUES (@lane, @org, @kind)`,
			postgres.Args{"lane": on.ID, "org": s.org, "kind": on.Kind})
	}
	s.begin()
}

// strike takes everything down: a play must leave no goroutine behind.
func (s *stage) strike() {
	for len(s.living) > 0 {
		s.crash(s.living[0])
	}
	time.Sleep(time.Second)
	s.db.Close()
}

// playID is an id whose order has nothing to do with when it was made.
func playID(noun byte, n int) (id ids.Any) {
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

func (s *stage) do(one step) {
	time.Sleep(time.Microsecond) // no two steps happen at the same time
	s.tellf("%s %d %d", one.Do, one.Who, one.Which)
	p := s.anyone(one.Who)
	on := s.lines[one.Which%len(s.lines)]
	switch one.Do {
	case adds:
		if len(p.gate.waiting()) > 6 { // a process has so many connections
			s.flow(p)
		}
		s.add(p, s.newParts(one.Rows), one.Fate)
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
	case starts:
		if len(s.living) < 4 {
			s.begin()
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

func (s *stage) passBy(one step) {
	spans := []time.Duration{6 * time.Millisecond, 60 * time.Millisecond, 150 * time.Millisecond, 1200 * time.Millisecond, 6 * time.Second}
	if s.cast.Calm {
		spans = spans[:4]
	}
	s.pass(spans[one.Which%len(spans)], everyone)
}

// goOn lets some of those that wait go on, at once.
func (s *stage) goOn(which, many int) {
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
		s.tellf("  %s goes on: %s", at.p.name, at.stop.what)
		at.p.gate.release(at.stop)
	}
	s.rest()
}

func (s *stage) newParts(rows []newRow) (parts []*part) {
	s.judge.mu.Lock()
	defer s.judge.mu.Unlock()
	for _, row := range rows {
		s.added++
		one := &part{name: fmt.Sprintf("r%d", s.added), line: s.lines[row.Lane%len(s.lines)], plan: row.Plan}
		one.Row = Row{ID: playID(2, s.added), Priority: row.Priority, DueAt: s.clock.Now().Add(row.Due)}
		if row.Key > 0 {
			one.Key = playID(3, row.Key)
		}
		s.tellf("  %s: %s, key %d, priority %d, due %s, %v", one.name, one.line.name, row.Key, row.Priority, row.Due, row.Plan)
		s.judge.parts[one.ID] = one
		parts = append(parts, one)
	}
	return parts
}

func TestNoWakeUpIsLost(t *testing.T) {
	t.Parallel()
	newTheatre(t).play(t, true)
}

func TestNothingIsLostInACrash(t *testing.T) {
	t.Parallel()
	newTheatre(t).play(t, false)
}
