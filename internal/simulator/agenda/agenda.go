// Package agenda does things at their time, in order, one after the other. It holds at
// most as many as it is told; what does not fit is refused, never grown into.
package agenda

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// Agenda is what is still to be done.
type Agenda struct {
	now func() time.Time
	max int

	mu    sync.Mutex
	tasks tasks
	order uint64
	wake  chan struct{}
}

type task struct {
	at    time.Time
	order uint64
	do    func()
}

// New asks now for the time, which may be moved if Look is called afterwards.
func New(now func() time.Time, most int) *Agenda {
	return &Agenda{now: now, max: most, wake: make(chan struct{}, 1)}
}

// At has do done at its time by Run; false means that the agenda is full.
func (a *Agenda) At(at time.Time, do func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.tasks) >= a.max {
		return false
	}
	a.order++
	heap.Push(&a.tasks, task{at: at, order: a.order, do: do})
	if a.tasks[0].order == a.order {
		a.look()
	}
	return true
}

// Look compares all times anew: the clock was moved.
func (a *Agenda) Look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.look()
}

func (a *Agenda) look() {
	select {
	case a.wake <- struct{}{}:
	default: // it is about to look anyway
	}
}

// Clear forgets everything.
func (a *Agenda) Clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tasks = nil
}

// Len counts what is still to be done.
func (a *Agenda) Len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.tasks)
}

// Run does what is due until ctx ends.
func (a *Agenda) Run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := time.Hour
		for {
			do, next := a.due()
			if do == nil {
				wait = min(wait, next)
				break
			}
			do()
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		case <-timer.C:
		}
	}
}

// due takes the first task whose time has come, or tells how long the first has to wait.
func (a *Agenda) due() (do func(), wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.tasks) == 0 {
		return nil, time.Hour
	}
	if wait := a.tasks[0].at.Sub(a.now()); wait > 0 {
		return nil, wait
	}
	first, _ := heap.Pop(&a.tasks).(task)
	return first.do, 0
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

// Push is the heap's.
func (t *tasks) Push(x any) {
	if added, ok := x.(task); ok {
		*t = append(*t, added)
	}
}

// Pop is the heap's.
func (t *tasks) Pop() any {
	last := len(*t) - 1
	taken := (*t)[last]
	(*t)[last] = task{}
	*t = (*t)[:last]
	return taken
}
