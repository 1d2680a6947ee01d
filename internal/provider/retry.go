package provider

import (
	"math/rand/v2"
	"time"
)

// MaxRetryWait is the longest wait before one retry, in answer to a Retry-After.
const MaxRetryWait = 15 * time.Minute

// retrySteps are the waits before the second and the later tries, give or take a tenth.
var retrySteps = [...]time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute} //nolint:gochecknoglobals // a constant

// RetryAt returns when a message is tried again, its send or the uploads of its files, after that many transient failures; false
// after the fifth. The provider's retryAfter may make the wait longer, up to MaxRetryWait; zero asks for nothing.
func RetryAt(failures int, retryAfter time.Duration, now time.Time) (time.Time, bool) {
	if failures > len(retrySteps) {
		return time.Time{}, false
	}
	step := retrySteps[failures-1]
	wait := step - step/10 + rand.N(step/5) //nolint:gosec // jitter
	return now.Add(max(wait, min(retryAfter, MaxRetryWait))), true
}
