package api

import (
	"net/http"
	"strconv"
	"sync"

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

// gate limits how many requests are in one step of the pipeline at once in a cell. Lists may fill 60 % of the limit and
// single reads 80 %, so that room is left for more urgent requests. One organization may fill a quarter.
type gate struct {
	room [3]int
	most int

	mu       sync.Mutex
	inFlight int
	byOrg    map[orgs.ID]int
}

func newGate(size int) *gate {
	return &gate{
		room:  [...]int{urgent: size, single: max(1, size*8/10), lists: max(1, size*6/10)},
		most:  max(1, size/4),
		byOrg: map[orgs.ID]int{},
	}
}

// enter lets a request in, or returns why there is no room: its class, or "organization" if that has filled its part.
func (g *gate) enter(c class, org orgs.ID) (leave func(), full string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.byOrg[org] >= g.most:
		return nil, "organization"
	case g.inFlight >= g.room[c]:
		return nil, c.String()
	}
	g.inFlight++
	g.byOrg[org]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.inFlight--
		if g.byOrg[org]--; g.byOrg[org] == 0 {
			delete(g.byOrg, org)
		}
	}, ""
}
