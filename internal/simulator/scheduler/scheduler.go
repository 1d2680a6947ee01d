// Package scheduler runs functions when they are due, in order, one after the other. The
// number of waiting functions is bounded; one more is refused.
package scheduler

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// Scheduler holds the functions that are not due yet.
type Scheduler struct {
	now   func() time.Time
	limit int

	mu      sync.Mutex
	tasks   tasks
	running int // functions that Run has called and that have not returned: 0 or 1
	order   uint64
	wake    chan struct{}
}

type task struct {
	at    time.Time
	order uint64
	run   func()
}

// New returns a scheduler for up to limit functions. The clock now may jump if Recheck is
// called afterwards.
func New(now func() time.Time, limit int) *Scheduler {
	return &Scheduler{now: now, limit: limit, wake: make(chan struct{}, 1)}
}

// At has Run call a function at a time. It returns false when the scheduler is full.
func (s *Scheduler) At(at time.Time, run func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tasks) >= s.limit {
		return false
	}
	s.order++
	heap.Push(&s.tasks, task{at: at, order: s.order, run: run})
	if s.tasks[0].order == s.order {
		s.Recheck()
	}
	return true
}

// Recheck makes Run read the clock again. Call it after the clock was moved.
func (s *Scheduler) Recheck() {
	select {
	case s.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

// Clear removes all waiting functions.
func (s *Scheduler) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks = nil
}

// Len counts the functions that wait or run.
func (s *Scheduler) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tasks) + s.running
}

// Run calls the functions that are due until ctx ends.
func (s *Scheduler) Run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		run, wait := s.next()
		for ; run != nil; run, wait = s.next() {
			run()
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-timer.C:
		}
	}
}

// next removes the first function that is due; the one before has ended. Without one it returns how long
// to wait, at most an hour.
func (s *Scheduler) next() (run func(), wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = 0
	if len(s.tasks) == 0 {
		return nil, time.Hour
	}
	if wait := s.tasks[0].at.Sub(s.now()); wait > 0 {
		return nil, min(wait, time.Hour)
	}
	first, _ := heap.Pop(&s.tasks).(task)
	s.running = 1
	return first.run, 0
}

// tasks is a heap: the earliest first, in the order of At among equals.
type tasks []task

func (t tasks) Len() int { return len(t) }

func (t tasks) Less(i, j int) bool {
	if t[i].at.Equal(t[j].at) {
		return t[i].order < t[j].order
	}
	return t[i].at.Before(t[j].at)
}

func (t tasks) Swap(i, j int) { t[i], t[j] = t[j], t[i] }

// Push implements heap.Interface.
func (t *tasks) Push(x any) {
	if added, ok := x.(task); ok {
		*t = append(*t, added)
	}
}

// Pop implements heap.Interface.
func (t *tasks) Pop() any {
	last := len(*t) - 1
	popped := (*t)[last]
	(*t)[last] = task{}
	*t = (*t)[:last]
	return popped
}
