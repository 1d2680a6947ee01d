package webhooks

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/parley-chat/parley/internal/domain/orgs"
)

const (
	// DefaultHostRate is how many posts a second one organization makes to one host, over all its subscriptions.
	DefaultHostRate = 500
	// hostConns is how many of them are under way at once.
	hostConns = 32
	// hostWait is how long a post waits for its turn before its delivery goes back into the lane.
	hostWait = 3 * time.Second
	// hostAgain is when such a delivery is due again.
	hostAgain = time.Second
	// mostHosts is how many hosts are remembered before those without posts are forgotten.
	mostHosts = 1_000
)

// hosts limits the posts of an organization to a host, so that an organization cannot flood a server that is not its own. Many
// subscriptions with different paths or ports count together.
type hosts struct {
	perSecond int

	mu    sync.Mutex
	known map[destination]*host
}

type destination struct {
	org  orgs.ID
	host string
}

type host struct {
	pace *rate.Limiter
	busy chan struct{}
	// posts counts those that wait or are under way.
	posts int
}

func newHosts(perSecond int) *hosts {
	if perSecond <= 0 {
		perSecond = DefaultHostRate
	}
	return &hosts{perSecond: perSecond, known: map[destination]*host{}}
}

// enter waits for the turn of a post. It returns false when there is none within hostWait; otherwise leave must be
// called after the post.
func (h *hosts) enter(ctx context.Context, org orgs.ID, to string) (leave func(), ok bool) {
	one := h.of(org, to)
	ctx, cancel := context.WithTimeout(ctx, hostWait)
	defer cancel()
	select {
	case one.busy <- struct{}{}:
	case <-ctx.Done():
		h.leave(one)
		return nil, false
	}
	if one.pace.Wait(ctx) != nil {
		<-one.busy
		h.leave(one)
		return nil, false
	}
	return func() {
		<-one.busy
		h.leave(one)
	}, true
}

// of finds the destination of a URL and counts a post to it.
func (h *hosts) of(org orgs.ID, to string) *host {
	name := to
	if parsed, err := url.Parse(to); err == nil {
		name = strings.TrimSuffix(strings.ToLower(parsed.Hostname()), ".")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.known[destination{org, name}]
	if one == nil {
		h.forget()
		one = &host{pace: rate.NewLimiter(rate.Limit(h.perSecond), max(1, h.perSecond/10)), busy: make(chan struct{}, hostConns)}
		h.known[destination{org, name}] = one
	}
	one.posts++
	return one
}

func (h *hosts) leave(one *host) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one.posts--
}

// forget drops hosts without posts whose pace has recovered, once there are many.
func (h *hosts) forget() {
	if len(h.known) < mostHosts {
		return
	}
	for to, one := range h.known {
		if one.posts == 0 && one.pace.Tokens() >= float64(one.pace.Burst()) {
			delete(h.known, to)
		}
	}
}
