package lanes

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// scripts are single histories in which one rule of the contract decides. The random runs meet
// each of them too, but not in every run.
var scripts = map[string]struct {
	calm bool
	lane laneConfig
	rows []newRow
	run  func(s *simulation, p *process)
}{
	"a row that is begun too long ago is not called": {calm: true, lane: ledgerLane, rows: one(), run: func(s *simulation, p *process) {
		s.runTo(p, "before the call of r1")
		s.pass(1500*time.Millisecond, everyone)
	}},
	"a row of a lane that is blocked after its begin is not called": {calm: true, lane: ledgerLane, rows: one(), run: func(s *simulation, p *process) {
		s.runTo(p, "before the call of r1")
		s.block(s.startProcess(), s.lanes[0], s.clock.Now().Add(time.Minute))
		s.runOthers(p)
		s.pass(500*time.Millisecond, everyone)
	}},
	"a call that panics is settled as unknown": {calm: true, lane: ledgerLane, rows: one(panics), run: run},
	"a call that hangs is settled as unknown":  {calm: true, lane: ledgerLane, rows: one(hangs), run: run},
	"a call that is cut off is settled as unknown": {calm: true, lane: ledgerLane, rows: one(), run: func(s *simulation, p *process) {
		s.runTo(p, "call r1")
		s.do(step{Do: cutsOff})
	}},
	"a row that is cut off before its call is not called": {calm: true, lane: ledgerLane, rows: one(), run: func(s *simulation, p *process) {
		s.runTo(p, "before the call of r1")
		s.do(step{Do: cutsOff})
	}},
	"a row that Begin answers is not called": {calm: true, lane: ledgerLane, rows: one(refused), run: run},
	"an attempt that a death left open is not called again": {lane: ledgerLane, rows: one(), run: func(s *simulation, p *process) {
		s.runTo(p, "call r1")
		s.crash(p)
	}},
	"a row that keeps panicking is handed to its kind":   {calm: true, lane: ledgerLane, rows: one(panics, panics, panics), run: run},
	"a row that cannot be settled is settled as unknown": {calm: true, lane: ledgerLane, rows: one(cannotSettle), run: run},
	"a hand-over that fails leaves the row aside": {
		calm: true, lane: laneConfig{Rule: Hold, Work: withLedger, AsideFails: true}, rows: one(panics, panics, panics), run: run,
	},
	"rows behind a held key keep their order": {
		calm: true, lane: laneConfig{Rule: Hold, Work: callSettle}, run: run,
		rows: []newRow{{Key: 1, Plan: []plan{retries, retries}}, {Key: 1}, {Key: 1}, {Key: 2}, {Key: 1, Priority: 1}, {Key: 1}},
	},
	"a new row waits behind the parked rows of its key": {
		calm: true, lane: laneConfig{Rule: Hold, Work: callSettle},
		rows: []newRow{{Key: 1, Due: -3 * time.Second, Plan: []plan{retries}}, {Key: 1, Due: -2 * time.Second}, {Key: 1, Due: -time.Second}},
		run: func(s *simulation, p *process) {
			s.flow(p)
			s.pass(time.Second, everyone)
			s.flow(p)
			s.clock.Move(time.Minute)
			s.fetch(p, 10)
			s.rest()
			s.runTo(p, "call r2")
			s.add(s.startProcess(), s.newSimRows([]newRow{{Key: 1}}), commits)
			s.runOthers(p)
			s.pass(200*time.Millisecond, everyone)
			s.releaseAll(p, "take L0")
			s.releaseAll(p, "fence L0")
		},
	},
}

var ledgerLane = laneConfig{Rule: Pass, Work: withLedger}

func one(plan ...plan) []newRow { return []newRow{{Plan: plan}} }

func run(*simulation, *process) {}

func TestProperty_Scripts(t *testing.T) {
	t.Parallel()
	h := newSimDatabase(t)
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				with := config{Calm: script.calm, Lanes: []laneConfig{script.lane}, Workers: 8, Least: 4, Most: 4}
				s := h.run(t, t.Context(), with, func(s *simulation) {
					p := s.living[0]
					s.add(p, s.newSimRows(script.rows), commits)
					s.rest()
					script.run(s, p)
				})
				if s.failed() {
					t.Fatalf("broken: %s\n%s", s.broken, strings.Join(s.log, "\n"))
				}
			})
		})
	}
}

// runTo lets a process go on until it stops at what.
func (s *simulation) runTo(p *process, what string) {
	for range 200 {
		stops := p.gate.waiting()
		if slices.ContainsFunc(stops, func(one *stop) bool { return one.what == what }) {
			return
		}
		if len(stops) == 0 || s.failed() {
			break
		}
		s.release(p, stops[len(stops)-1])
	}
	s.failf("the simulation itself", "%s never stops at %q", p.name, what)
}

// releaseAll lets a process go on at all stops of one name.
func (s *simulation) releaseAll(p *process, what string) {
	for _, stop := range p.gate.waiting() {
		if stop.what == what {
			s.release(p, stop)
		}
	}
}

// runOthers lets all other processes go on until they have come to rest.
func (s *simulation) runOthers(p *process) {
	s.rest()
	for _, other := range s.living {
		if other != p {
			s.flow(other)
		}
	}
}
