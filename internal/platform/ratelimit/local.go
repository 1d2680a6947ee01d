package ratelimit

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
)

// Local is a set of buckets with one limit, in this process only, for keys that are not
// organizations: failed authentications per address.
type Local struct {
	limiter *Limiter
	limit   Limit
}

// NewLocal holds at most 50,000 buckets and needs no Close.
func NewLocal(limit Limit, c clock.Clock) *Local {
	return &Local{limiter: New(Options{Clock: c}), limit: limit}
}

// Spend spends one token of key's bucket, or returns when to retry.
func (l *Local) Spend(key string) Decision {
	return l.limiter.Spend(context.Background(), key, l.limit)
}

// Peek returns what Spend would decide and spends nothing. A caller peeks before the work, and
// spends a token when the work fails.
func (l *Local) Peek(key string) Decision {
	shape := shapeOf(l.limit)
	e, found := l.limiter.entries.Get(key)
	if shape.burst < 1 || !found {
		return Decision{Allowed: shape.burst > 0, Limit: int(shape.burst), Remaining: int(shape.burst)}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.adopt(shape) // Spend may have added the entry and not have set its shape yet
	now := l.limiter.clock.Now().UnixNano()
	if e.tokens(now) < 1 {
		return e.refused(now)
	}
	return Decision{Allowed: true, Limit: int(e.burst), Remaining: int(e.tokens(now)), Reset: time.Duration(e.missing(now))}
}
