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
	run   func(ctx context.Context, questions []Q) ([]A, error)
	limit int
	slots chan struct{}

	mu      sync.Mutex
	waiting []*question[Q, A]
}

type question[Q, A any] struct {
	asked    Q
	answer   A
	err      error
	answered chan struct{}
}

const togetherTimeout = 12 * time.Second

func newTogether[Q, A any](slots, limit int, run func(context.Context, []Q) ([]A, error)) *together[Q, A] {
	return &together[Q, A]{run: run, limit: limit, slots: make(chan struct{}, slots)}
}

// ask returns the answer to one question. Who finds a free slot asks for all who wait.
func (t *together[Q, A]) ask(ctx context.Context, asked Q) (A, error) {
	mine := &question[Q, A]{asked: asked, answered: make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, mine)
	t.mu.Unlock()
	for {
		select {
		case <-mine.answered:
			return mine.answer, mine.err
		case <-ctx.Done():
			return mine.answer, ctx.Err()
		case t.slots <- struct{}{}:
			t.answer(ctx)
			<-t.slots
		}
	}
}

// answer runs one statement for whoever waits. It outlives the one who happens to run it.
func (t *together[Q, A]) answer(ctx context.Context) {
	t.mu.Lock()
	batch := t.waiting[:min(len(t.waiting), t.limit)]
	t.waiting = t.waiting[len(batch):]
	t.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	questions := make([]Q, len(batch))
	for i, one := range batch {
		questions[i] = one.asked
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), togetherTimeout)
	defer cancel()
	answers, err := t.run(ctx, questions)
	for i, one := range batch {
		if one.err = err; err == nil {
			one.answer = answers[i]
		}
		close(one.answered)
	}
}
