package lanes

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
)

type orgKind struct {
	org  ids.Org
	kind string
}

type crewOf struct {
	kind string
	slow bool
}

// crew is the workers that drain the lanes of a kind, and how many lanes wait for one.
type crew struct {
	busy    chan struct{}
	waiting atomic.Int64
	// entered counts the busy workers that have a lane; the engine's lock guards it.
	entered int
	// refused is when a lane was last sent back to River.
	refused atomic.Pointer[clock.Watch]
}

// contended tells that a lane waits for a worker, or was sent back to River within the last two
// seconds.
func (c *crew) contended() bool {
	refused := c.refused.Load()
	return c.waiting.Load() > 0 || refused != nil && refused.Elapsed() < sliceTime
}

func (c *crew) refuse() { c.refused.Store(new(clock.StartWatch())) }

const (
	// A crew of fewer workers than smallCrew is not divided among organizations.
	smallCrew = 8
	// A lane that woke while its organization has its share waits shareWait for room, and looks
	// every shareLook: most lanes are drained in milliseconds, and sending the job back costs more.
	shareWait = 50 * time.Millisecond
	shareLook = 5 * time.Millisecond
)

// overShare tells that at least half of the crew's workers are busy and at least a quarter of the
// crew works for this organization: it then gets no more.
func (e *Engine) overShare(crew *crew, of orgKind) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.overShareLocked(crew, of, len(crew.busy))
}

func (e *Engine) overShareLocked(crew *crew, of orgKind, busy int) bool {
	most := cap(crew.busy)
	return most >= smallCrew && busy >= most/2 && len(e.byOrg[of]) >= most/4
}

// awaited tells that a lane waits which could have this session's worker: all workers are busy, or the organization has its
// share. Lanes of an organization that is over its share wait however many workers other organizations leave.
func (e *Engine) awaited(s *session) bool {
	if !s.crew.contended() {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	most := cap(s.crew.busy)
	return s.crew.entered >= most || len(e.byOrg[orgKind{s.Org, s.Kind}]) >= most/4
}

// awaitShare waits a moment until the organization is no longer over its share.
func (e *Engine) awaitShare(crew *crew, of orgKind) bool {
	for watch := clock.StartWatch(); ; time.Sleep(shareLook) {
		over := e.overShare(crew, of)
		if !over || watch.Elapsed() > shareWait {
			return !over
		}
	}
}

// enter gives a lane the worker that the caller has taken from the crew. It frees the worker and returns nil
// if the process stops, or if other lanes of the organization entered first.
func (e *Engine) enter(kind registered, w wake, crew *crew) *session {
	e.mu.Lock()
	defer e.mu.Unlock()
	of := orgKind{w.Org, w.Kind}
	select {
	case <-e.stopping:
		<-crew.busy
		return nil
	default:
	}
	if e.overShareLocked(crew, of, crew.entered) {
		<-crew.busy
		return nil
	}
	s := &session{wake: w, e: e, kind: kind, crew: crew, nudged: make(chan struct{}, 1)}
	s.ctx, s.lost = context.WithCancelCause(e.working)
	e.sessions[s] = struct{}{}
	register(e.byOrg, of, s)
	register(e.byLane, w.ID, s)
	crew.entered++
	e.underWay.Add(1)
	return s
}

func register[K comparable](book map[K]map[*session]struct{}, at K, s *session) {
	if book[at] == nil {
		book[at] = map[*session]struct{}{}
	}
	book[at][s] = struct{}{}
}

func unregister[K comparable](book map[K]map[*session]struct{}, at K, s *session) {
	if delete(book[at], s); len(book[at]) == 0 {
		delete(book, at)
	}
}

func (e *Engine) leave(s *session) {
	defer e.underWay.Done()
	s.lost(nil)
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.sessions, s)
	unregister(e.byOrg, orgKind{s.Org, s.Kind}, s)
	unregister(e.byLane, s.ID, s)
	s.crew.entered--
	<-s.crew.busy
}
