// Package quota limits the outbound messages that an organization may have accepted in a calendar
// month, UTC. The count of a month is a row of quota_usage, shared by all processes. Far from the
// limit a process counts in memory and adds to the row every second, because a row that is updated
// by each accept would make the accepts of an organization wait for each other. In the last tenth
// each accept reserves in the row.
//
// Why no process passes the limit: a process counts in memory only what its allowance in the row
// covers, and every reservation leaves the allowances of all processes free. So at any time
//
//	accepted <= used + allowances <= limit
//
// An allowance is 0.5 % of the limit, and all of them together are at most 10 %: 20 processes can
// have one, and any further process reserves each accept in the row. Allowances are granted while
// at most 90 % are used. An allowance expires, so that one of a process that died does not block
// the last messages: what that process had not yet added, at most 0.5 % of the limit, is forgotten
// until Recount finds it. A process that stands still, or cannot reach the database, for longer
// than its allowance lasts counts as dead.
package quota

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// FlushEvery is how often a process calls Flush.
const FlushEvery = time.Second

const (
	// countFor is how long after its last flush a process counts in memory.
	countFor = 3 * time.Second
	// allowFor is how long after its last flush the allowance of a process lasts. The difference to
	// countFor covers what the clocks of two processes may differ.
	allowFor = 10 * time.Second
	// exactFor is how long no allowances are granted after a reservation did not fit beside them.
	exactFor = 10 * time.Second
	// forgetAfter is how long a counter that holds nothing is kept after its last use.
	forgetAfter = time.Minute
	// flushTimeout bounds the write of one counter.
	flushTimeout = 5 * time.Second
	// flushesAtOnce is the number of connections that Flush uses.
	flushesAtOnce = 4
)

// Service is the quota of one cell, as one process sees it.
type Service struct {
	db     *postgres.DB
	work   *postgres.DB
	clock  clock.Clock
	jobs   *jobs.Queue
	logger *slog.Logger
	// process names this instance in the allowances of a row.
	process string
	// count counts messages for Recount; nil until CountWith.
	count Count

	// mu is held for a few comparisons and additions, never during a call to the database.
	mu       sync.Mutex
	counters map[key]*counter
}

// key is an organization in the month that begins at month.
type key struct {
	org   orgs.ID
	month time.Time
}

// Deps are the dependencies of the service.
type Deps struct {
	// DB is the pool of requests; Reserve uses it.
	DB *postgres.DB
	// Work is the pool of background work; Flush, Close and Recount use it.
	Work   *postgres.DB
	Clock  clock.Clock
	Jobs   *jobs.Queue
	Logger *slog.Logger
}

// New builds the service. A process that reserves must call Flush every FlushEvery, and Close when
// it stops.
func New(deps Deps) *Service {
	return &Service{
		db: deps.DB, work: deps.Work, clock: deps.Clock, jobs: deps.Jobs, logger: deps.Logger,
		process: rand.Text(), counters: map[key]*counter{},
	}
}

// Reservation is a number of messages that were counted.
type Reservation struct {
	service *Service
	key     key
	n       int64
	given   atomic.Bool
}

// Reserve counts n messages of an organization whose plan allows limit messages a month. It
// returns the fault quota_exceeded if they do not fit, and service_unavailable if that cannot be
// told now: the database does not answer, or other processes hold allowances on the rest.
//
// It must be called before the transaction that stores the messages, because a transaction may
// run again. The caller gives back what that transaction then does not store.
func (s *Service) Reserve(ctx context.Context, org orgs.ID, limit int64, n int) (*Reservation, error) {
	r := &Reservation{service: s, key: key{org: org, month: monthOf(s.clock.Now())}, n: int64(n)}
	if n < 1 {
		return r, nil
	}
	counted, flushed, err := s.tryCount(ctx, r.key, limit, r.n)
	if flushed && err == nil {
		counted = s.countAgain(r.key, limit, r.n)
	}
	if !counted && err == nil {
		err = s.reserve(ctx, r.key, limit, r.n)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Refuses returns the fault quota_exceeded if one message more would not fit now. It counts nothing.
// What a flush under way adds is not looked at, because the row may have it already.
func (s *Service) Refuses(ctx context.Context, org orgs.ID, limit int64) error {
	k, pending := key{org: org, month: monthOf(s.clock.Now())}, int64(0)
	s.mu.Lock()
	if c, found := s.counters[k]; found {
		pending = c.pending
	}
	s.mu.Unlock()
	standing, err := readMonth(ctx, s.db.Of(org), k.month)
	if used := standing.Used + pending; err == nil && used+1 > limit {
		err = exceededBy(k, limit, used, 1)
	}
	return err
}

// GiveBack takes the messages out of the count again. This process has them back at once, other
// processes after the next flush. Only the first call has an effect, and a nil reservation has none.
func (r *Reservation) GiveBack() {
	if r == nil || r.n < 1 || r.given.Swap(true) {
		return
	}
	s := r.service
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counter(r.key).pending -= r.n
}

// tryCount counts in memory. If that is not possible, it flushes the counter when a flush may
// help, or waits for a flush that is under way, and returns flushed.
func (s *Service) tryCount(ctx context.Context, k key, limit, n int64) (counted, flushed bool, err error) {
	now := s.clock.Now()
	s.mu.Lock()
	c := s.counter(k)
	if c.count(now, limit, n) {
		s.mu.Unlock()
		return true, false, nil
	}
	f := c.flight
	switch {
	case f != nil:
		s.mu.Unlock()
		return false, true, f.wait(ctx)
	case c.needsFlush(now, limit, n):
		f = c.start(limit, sizeOf(limit))
		s.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout) // others may wait for it, too
		defer cancel()
		s.fly(ctx, s.db, k, f)
		return false, true, f.err
	default:
		s.mu.Unlock()
		return false, false, nil
	}
}

// countAgain counts in memory after a flush.
func (s *Service) countAgain(k key, limit, n int64) bool {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counter(k).count(now, limit, n)
}

// counter returns the counter of a key. The caller holds mu.
func (s *Service) counter(k key) *counter {
	c, found := s.counters[k]
	if !found {
		c = &counter{}
		s.counters[k] = c
	}
	return c
}

var errAllowances = errors.New("quota: the rest is covered by allowances of processes that have not flushed yet")

// reserve counts in the month's row.
func (s *Service) reserve(ctx context.Context, k key, limit, n int64) error {
	now := s.clock.Now()
	s.mu.Lock()
	c := s.counter(k)
	c.askedAt = now
	refused := c.refused
	s.mu.Unlock()
	if !refused && n <= limit {
		reserved, err := reserveMonth(ctx, s.db, k, limit, n, now)
		if err != nil || reserved {
			return err
		}
	}
	standing, err := readMonth(ctx, s.db.Of(k.org), k.month)
	if err != nil {
		return err
	}
	exceeded := standing.Used+n > limit
	s.mu.Lock()
	s.counter(k).refused = exceeded
	s.mu.Unlock()
	switch {
	case exceeded:
		return exceededBy(k, limit, standing.Used, n)
	case refused:
		return s.reserve(ctx, k, limit, n)
	}
	if standing.ExactUntil == nil || !standing.ExactUntil.After(now) {
		if err := refuseAllowances(ctx, s.db, k, now.Add(exactFor)); err != nil {
			return err
		}
	}
	return fault.Unavailable(time.Second, errAllowances)
}

func exceededBy(k key, limit, used, n int64) error {
	resets := clock.Stamp(k.month.AddDate(0, 1, 0))
	if n == 1 {
		return fault.New(fault.QuotaExceeded,
			"The plan of this organization includes %d messages a month, and all are used. The quota resets at %s; a larger plan counts at once.",
			limit, resets)
	}
	return fault.New(fault.QuotaExceeded,
		"The plan of this organization includes %d messages a month, and %d are used, so that %d more do not fit. "+
			"The quota resets at %s; a larger plan counts at once.", limit, used, n, resets)
}

func monthOf(at time.Time) time.Time {
	return time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
}
