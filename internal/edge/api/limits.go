package api

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ratelimit"
)

// spendToken spends a token of the organization's rate limit, or refuses the request.
func (a *API) spendToken(c *call) error {
	decision := a.Limiter.Spend(c.ctx(), c.org().String(), ratelimit.Limit{PerSecond: c.caller.RatePerSecond, Burst: c.caller.RateBurst})
	c.bucket = &decision
	if decision.Allowed {
		return nil
	}
	return &fault.Error{
		Code:       fault.RateLimitExceeded,
		Message:    "The organization sends requests faster than its plan allows. Retry after the time given in Retry-After.",
		RetryAfter: decision.RetryAfter,
	}
}

// setBucketHeaders sets the headers of the rate limit. It does not use Set, which would change the
// case of the names.
func setBucketHeaders(header http.Header, bucket *ratelimit.Decision) {
	header["RateLimit-Limit"] = []string{strconv.Itoa(bucket.Limit)}
	header["RateLimit-Remaining"] = []string{strconv.Itoa(bucket.Remaining)}
	header["RateLimit-Reset"] = []string{strconv.Itoa(bucket.ResetSeconds())}
}

// class is how urgent a route is. Under load lists are refused first, then single reads, and writes
// last.
type class int

const (
	urgent class = iota
	single
	lists
)

func (c class) String() string { return [...]string{"urgent", "single", "list"}[c] }

// gate limits how many requests run at once in a cell. Lists may fill 60 % of the limit, single reads
// 80 %, so that room is left for more urgent requests. One organization may fill three quarters.
type gate struct {
	inFlight atomic.Int64
	room     [3]int64

	mu    sync.Mutex
	byOrg map[orgs.ID]int
	most  int
}

func newGate(size int) *gate {
	whole := int64(size)
	return &gate{
		room:  [...]int64{urgent: whole, single: max(1, whole*8/10), lists: max(1, whole*6/10)},
		byOrg: map[orgs.ID]int{},
		most:  max(1, size*3/4),
	}
}

func (g *gate) enter(c class) (leave func(), err error) {
	for {
		inside := g.inFlight.Load()
		if inside >= g.room[c] {
			return nil, fault.Unavailable(time.Second, nil)
		}
		if g.inFlight.CompareAndSwap(inside, inside+1) {
			return func() { g.inFlight.Add(-1) }, nil
		}
	}
}

// share lets a request in unless its organization fills its part of the limit.
func (g *gate) share(org orgs.ID) (leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.byOrg[org] >= g.most {
		return nil, fault.Unavailable(time.Second, nil)
	}
	g.byOrg[org]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.byOrg[org]--; g.byOrg[org] == 0 {
			delete(g.byOrg, org)
		}
	}, nil
}
