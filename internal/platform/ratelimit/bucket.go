package ratelimit

import "time"

// Limit is the size of a bucket and how fast it fills. A limit below one in either field allows
// nothing.
type Limit struct {
	// PerSecond is the number of tokens that come back each second.
	PerSecond int
	// Burst is the number of tokens in a full bucket.
	Burst int
}

// Decision is the answer to one request, in the terms of the rate limit headers.
type Decision struct {
	Allowed bool
	// Limit is the size of the bucket.
	Limit int
	// Remaining is the number of tokens left after this request.
	Remaining int
	// Reset is the time until the bucket is full again.
	Reset time.Duration
	// RetryAfter is the time until the next token; zero unless the request is refused.
	RetryAfter time.Duration
}

// RetryAfterSeconds is RetryAfter for the header: rounded up, at least 1 when refused and 0 when
// allowed.
func (d Decision) RetryAfterSeconds() int {
	if d.Allowed {
		return 0
	}
	return max(1, wholeSeconds(d.RetryAfter))
}

// ResetSeconds is Reset for the header, rounded up.
func (d Decision) ResetSeconds() int { return wholeSeconds(d.Reset) }

func wholeSeconds(d time.Duration) int {
	return int((max(d, 0) + time.Second - 1) / time.Second)
}

// longestWindow bounds the time from empty to full, in nanoseconds, so that adding it to the
// current time does not overflow int64.
const longestWindow = int64(1_000_000_000 * time.Second)

// shape is a limit in the terms of the generic cell rate algorithm. Times are in nanoseconds.
type shape struct {
	burst int64
	// interval is the time per token, rounded up, so that the rate is never exceeded.
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

// block is the number of tokens that a process may lease ahead of its requests: a tenth of the
// bucket, and at most the tokens of one second, so that a lost block is refilled within a second.
// Above 50 it is at most the tokens of a tenth of a second.
func (s shape) block() int64 {
	rate := int64(time.Second) / s.interval
	return min(s.burst/10, rate, max(50, rate/10))
}

// bucket is a token bucket as one number.
type bucket struct {
	shape

	// fullAt is the time, in nanoseconds since 1970, at which the bucket is full if no token is
	// spent until then.
	fullAt int64
}

// missing is the time until the bucket is full, at most one window. A longer time can only come
// from a clock that went back or a limit that was lowered, and would refuse the caller too long.
func (b *bucket) missing(now int64) int64 {
	if b.fullAt > now+b.window {
		b.fullAt = now + b.window
	}
	return max(0, b.fullAt-now)
}

func (b *bucket) tokens(now int64) int64 { return (b.window - b.missing(now)) / b.interval }

func (b *bucket) spend(now int64) { b.fullAt = now + b.missing(now) + b.interval }
