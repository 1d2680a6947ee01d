package ratelimit

import "time"

// Limit is a bucket's size and how fast it fills; one without either allows nothing.
type Limit struct{ PerSecond, Burst int }

// Decision is the answer to one request, in the terms of the rate limit headers.
type Decision struct {
	Allowed bool
	// Limit is the size of the bucket.
	Limit int
	// Remaining is what could be spent at once after this request.
	Remaining int
	// Reset is how long the bucket takes to be full again.
	Reset time.Duration
	// RetryAfter is zero unless the request is refused.
	RetryAfter time.Duration
}

// RetryAfterSeconds is for the header: rounded up, at least 1 when refused and 0 when allowed.
func (d Decision) RetryAfterSeconds() int {
	if d.Allowed {
		return 0
	}
	return max(1, wholeSeconds(d.RetryAfter))
}

// ResetSeconds is for the header: rounded up.
func (d Decision) ResetSeconds() int { return wholeSeconds(d.Reset) }

func wholeSeconds(d time.Duration) int {
	return int((max(d, 0) + time.Second - 1) / time.Second)
}

// longestWindow keeps sums with the time of day far from the end of int64.
const longestWindow = int64(1_000_000_000 * time.Second)

// shape is a limit as the generic cell rate algorithm counts, in nanoseconds.
type shape struct {
	burst int64
	// interval is the time in which one token comes; rounded up, so that the rate is never exceeded.
	interval int64
	// window is the time from empty to full.
	window int64
}

func shapeOf(limit Limit) shape {
	if limit.PerSecond < 1 || limit.Burst < 1 {
		return shape{}
	}
	rate := int64(limit.PerSecond)
	interval := (int64(time.Second) + rate - 1) / rate
	burst := min(int64(limit.Burst), longestWindow/interval)
	return shape{burst: burst, interval: interval, window: burst * interval}
}

// block is how many tokens a process may take ahead of its requests: a tenth of the
// bucket and at most what comes in a second, so that an unspent block is soon made good;
// beyond 50 only as much as comes in a tenth of a second.
func (s shape) block() int64 {
	rate := int64(time.Second) / s.interval
	return min(s.burst/10, rate, max(50, rate/10))
}

// bucket is a token bucket as one number.
type bucket struct {
	shape

	// fullAt is the moment at which the bucket will be full if nobody takes from it.
	fullAt int64
}

// missing is the time to full; more than a whole window can only come from a clock that
// went back or a limit that was lowered, and would lock the caller out.
func (b *bucket) missing(now int64) int64 {
	if b.fullAt > now+b.window {
		b.fullAt = now + b.window
	}
	return max(0, b.fullAt-now)
}

func (b *bucket) tokens(now int64) int64 { return (b.window - b.missing(now)) / b.interval }

func (b *bucket) spend(now int64) { b.fullAt = now + b.missing(now) + b.interval }
