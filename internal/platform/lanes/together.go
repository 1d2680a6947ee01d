package lanes

import (
	"context"
	"sync"
	"time"
)

// together answers many questions by one statement: while it runs, new ones gather, so
// that a quiet engine waits for nobody and a busy one asks for hundreds of lanes at once.
type together[Q, A any] struct {
	// run answers questions in their order.
	run func(ctx context.Context, questions []Q) ([]A, error)
	// limit bounds one statement, width how many run beside each other.
	limit, width int

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

const togetherTimeout = 12 * time.Second

func newTogether[Q, A any](width, limit int, run func(context.Context, []Q) ([]A, error)) *together[Q, A] {
	return &together[Q, A]{run: run, limit: limit, width: width}
}

// ask returns the answer to one question. Who gives up waiting does not take it back.
func (t *together[Q, A]) ask(ctx context.Context, asked Q) (A, error) {
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
		return mine.answer, ctx.Err()
	}
}

// work answers until nobody waits.
func (t *together[Q, A]) work(ctx context.Context) {
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

func (t *together[Q, A]) answer(ctx context.Context, batch []*question[Q, A]) {
	questions := make([]Q, len(batch))
	for i, one := range batch {
		questions[i] = one.asked
	}
	ctx, cancel := context.WithTimeout(ctx, togetherTimeout)
	defer cancel()
	answers, err := t.run(ctx, questions)
	for i, one := range batch {
		if one.err = err; err == nil {
			one.answer = answers[i]
		}
		close(one.answered)
	}
}
