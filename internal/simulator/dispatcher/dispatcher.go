// Package dispatcher posts callbacks to the apps: it signs them, batches them, posts up to 16
// at a time to one URL, redeliveries included, and posts again what was not answered with 200,
// with exponential backoff. The queues are bounded; a full queue drops its oldest update.
package dispatcher

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/simulator/scheduler"
)

// Target is where callbacks go. Secret is called at each post, because secrets change.
type Target struct {
	URL    string
	Secret func() string
}

// Update is one change in a callback.
type Update struct {
	Entry   string // id of the entry
	Time    int64  // unix seconds; 0 leaves it out
	Field   string
	Value   []byte // JSON
	Message string // id of the user's message that it carries; empty for other changes
}

// Policy is read before each post, because the settings may change at any time.
type Policy struct {
	Batch          int                              // the most updates in one post
	Shuffle        func(n int, swap func(i, j int)) // reorders the updates of a batch; nil keeps their order
	RedeliverAfter time.Duration                    // before the first redelivery; doubles each time
	RedeliverMax   time.Duration                    // the longest wait before a redelivery
	GiveUpAfter    time.Duration                    // from the first post
}

// Fate says what became of a callback by its last post.
type Fate string

// The fates of a callback.
const (
	Answered Fate = "answered" // with 200
	Retrying Fate = "retrying" // not answered with 200; it will be posted again
	Dropped  Fate = "dropped"  // it will not be posted again
)

// Attempt is one post and its answer, or a callback that was never posted.
type Attempt struct {
	ID       int64     `json:"id"` // of the callback; each of its posts has the same
	At       time.Time `json:"at"`
	URL      string    `json:"url"`
	Attempt  int       `json:"attempt"` // from 1; 0: never posted
	Status   int       `json:"status"`  // of the answer; 0: no answer
	Error    string    `json:"error,omitempty"`
	Fate     Fate      `json:"fate"`
	RetryAt  time.Time `json:"retry_at,omitzero"` // of a callback that is retried
	Body     []byte    `json:"-"`
	Messages []string  `json:"-"` // ids of the users' messages in it
}

const (
	maxQueued       = 200_000 // updates of one target
	maxWorkers      = 16      // of one target
	maxRedeliveries = 200_000 // callbacks that wait for their redelivery
	// noAnswerPause is how long a worker waits after a post without any answer. Posts to a host
	// that is down fail at once; without the pause they would use a whole processor.
	noAnswerPause = 5 * time.Millisecond
)

// Dispatcher posts callbacks while Run runs. Until then they are queued.
type Dispatcher struct {
	deps Deps

	Posted, Redelivered, Dropped atomic.Int64

	lastID atomic.Int64 // of callbacks

	mu           sync.Mutex
	queues       map[string]*queue // by URL
	redeliveries int               // callbacks that are scheduled or queued for their redelivery
	posting      int               // callbacks in flight
	cleared      int               // how often Clear was called
	running      context.Context   //nolint:containedctx // posts end with Run, not with the request that caused them
	workers      sync.WaitGroup
}

type queue struct {
	target  Target
	updates []Update
	due     []callback // to be redelivered now
	turn    bool       // a redelivery is next, when updates wait too
	workers int
}

// waiting counts the posts that are due, if each has one update.
func (q *queue) waiting() int { return len(q.updates) + len(q.due) }

// Deps is what a dispatcher works with.
type Deps struct {
	Client    *http.Client
	Scheduler *scheduler.Scheduler // runs redeliveries; the caller runs it
	Now       func() time.Time
	Policy    func() Policy
	Logger    *slog.Logger
	Observe   func(Attempt) // called after each post
}

// New returns a dispatcher with empty queues.
func New(deps Deps) *Dispatcher { return &Dispatcher{deps: deps, queues: map[string]*queue{}} }

// Run posts until ctx ends, then waits for posts in flight.
func (d *Dispatcher) Run(ctx context.Context) {
	d.mu.Lock()
	d.running = ctx
	for _, q := range d.queues {
		d.startWorker(q)
	}
	d.mu.Unlock()
	<-ctx.Done()
	d.mu.Lock()
	d.running = nil
	d.mu.Unlock()
	d.workers.Wait()
}

// Post queues an update for a target. A full queue drops its oldest update, and returns it.
func (d *Dispatcher) Post(target Target, update Update) (oldest Update, full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queueOf(target)
	q.target = target
	if full = len(q.updates) >= maxQueued; full {
		oldest, q.updates = q.updates[0], q.updates[1:]
		d.Dropped.Add(1)
	}
	q.updates = append(q.updates, update)
	d.startWorker(q)
	return oldest, full
}

// Unposted returns the record of an update that is never posted, and why.
func (d *Dispatcher) Unposted(target Target, update Update, why string) Attempt {
	return Attempt{
		ID: d.lastID.Add(1), At: d.deps.Now(), URL: target.URL, Fate: Dropped, Error: why, Body: envelope([]Update{update}),
		Messages: messagesOf([]Update{update}),
	}
}

// messagesOf returns the ids of the users' messages in updates.
func messagesOf(updates []Update) (ids []string) {
	for _, update := range updates {
		if update.Message != "" {
			ids = append(ids, update.Message)
		}
	}
	return ids
}

// queueOf returns the queue of a target's URL. The caller holds the lock.
func (d *Dispatcher) queueOf(target Target) *queue {
	if d.queues[target.URL] == nil {
		d.queues[target.URL] = &queue{target: target}
	}
	return d.queues[target.URL]
}

// Clear empties the queues and sets the counters to 0. Posts in flight continue, but are not
// redelivered.
func (d *Dispatcher) Clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.queues { // their workers may still run
		q.updates, q.due = nil, nil
	}
	d.queues = map[string]*queue{}
	d.redeliveries = 0
	d.cleared++
	for _, counter := range []*atomic.Int64{&d.Posted, &d.Redelivered, &d.Dropped} {
		counter.Store(0)
	}
}

// Unanswered counts updates that were not posted, callbacks in flight, and those that wait for their redelivery.
func (d *Dispatcher) Unanswered() (count int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.queues {
		count += len(q.updates)
	}
	return count + d.posting + d.redeliveries
}

// startWorker starts one more worker when updates are queued. The caller holds the lock.
func (d *Dispatcher) startWorker(q *queue) {
	if d.running == nil || d.running.Err() != nil || q.waiting() == 0 || q.workers >= maxWorkers {
		return
	}
	q.workers++
	ctx := d.running
	d.workers.Go(func() { d.drain(ctx, q) })
}

// drain posts what is queued until the queue is empty.
func (d *Dispatcher) drain(ctx context.Context, q *queue) {
	for {
		policy := d.deps.Policy()
		d.mu.Lock()
		if q.waiting() == 0 || ctx.Err() != nil {
			q.workers--
			d.mu.Unlock()
			return
		}
		next, updates := d.take(q, policy)
		d.posting++
		d.mu.Unlock()
		if updates != nil {
			if policy.Shuffle != nil {
				policy.Shuffle(len(updates), func(i, j int) { updates[i], updates[j] = updates[j], updates[i] })
			}
			next.body, next.messages = envelope(updates), messagesOf(updates)
		}
		answered := d.post(ctx, next)
		d.mu.Lock()
		d.posting--
		d.mu.Unlock()
		if !answered {
			pause(ctx, noAnswerPause)
		}
	}
}

// take removes the next post from a queue: a redelivery, or a new callback and its updates. It
// alternates between them, so that neither waits for all of the other. The caller holds the lock.
func (d *Dispatcher) take(q *queue, policy Policy) (next callback, updates []Update) {
	if q.turn = !q.turn; len(q.due) > 0 && (q.turn || len(q.updates) == 0) {
		next, q.due[0] = q.due[0], callback{} // the garbage collector may free its body
		if q.due = q.due[1:]; len(q.due) == 0 {
			q.due = nil
		}
		d.redeliveries--
		d.Redelivered.Add(1)
		return next, nil
	}
	count := min(len(q.updates), max(policy.Batch, 1))
	updates = make([]Update, count)
	copy(updates, q.updates)
	clear(q.updates[:count]) // the garbage collector may free their values
	if q.updates = q.updates[count:]; len(q.updates) == 0 {
		q.updates = nil
	}
	return callback{id: d.lastID.Add(1), target: q.target, first: d.deps.Now(), attempt: 1, cleared: d.cleared}, updates
}

// pause waits until d has passed or ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// callback is a body to post; each redelivery posts the same bytes.
type callback struct {
	id       int64
	target   Target
	body     []byte
	messages []string  // ids of the users' messages in it
	first    time.Time // when it was first posted
	attempt  int       // from 1
	cleared  int       // the dispatcher's value when it was first posted
}

// post posts a callback once, and schedules its redelivery when the answer is not 200. It
// returns false when there was no answer.
func (d *Dispatcher) post(ctx context.Context, c callback) (answered bool) {
	status, err := Send(ctx, d.deps.Client, c.target, c.body)
	d.Posted.Add(1)
	attempt := Attempt{
		ID: c.id, At: d.deps.Now(), URL: c.target.URL, Attempt: c.attempt, Status: status, Fate: Answered, Body: c.body, Messages: c.messages,
	}
	if err != nil {
		attempt.Error = reason(err)
	}
	stopping := ctx.Err() != nil
	switch {
	case status == http.StatusOK:
	case stopping:
		attempt.Fate = Dropped
	default:
		d.deps.Logger.DebugContext(ctx, "callback.refused",
			"host", host(c.target.URL), "attempt", c.attempt, "status", status, "error", attempt.Error)
		attempt.Fate = Dropped
		if at, scheduled := d.redeliver(c); scheduled {
			attempt.Fate, attempt.RetryAt = Retrying, at
		}
	}
	d.deps.Observe(attempt)
	return err == nil || stopping
}

// redeliver schedules the next post of a callback, and returns when that is. It returns false when the callback
// is given up.
func (d *Dispatcher) redeliver(c callback) (at time.Time, scheduled bool) {
	policy := d.deps.Policy()
	wait := min(policy.RedeliverAfter<<min(c.attempt-1, 20), policy.RedeliverMax)
	at = d.deps.Now().Add(wait)
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.cleared != d.cleared {
		return at, false
	}
	if wait <= 0 || at.Sub(c.first) > policy.GiveUpAfter || d.redeliveries >= maxRedeliveries {
		d.Dropped.Add(1)
		return at, false
	}
	c.attempt++
	scheduled = d.deps.Scheduler.At(at, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if c.cleared != d.cleared {
			return
		}
		q := d.queueOf(c.target)
		q.due = append(q.due, c)
		d.startWorker(q)
	})
	if scheduled {
		d.redeliveries++
	} else {
		d.Dropped.Add(1)
	}
	return at, scheduled
}

// reason is the text of an error without the URL, which may carry secrets.
func reason(err error) string {
	if failed := new(url.Error); errors.As(err, &failed) {
		err = failed.Err
	}
	return err.Error()
}

func host(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return parsed.Host
}
