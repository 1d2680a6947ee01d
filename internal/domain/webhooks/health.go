package webhooks

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// health counts the recent failures of an endpoint. Only settled attempts and changes of the
// subscription write it.
type health struct {
	ConsecutiveFailures int
	FailingSince        *time.Time
	BreakerStep         int
	BreakerUntil        *time.Time
	Warned              int
}

const (
	// The breaker opens after breakerAt failures in a row, for breakerFirst, then twice as long
	// each time, up to breakerMost.
	breakerAt    = 5
	breakerFirst = 5 * time.Second
	breakerMost  = time.Hour
	// After disableAt failures in a row over disableAfter the subscription is disabled.
	disableAt    = 30
	disableAfter = 24 * time.Hour
)

// verdict says what a batch of attempts leads to.
type verdict struct {
	changed bool
	// blocked, unless nil, is until when nothing is sent.
	blocked *time.Time
	// disable, unless empty, is the reason to disable the subscription.
	disable string
	// warn, unless zero, is how close the subscription is to being disabled, in percent.
	warn int
}

// learn counts the outcomes of attempts, given in the order in which they ended.
func (h *health) learn(outcomes []outcome, now time.Time) (v verdict) {
	before, gone, failing := *h, false, false
	for _, one := range outcomes {
		if failing = !one.succeeded(); !failing {
			*h = health{}
			continue
		}
		gone = gone || one.status == http.StatusGone
		h.ConsecutiveFailures++
		if h.FailingSince == nil {
			h.FailingSince = &one.at
		}
	}
	switch {
	case gone:
		v.disable = ReasonGone
	case failing && h.ConsecutiveFailures >= disableAt && now.Sub(*h.FailingSince) >= disableAfter:
		v.disable = ReasonFailures
	case failing && h.ConsecutiveFailures >= breakerAt:
		h.open(now)
		v.blocked = h.BreakerUntil
	}
	v.warn = h.warning(now)
	v.changed = before != *h
	return v
}

// open opens the breaker. Failures of attempts that were under way when it opened do not open
// it for longer.
func (h *health) open(now time.Time) {
	if h.BreakerUntil != nil && now.Before(*h.BreakerUntil) {
		return
	}
	wait := breakerMost
	if h.BreakerStep < 10 {
		wait = min(breakerFirst<<h.BreakerStep, breakerMost)
	}
	until := now.Add(wait)
	h.BreakerStep, h.BreakerUntil = h.BreakerStep+1, &until
}

// warning returns 50, 70 or 90 when the subscription has newly come that far, in percent, towards
// being disabled; else zero.
func (h *health) warning(now time.Time) int {
	if h.FailingSince == nil {
		return 0
	}
	near := min(h.ConsecutiveFailures*100/disableAt, int(now.Sub(*h.FailingSince)*100/disableAfter))
	for _, step := range []int{90, 70, 50} {
		if near >= step && h.Warned < step {
			h.Warned = step
			return step
		}
	}
	return 0
}

// steps are the waits after the first, second, … attempt; later attempts wait as long as the last.
func steps() []time.Duration {
	return []time.Duration{
		5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
		2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 10 * time.Hour,
	}
}

const (
	maxAttempts = 10
	// minDeadAge: a younger delivery is retried even after maxAttempts.
	minDeadAge = 24 * time.Hour
)

// next is when to try again after a failed attempt; nil gives the delivery up.
func next(created time.Time, attempt int, one outcome, now time.Time) *time.Time {
	if attempt >= maxAttempts && now.Sub(created) >= minDeadAge {
		return nil
	}
	all := steps()
	step := all[min(attempt, len(all))-1]
	wait := time.Duration(float64(step) * (0.9 + 0.2*rand.Float64())) //nolint:gosec // jitter
	at := now.Add(max(wait, min(asked(one.retryAfter, now), 2*step))).Truncate(time.Millisecond)
	return &at
}

// asked is the wait that the Retry-After header asks for; zero if there is none.
func asked(retryAfter string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(retryAfter, 10, 31); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(seconds) * time.Second // a larger number counts as 31 bits
	}
	if at, err := http.ParseTime(retryAfter); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
