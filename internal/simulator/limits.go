package simulator

import (
	"time"
)

// bucket is tokens that come back with time. It may be overdrawn by what cannot be refused.
type bucket struct {
	tokens float64
	at     time.Time
}

// refill gives back what time has earned, up to most.
func (b *bucket) refill(now time.Time, perSecond, most float64) {
	if b.at.IsZero() {
		b.tokens = most
	} else if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.tokens = min(most, b.tokens+passed*perSecond)
	}
	b.at = now
}

// take takes one token, or tells that there is none.
func (b *bucket) take(now time.Time, perSecond, most float64) bool {
	if b.refill(now, perSecond, most); b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// perSecond is how many messages a number may exchange.
func (n *number) perSecond() float64 {
	switch {
	case n.Coexistence:
		return 20
	case n.Throughput == "HIGH":
		return 1000
	default:
		return 80
	}
}

// pairs holds how much each pair of number and user has borrowed from the future: one
// message in 6 seconds is free, up to 45 may be borrowed.
type pairs struct{ buckets map[pair]bucket }

const (
	pairEvery = 6 * time.Second
	pairBurst = 45
)

func newPairs() *pairs { return &pairs{buckets: map[pair]bucket{}} }

func (p *pairs) take(which pair, now time.Time) bool {
	b, known := p.buckets[which]
	if !known && len(p.buckets) >= maxPairs {
		makeRoom(p.buckets, func(b bucket) bool { return now.Sub(b.at) > pairBurst*pairEvery })
	}
	allowed := b.take(now, 1/pairEvery.Seconds(), pairBurst)
	p.buckets[which] = b
	return allowed
}

// usage counts the management calls of an hour.
type usage struct {
	since time.Time
	count int
}

// percent counts a call and tells how much of the hour's share is used.
func (u *usage) percent(now time.Time, share int) int {
	if now.Sub(u.since) >= time.Hour {
		*u = usage{since: now}
	}
	u.count++
	return u.count * 100 / share
}
