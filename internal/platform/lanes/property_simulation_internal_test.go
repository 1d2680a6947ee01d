package lanes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// simulation is where one run is played: a real database, processes that share nothing else,
// and a time of its own in which only the test lets it pass (testing/synctest: waiting for
// the database keeps the time from passing, waiting for a gate does not).
type simulation struct {
	t      *testing.T
	ctx    context.Context //nolint:containedctx // that of the run
	cancel context.CancelFunc
	url    string
	org    ids.Org
	config config

	db      *postgres.DB // the test's own, which nothing stops
	clock   *clock.Manual
	checker *checker
	lanes   []*simLane
	living  []*process
	begun   int
	added   int
	quiet   bool

	mu     sync.Mutex
	log    []string
	broken string // the first rule that was broken
}

func (s *simulation) logf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

func (s *simulation) failf(rule, format string, args ...any) {
	s.logf("BROKEN: "+rule+": "+format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == "" {
		s.broken = rule
	}
}

func (s *simulation) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken != ""
}

func (s *simulation) must(err error) {
	if err != nil {
		s.failf("the simulation itself", "%v", err)
	}
}

// rest waits until every goroutine stands at a gate, waits for time to pass, or is gone.
func (s *simulation) rest() { synctest.Wait() }

// anyone is a living process that is not retiring.
func (s *simulation) anyone(who int) *process {
	var able []*process
	for _, p := range s.living {
		if !p.retiring {
			able = append(able, p)
		}
	}
	if len(able) == 0 {
		return s.startProcess()
	}
	return able[who%len(able)]
}

var errRolledBack = errors.New("rolled back")

// add adds rows by a transaction that commits or rolls back.
func (s *simulation) add(p *process, rows []*simRow, how commit) {
	ctx := onCommit(p.ctx, func() { s.checker.committed(rows) })
	go func() {
		_, err := postgres.InTx(ctx, p.db, s.org, func(tx *postgres.Tx) (struct{}, error) {
			for _, one := range rows {
				if err := p.lanes.AddTx(ctx, tx, one.lane.Kind, one.lane.ID, one.Row); err != nil {
					return struct{}{}, err
				}
			}
			if how == rollsBackLate { // after the lanes were armed
				tx.BeforeCommit(func(context.Context) error { return errRolledBack })
			}
			if how == rollsBack {
				return struct{}{}, errRolledBack
			}
			return struct{}{}, nil
		})
		if err != nil && !errors.Is(err, errRolledBack) && s.config.Calm {
			s.failf("adding works", "%v", err)
		}
	}()
}

func (s *simulation) block(p *process, on *simLane, until time.Time) {
	ctx := onCommit(p.ctx, func() { s.checker.blocked(on, until) })
	go func() {
		on.operator <- struct{}{}
		defer func() { <-on.operator }()
		_, err := postgres.InTx(ctx, p.db, s.org, func(tx *postgres.Tx) (struct{}, error) {
			return struct{}{}, p.lanes.BlockTx(ctx, tx, on.ID, until)
		})
		if s.config.Calm {
			s.must(err)
		}
	}()
}

func (s *simulation) unblock(ctx context.Context, p *process, on *simLane) {
	ctx = onCommit(ctx, func() { s.checker.blocked(on, time.Time{}) })
	go func() {
		on.operator <- struct{}{}
		defer func() { <-on.operator }()
		_, err := postgres.InTx(ctx, p.db, s.org, func(tx *postgres.Tx) (struct{}, error) {
			return struct{}{}, p.lanes.UnblockTx(ctx, tx, on.Kind, on.ID)
		})
		if s.config.Calm {
			s.must(err)
		}
	}()
}

// release lets one goroutine go on to its next statement.
func (s *simulation) release(p *process, one *stop) {
	s.logf("  %s goes on: %s", p.name, one.what)
	p.gate.release(one)
	s.rest()
}

// flow lets a process go on until it has nothing more to do now.
func (s *simulation) flow(p *process) {
	for range 200 {
		stops := p.gate.waiting()
		if len(stops) == 0 || s.failed() {
			return
		}
		s.release(p, stops[0])
	}
	s.failf("a process comes to rest", "%s", p.name)
}

// flowAll lets every process go on, one step at a time, until all have come to rest.
func (s *simulation) flowAll() {
	s.rest()
	for range 2_000 {
		moved := false
		for _, p := range s.living {
			if stops := p.gate.waiting(); len(stops) > 0 {
				s.release(p, stops[0])
				moved = true
			}
		}
		if !moved || s.failed() {
			return
		}
	}
	s.failf("all processes come to rest", "")
}

// pass lets time pass, by every clock, while some processes tell that they are alive.
func (s *simulation) pass(span time.Duration, beating func(*process) bool) {
	for left := span; left > 0; {
		piece := min(left, beatEvery)
		left -= piece
		time.Sleep(piece)
		s.clock.Move(piece)
		if s.rest(); s.quiet {
			s.flowAll()
		} else if s.config.Calm {
			s.hurry()
		}
		for _, p := range s.living {
			if beating(p) {
				if err := p.beat(); err != nil && s.config.Calm {
					s.must(err)
				}
				s.rest()
			}
		}
	}
}

func everyone(*process) bool { return true }

// hurry lets statements go on before somebody gives up waiting for them, which in a calm
// run nobody does.
func (s *simulation) hurry() {
	for _, p := range s.living {
		for _, one := range p.gate.waiting() {
			if time.Since(one.since) > 2*time.Second {
				s.release(p, one)
			}
		}
	}
}

// takeOver has a process's watchdog look, wait and look again while the others are silent,
// though they may do a few things at the last moment.
func (s *simulation) takeOver(p *process, lastMoment func()) {
	alone := func(other *process) bool { return other == p }
	s.watch(p)
	s.pass(deadAfter-time.Second, alone)
	lastMoment()
	s.pass(2*time.Second, alone)
	s.watch(p)
}

func (s *simulation) watch(p *process) {
	if err := p.dog.look(unstopped(p.ctx)); err != nil {
		s.logf("  the watchdog of %s: %v", p.name, err)
	}
	s.rest()
}
