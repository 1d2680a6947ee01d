// Package courier carries callbacks: it signs them, batches them, posts several at a
// time, and posts again what was not answered with 200, less and less often. It knows
// nothing of what it carries. What waits is bounded; the oldest goes first.
package courier

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/simulator/agenda"
)

// Target is where callbacks go. Secret is asked at each post, because secrets change.
type Target struct {
	URL    string
	Secret func() string
}

// Update is one change in a callback.
type Update struct {
	Entry string // the id of the entry
	Time  int64  // unix seconds; 0 leaves it out
	Field string
	Value []byte // JSON
}

// Policy is asked before each post, because it may change at any time.
type Policy struct {
	Batch   int // updates in one post, at most
	Shuffle func(n int, swap func(i, j int))
	Again   time.Duration // before the first redelivery; doubles each time
	Until   time.Duration // after which a callback is given up
}

// Attempt is one post, for whoever watches.
type Attempt struct {
	At      time.Time `json:"at"`
	URL     string    `json:"url"`
	Attempt int       `json:"attempt"`
	Status  int       `json:"status"`
	Error   string    `json:"error,omitempty"`
	Body    []byte    `json:"-"`
}

const (
	maxWaiting  = 200_000 // updates of one target
	maxPosts    = 16      // at once to one target
	maxAgain    = time.Hour
	maxRetained = 100_000 // callbacks that wait for redelivery
)

// Courier carries callbacks while Run runs; before, they wait.
type Courier struct {
	client *http.Client
	agenda *agenda.Agenda
	now    func() time.Time
	policy func() Policy
	logger *slog.Logger
	seen   func(Attempt)

	Posted, Redelivered, Lost atomic.Int64

	mu       sync.Mutex
	lanes    map[string]*lane
	retained int
	running  context.Context //nolint:containedctx // posts end with Run, whoever caused them
	group    sync.WaitGroup
}

type lane struct {
	target  Target
	waiting []Update
	posts   int
}

// Deps is what a courier works with.
type Deps struct {
	Client *http.Client
	Agenda *agenda.Agenda
	Now    func() time.Time
	Policy func() Policy
	Logger *slog.Logger
	Seen   func(Attempt)
}

// New builds a courier; redelivery is left to the agenda, which somebody else runs.
func New(deps Deps) *Courier {
	return &Courier{
		client: deps.Client, agenda: deps.Agenda, now: deps.Now, policy: deps.Policy, logger: deps.Logger, seen: deps.Seen,
		lanes: map[string]*lane{},
	}
}

// Run carries until ctx ends, then waits for posts in flight.
func (c *Courier) Run(ctx context.Context) {
	c.mu.Lock()
	c.running = ctx
	for _, l := range c.lanes {
		c.staff(l)
	}
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock()
	c.running = nil
	c.mu.Unlock()
	c.group.Wait()
}

// Post puts an update behind those that wait for the target.
func (c *Courier) Post(target Target, update Update) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lanes[target.URL]
	if l == nil {
		l = &lane{}
		c.lanes[target.URL] = l
	}
	l.target = target
	if len(l.waiting) >= maxWaiting {
		l.waiting = l.waiting[1:]
		c.Lost.Add(1)
	}
	l.waiting = append(l.waiting, update)
	c.staff(l)
}

// Clear forgets what waits; posts in flight end by themselves.
func (c *Courier) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lanes = map[string]*lane{}
	c.retained = 0
}

// Waiting counts updates not yet posted for the first time.
func (c *Courier) Waiting() (waiting int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lanes {
		waiting += len(l.waiting)
	}
	return waiting
}

// staff starts one more post when there is something to post; the caller holds the lock.
func (c *Courier) staff(l *lane) {
	if c.running == nil || c.running.Err() != nil || len(l.waiting) == 0 || l.posts >= maxPosts {
		return
	}
	l.posts++
	ctx := c.running
	c.group.Go(func() { c.drain(ctx, l) })
}

func (c *Courier) drain(ctx context.Context, l *lane) {
	for {
		policy := c.policy()
		c.mu.Lock()
		count := min(len(l.waiting), max(policy.Batch, 1))
		if count == 0 || ctx.Err() != nil {
			l.posts--
			c.mu.Unlock()
			return
		}
		updates, target := make([]Update, count), l.target
		copy(updates, l.waiting)
		clear(l.waiting[:count]) // what was taken is not kept alive by the slice
		if l.waiting = l.waiting[count:]; len(l.waiting) == 0 {
			l.waiting = nil
		}
		c.mu.Unlock()
		if policy.Shuffle != nil {
			policy.Shuffle(count, func(i, j int) { updates[i], updates[j] = updates[j], updates[i] })
		}
		c.deliver(ctx, parcel{target: target, body: envelope(updates), first: c.now(), attempt: 1})
	}
}

// parcel is a callback as it is posted, each time with the same bytes.
type parcel struct {
	target  Target
	body    []byte
	first   time.Time
	attempt int
}

func (c *Courier) deliver(ctx context.Context, p parcel) {
	status, err := Send(ctx, c.client, p.target, p.body)
	c.Posted.Add(1)
	attempt := Attempt{At: c.now(), URL: p.target.URL, Attempt: p.attempt, Status: status, Body: p.body}
	if err != nil {
		attempt.Error = reason(err)
	}
	c.seen(attempt)
	if status == http.StatusOK || ctx.Err() != nil {
		return
	}
	c.logger.DebugContext(ctx, "callback.refused", "host", host(p.target.URL), "attempt", p.attempt, "status", status, "error", attempt.Error)
	c.again(p)
}

// again has the agenda post a parcel later.
func (c *Courier) again(p parcel) {
	policy := c.policy()
	wait := min(policy.Again<<min(p.attempt-1, 20), maxAgain)
	at := c.now().Add(wait)
	c.mu.Lock()
	defer c.mu.Unlock()
	if wait <= 0 || at.Sub(p.first) > policy.Until || c.retained >= maxRetained {
		c.Lost.Add(1)
		return
	}
	p.attempt++
	kept := c.agenda.At(at, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.retained = max(c.retained-1, 0)
		if ctx := c.running; ctx != nil && ctx.Err() == nil {
			c.Redelivered.Add(1)
			c.group.Go(func() { c.deliver(ctx, p) })
		}
	})
	if kept {
		c.retained++
	} else {
		c.Lost.Add(1)
	}
}

// reason is an error without the address, which may carry secrets.
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
