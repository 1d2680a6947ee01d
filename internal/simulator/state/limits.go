package state

import (
	"time"
)

// bucket is a token bucket. Inbound messages may overdraw it, because they cannot be refused.
type bucket struct {
	Tokens float64
	at     time.Time
}

// Refill adds the tokens for the time since the last refill, up to most.
func (b *bucket) Refill(now time.Time, perSecond, most float64) {
	if b.at.IsZero() {
		b.Tokens = most
	} else if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.Tokens = min(most, b.Tokens+passed*perSecond)
	}
	b.at = now
}

// Spend takes one token and returns false when there is none.
func (b *bucket) Spend(now time.Time, perSecond, most float64) bool {
	if b.Refill(now, perSecond, most); b.Tokens < 1 {
		return false
	}
	b.Tokens--
	return true
}

// pairLimits holds a bucket per pair of number and user: one message in 6 seconds, bursts
// of up to 45.
type pairLimits struct{ buckets map[Pair]bucket }

const (
	pairEvery = 6 * time.Second
	pairBurst = 45
)

func newPairLimits() *pairLimits { return &pairLimits{buckets: map[Pair]bucket{}} }

// Spend takes one token of a pair and returns false when there is none.
func (p *pairLimits) Spend(pair Pair, now time.Time) bool {
	b, found := p.buckets[pair]
	if !found && len(p.buckets) >= maxPairs {
		makeRoom(p.buckets, func(b bucket) bool { return now.Sub(b.at) > pairBurst*pairEvery })
	}
	allowed := b.Spend(now, 1/pairEvery.Seconds(), pairBurst)
	p.buckets[pair] = b
	return allowed
}

// usage counts the management calls of the present hour.
type usage struct {
	Since time.Time
	count int
}

// Percent counts a call and returns how much of the hour's quota is used.
func (u *usage) Percent(now time.Time, quota int) int {
	if now.Sub(u.Since) >= time.Hour {
		*u = usage{Since: now}
	}
	u.count++
	return u.count * 100 / quota
}
