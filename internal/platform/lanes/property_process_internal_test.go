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
	pulses map[*drain]pulse
	// retiring processes end what they have and begin nothing.
	retiring bool

	ctx    context.Context //nolint:containedctx // the life of the process
	cancel context.CancelFunc
}

func (s *stage) begin() *process {
	s.begun++
	p := &process{
		name: fmt.Sprintf("P%d", s.begun), pulses: map[*drain]pulse{},
		gate: &gate{overtaken: s.judge.overtaken, nameOf: s.judge.nameOf, holding: map[*pgx.Conn]bool{}},
	}
	p.ctx, p.cancel = context.WithCancel(s.ctx)
	p.db = s.connect(p.name, p.gate)
	queue, err := jobs.NewQueue(p.db, s.clock, slog.New(slog.DiscardHandler))
	s.must(err)
	p.lanes = New(p.db, queue, s.clock, slog.New(slog.DiscardHandler))
	for _, rule := range []Rule{Hold, Pass} {
		kind := Kind{
			Name: kindOf(rule), Retries: rule, Priorities: 4, Workers: s.cast.Workers, SlowWorkers: s.cast.Workers,
			Least: s.cast.Least, Most: s.cast.Most,
			Open: func(ctx context.Context, lane Lane) (Work, error) { return s.judge.open(ctx, p, lane) },
		}
		p.lanes.Register(kind)
	}
	p.engine = NewEngine(p.lanes, p.db)
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

func (s *stage) connect(name string, tracers ...pgx.QueryTracer) *postgres.DB {
	db, err := postgres.Open(s.ctx, postgres.Config{
		URL: s.url, Name: name, MaxConns: 16, AcquireWait: 10 * time.Second,
		Enter: schema.EnterOrganization, EnterAll: schema.EnterAll(), Tracers: tracers,
	})
	s.must(err)
	return db
}

// crash ends a process at once, wherever its goroutines stand.
func (s *stage) crash(p *process) {
	s.judge.died(p)
	p.gate.kill()
	p.cancel()
	p.engine.cancel()
	s.rest()
	p.db.Close()
	s.living = without(s.living, p)
}

// retire begins the end that a deployment brings.
func (p *process) retire() {
	p.retiring = true
	p.lanes.engine.Store(nil)
	p.engine.mu.Lock()
	defer p.engine.mu.Unlock()
	close(p.engine.stopping)
}

func (p *process) draining() int {
	p.engine.mu.Lock()
	defer p.engine.mu.Unlock()
	return len(p.engine.drains)
}

func (p *process) beat() error { return p.engine.beat(p.ctx, p.pulses) }

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

// fetch is River's part: it gives due jobs to a process and notes what becomes of them.
func (s *stage) fetch(p *process, limit int) int {
	due, err := postgres.InSystemTx(s.ctx, s.db, "fetch", func(tx *postgres.Tx) ([]fetchedJob, error) {
		return postgres.Many[fetchedJob](s.ctx, tx, sqlFetch, postgres.Args{"now": s.clock.Now(), "limit": limit})
	})
	s.must(err)
	for _, job := range due {
		var args wakeArgs
		s.must(json.Unmarshal([]byte(job.Args), &args))
		s.tellf("  %s gets job %d of %s, timer %t", p.name, job.ID, s.judge.nameOf(args.Lane), args.Timer)
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
func (s *stage) ended(id int64, outcome error) {
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

func (s *stage) rescue() {
	s.exec(`UPDATE river.river_job SET state = 'retryable', scheduled_at = @now WHERE state = 'running' AND attempted_at <= @before`,
		postgres.Args{"now": s.clock.Now(), "before": s.clock.Now().Add(-rescueAfter)})
}

func (s *stage) exec(sql string, args postgres.Args) {
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
