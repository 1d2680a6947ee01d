package ratelimit

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
)

// Local is a set of equal buckets in this process alone, for callers without an
// organization, as failed authentications per address.
type Local struct {
	limiter *Limiter
	limit   Limit
}

// NewLocal holds at most 50,000 buckets and needs no Close.
func NewLocal(limit Limit, c clock.Clock) *Local {
	return &Local{limiter: New(Options{Clock: c}), limit: limit}
}

// Take spends one token of key's bucket, or says when to come back.
func (l *Local) Take(key string) Decision {
	return l.limiter.Take(context.Background(), key, l.limit)
}

// Peek tells what Take would decide and spends nothing: it refuses before the work whose
// failure is then counted by Take.
func (l *Local) Peek(key string) Decision {
	shape := shapeOf(l.limit)
	e, found := l.limiter.entries.Get(key)
	if shape.burst < 1 || !found {
		return Decision{Allowed: shape.burst > 0, Limit: int(shape.burst), Remaining: int(shape.burst)}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.adopt(shape) // it may be so new that Take has not yet
	now := l.limiter.clock.Now().UnixNano()
	if e.tokens(now) < 1 {
		return e.refused(now)
	}
	return Decision{Allowed: true, Limit: int(e.burst), Remaining: int(e.tokens(now)), Reset: time.Duration(e.missing(now))}
}
