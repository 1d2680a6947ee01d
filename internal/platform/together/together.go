// Package together batches questions of many callers into one statement.
package together

import (
	"context"
	"sync"
	"time"
)

// Asker batches questions: while a statement runs, new questions are collected for the next one. A
// single question is asked at once, and hundreds are answered by one statement.
type Asker[Q, A any] struct {
	// run answers questions in their order.
	run func(ctx context.Context, questions []Q) ([]A, error)
	// limit is the largest number of questions of one statement.
	limit int
	// width is the largest number of statements at once.
	width int

	mu      sync.Mutex
	waiting []*question[Q, A]
	running int
}

type question[Q, A any] struct {
	asked    Q
	answer   A
	err      error
	answered chan struct{}
}

// timeout bounds one statement.
const timeout = 12 * time.Second

// New returns an asker that calls run with at most limit questions, at most width times at once.
// Run returns the answers in the order of the questions.
func New[Q, A any](width, limit int, run func(context.Context, []Q) ([]A, error)) *Asker[Q, A] {
	return &Asker[Q, A]{run: run, limit: limit, width: width}
}

// Ask returns the answer to one question. The statement runs even when ctx ends before it.
func (t *Asker[Q, A]) Ask(ctx context.Context, asked Q) (A, error) {
	mine := &question[Q, A]{asked: asked, answered: make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, mine)
	if t.running < t.width {
		t.running++
		go t.work(context.WithoutCancel(ctx))
	}
	t.mu.Unlock()
	select {
	case <-mine.answered:
		return mine.answer, mine.err
	case <-ctx.Done():
		var none A // the answer may be written at this moment
		return none, ctx.Err()
	}
}

// work runs batches until no question is left.
func (t *Asker[Q, A]) work(ctx context.Context) {
	for {
		t.mu.Lock()
		batch := t.waiting[:min(len(t.waiting), t.limit)]
		if t.waiting = t.waiting[len(batch):]; len(batch) == 0 {
			t.running--
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
		t.answer(ctx, batch)
	}
}

func (t *Asker[Q, A]) answer(ctx context.Context, batch []*question[Q, A]) {
	questions := make([]Q, len(batch))
	for i, one := range batch {
		questions[i] = one.asked
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answers, err := t.run(ctx, questions)
	for i, one := range batch {
		if one.err = err; err == nil {
			one.answer = answers[i]
		}
		close(one.answered)
	}
}
