package lanes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/rivertype"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/schema"
)

// process is one process of the cell: it adds, drains and watches, with a pool of its own
// behind a gate.
type process struct {
	name   string
	gate   *gate
	db     *postgres.DB
	lanes  *Lanes
	engine *Engine
	dog    *watchdog
	pulses map[*session]pulse
	// lastBeat is when the process last heard of its lanes.
	lastBeat time.Time
	// retiring processes end what they have and begin nothing.
	retiring bool

	ctx    context.Context //nolint:containedctx // the life of the process
	cancel context.CancelFunc
}

func (s *simulation) startProcess() *process {
	s.begun++
	p := &process{
		name: fmt.Sprintf("P%d", s.begun), pulses: map[*session]pulse{},
		gate: &gate{overtaken: s.checker.overtaken, nameOf: s.checker.nameOf, holding: map[*pgx.Conn]bool{}},
	}
	p.ctx, p.cancel = context.WithCancel(s.ctx)
	p.db = s.connect(p.name, p.gate)
	queue, err := jobs.NewQueue(p.db, s.clock, slog.New(slog.DiscardHandler))
	s.must(err)
	p.lanes = New(p.db, queue, s.clock, slog.New(slog.DiscardHandler))
	for _, rule := range []Rule{Hold, Pass} {
		Register(p.lanes, testKind{
			Name: kindOf(rule), Retries: rule, Workers: s.config.Workers, SlowWorkers: s.config.Workers,
			Least: s.config.Least, Most: s.config.Most, Timeout: 5 * time.Second, SetAside: s.checker.setAside,
			Open: func(ctx context.Context, lane Lane) (testWork, error) { return s.checker.open(ctx, p, lane) },
		})
	}
	p.engine = NewEngine(p.lanes, p.db)
	p.engine.gate = newFairGate(1000) // a transaction that the test stops must not keep others from their stops
	p.engine.beforeCall = func(ctx context.Context, row Row) { s.checker.beforeCall(ctx, p, row) }
	p.lanes.engine.Store(p.engine)
	p.dog = &watchdog{e: p.engine, seen: map[ids.Any]sighting{}}
	s.living = append(s.living, p)
	return p
}

func kindOf(rule Rule) string {
	if rule == Hold {
		return "hold"
	}
	return "pass"
}

func (s *simulation) connect(name string, tracers ...pgx.QueryTracer) *postgres.DB {
	tracers = append(tracers, postgres.NewLocks(schema.LockOrder(), func(fault string) { s.failf("the lock order", "%s", fault) }))
	db, err := postgres.Open(s.ctx, postgres.Config{
		URL: s.url, Name: name, MaxConns: 16, AcquireWait: 10 * time.Second,
		Enter: schema.EnterOrganization, EnterAll: schema.EnterAll(), Tracers: tracers,
	})
	s.must(err)
	return db
}

// crash ends a process at once, wherever its goroutines stand.
func (s *simulation) crash(p *process) {
	s.checker.died(p)
	p.gate.kill()
	p.cancel()
	p.engine.cancel()
	s.rest()
	p.db.Close()
	s.living = without(s.living, p)
}

// retire begins the end that a deployment brings.
func (p *process) retire() {
	if p.retiring {
		return
	}
	p.retiring = true
	p.lanes.engine.Store(nil)
	p.engine.mu.Lock()
	defer p.engine.mu.Unlock()
	close(p.engine.stopping)
}

func (p *process) draining() int {
	p.engine.mu.Lock()
	defer p.engine.mu.Unlock()
	return len(p.engine.sessions)
}

func (p *process) beat() error {
	asked := time.Now()
	err := p.engine.beat(p.ctx, p.pulses)
	if err == nil {
		p.lastBeat = asked
	}
	return err
}

const sqlFetch = `
UPDATE river.river_job
SET state = 'running', attempt = attempt + 1, attempted_at = @now
WHERE id IN (
    SELECT id FROM river.river_job
    WHERE state IN ('available', 'scheduled', 'retryable') AND scheduled_at <= @now
    ORDER BY priority, scheduled_at, id
    LIMIT @limit
    FOR UPDATE SKIP LOCKED)
RETURNING id, args::text AS args`

type fetchedJob struct {
	ID   int64
	Args string
}

// fetch is River's simRow: it gives due jobs to a process and notes what becomes of them.
func (s *simulation) fetch(p *process, limit int) int {
	due, err := postgres.InSystemTx(s.ctx, s.db, "fetch", func(tx *postgres.Tx) ([]fetchedJob, error) {
		return postgres.Many[fetchedJob](s.ctx, tx, sqlFetch, postgres.Args{"now": s.clock.Now(), "limit": limit})
	})
	s.must(err)
	for _, job := range due {
		var args wakeArgs
		s.must(json.Unmarshal([]byte(job.Args), &args))
		s.logf("  %s gets job %d of %s, timer %t", p.name, job.ID, s.checker.nameOf(args.Lane), args.Timer)
		go func() {
			ctx, cancel := context.WithTimeout(p.ctx, 20*time.Second)
			defer cancel()
			d, err := p.engine.woken(ctx, job.ID, args)
			if d != nil {
				go p.engine.run(d)
			}
			if p.gate.alive() {
				s.ended(job.ID, err)
			}
		}()
	}
	return len(due)
}

const sqlEnded = `
UPDATE river.river_job
SET state = @state, scheduled_at = @at, finalized_at = @finalized, max_attempts = max_attempts + 1
WHERE id = @id AND state = 'running'`

// ended is what River notes of a job that was done, put off or failed.
func (s *simulation) ended(id int64, outcome error) {
	now := s.clock.Now()
	args := postgres.Args{"id": id, "state": "completed", "at": now, "finalized": &now}
	var later *rivertype.JobSnoozeError
	switch {
	case errors.As(outcome, &later):
		args["state"], args["at"], args["finalized"] = "scheduled", now.Add(later.Duration), (*time.Time)(nil)
	case outcome != nil:
		args["state"], args["at"], args["finalized"] = "retryable", now.Add(time.Second), (*time.Time)(nil)
	}
	s.exec(sqlEnded, args)
}

// rescueAfter is as long as River waits for a job before it gives it to somebody else.
const rescueAfter = 45 * time.Second

func (s *simulation) rescue() {
	s.exec(`UPDATE river.river_job SET state = 'retryable', scheduled_at = @now WHERE state = 'running' AND attempted_at <= @before`,
		postgres.Args{"now": s.clock.Now(), "before": s.clock.Now().Add(-rescueAfter)})
}

func (s *simulation) exec(sql string, args postgres.Args) {
	_, err := postgres.InSystemTx(s.ctx, s.db, "test", func(tx *postgres.Tx) (int64, error) { return tx.Exec(s.ctx, sql, args) })
	s.must(err)
}

func without(all []*process, gone *process) (left []*process) {
	for _, p := range all {
		if p != gone {
			left = append(left, p)
		}
	}
	return left
}
