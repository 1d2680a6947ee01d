package lanes

import (
	"time"

	"github.com/parley-chat/parley/internal/platform/postgres"
)

// end lets everything go on without further trouble, until no row waits. Nobody sweeps or
// watches unless somebody died: a wake-up that is lost without a death is a fault.
func (s *simulation) end() {
	s.logf("from here on all is quiet")
	s.quiet = true
	s.flowAll()
	for _, on := range s.lanes {
		if on.blockedUntil.Equal(Forever()) {
			s.unblock(unstopped(s.ctx), s.anyone(0), on)
			s.flowAll()
		}
	}
	for idle := 0; !s.failed(); {
		s.settleDown()
		if s.toNextJob() {
			continue
		}
		left := s.count(`SELECT count(*) FROM lane_rows`, nil)
		if left == 0 {
			break
		}
		if s.config.Calm {
			s.failf("no wake-up is lost", "%d rows wait", left)
		}
		if idle++; idle > 12 {
			s.failf("what a crash left behind is found", "%d rows wait", left)
		}
		s.rescue()
		s.takeOver(s.anyone(0), s.rest)
		s.must(s.anyone(0).lanes.Sweep(unstopped(s.ctx)))
		s.flowAll()
	}
	if !s.failed() {
		s.checker.checkEnd()
		s.checkLanes()
	}
}

// settleDown works what is due now.
func (s *simulation) settleDown() {
	for range 600 {
		fetched := s.fetch(s.anyone(0), 100)
		s.flowAll()
		s.pass(100*time.Millisecond, everyone)
		busy := 0
		for _, p := range s.living {
			busy += p.draining()
		}
		if s.failed() || fetched == 0 && busy == 0 && !s.jobDue() {
			return
		}
	}
	s.failf("a lane comes to rest", "")
}

func (s *simulation) jobDue() bool {
	return s.count(sqlJobs+` AND scheduled_at <= @now`, postgres.Args{"now": s.clock.Now()}) > 0
}

const sqlJobs = `SELECT count(*) FROM river.river_job WHERE state IN ('available', 'scheduled', 'retryable')`

// sqlForgotten finds idle lanes whose rows could start before anybody is going to look.
const sqlForgotten = `
SELECT count(*)
FROM lane_rows r
JOIN lanes l USING (lane_id)
WHERE NOT l.armed AND r.due_at < @next AND (l.blocked_until IS NULL OR l.blocked_until < @next)
  AND NOT EXISTS (
      SELECT FROM lane_keys k
      WHERE k.lane_id = r.lane_id AND k.key = r.key AND (k.holder <> r.id OR k.holder IS NULL AND k.until >= @next))`

// toNextJob moves the clock to when River has something to do, if ever.
func (s *simulation) toNextJob() bool {
	next, err := postgres.One[*time.Time](s.ctx, s.db.System("run"),
		`SELECT min(scheduled_at) FROM river.river_job WHERE state IN ('available', 'scheduled', 'retryable')`, nil)
	s.must(err)
	if next == nil {
		return false
	}
	if s.config.Calm && s.count(sqlForgotten, postgres.Args{"next": *next}) > 0 {
		s.failf("an idle lane is looked at when its next row is due", "")
	}
	s.logf("  the clock moves to %s", next.Format(time.StampMilli))
	if by := next.Sub(s.clock.Now()); by > 0 {
		s.clock.Move(by + time.Millisecond)
	}
	return true
}

func (s *simulation) count(sql string, args postgres.Args) int {
	count, err := postgres.One[int](s.ctx, s.db.System("run"), sql, args)
	s.must(err)
	return count
}

// checkLanes looks at what an empty lane leaves behind.
func (s *simulation) checkLanes() {
	if s.count(`SELECT count(*) FROM lane_keys WHERE holder IS NOT NULL`, nil) > 0 {
		s.failf("a key is not held by a row that is gone", "")
	}
	if s.config.Calm && s.count(`SELECT count(*) FROM lanes WHERE armed`, nil) > 0 {
		s.failf("an empty lane is idle", "")
	}
}
