package messages

import (
	"context"
	"sync"
	"time"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// The network has no idempotency key. An attempt whose result is unknown (no answer, or its process
// died) may have been executed; only a callback with its reference proves it. So the message waits
// echoWait for that callback before it is sent again, once.

const (
	// mostEchoWait is the longest wait while callbacks do not arrive.
	mostEchoWait = 10 * time.Minute
	// lookAgain is how long a message waits that is held back only because callbacks are late.
	lookAgain = 2 * time.Second
	// fewestJudged is the number of accepted attempts without which nothing is said about callbacks.
	fewestJudged = 5
	// judgedSpan is the length of the period whose accepted attempts are counted.
	judgedSpan = 2 * time.Minute
)

// unknownWords are the error of a message that is not sent again although nothing is known of its last attempt.
const unknownWords = "The provider did not say whether it took the message, and it is not sent again. It may have been delivered."

// resendTx decides about a message whose last attempt has no known result. It returns the time of the
// next check; zero if it wrote a new attempt, or gave the message up by setting row.refusal.
func (w *sender) resendTx(ctx context.Context, tx *postgres.Tx, row *begun, now time.Time) (wait time.Time, err error) {
	due := row.BegunAt.Add(w.s.echoWait)
	if now.Before(due) {
		return due, nil
	}
	late, err := w.callbacksLate(ctx, tx, *row.BegunAt, now)
	if err != nil || late {
		return now.Add(lookAgain), err
	}
	if row.Resent {
		row.unproved = true
		row.refusal = fault.New(fault.UpstreamError, unknownWords)
		return time.Time{}, nil
	}
	row.Attempt, row.Resent, row.BegunAt = row.Attempt+1, true, &now
	return time.Time{}, writeResend(ctx, tx, row.ID, row.Attempt, now)
}

// callbacksLate tells that the missing callback may still come: a callback of the number that was
// stored in time is not applied yet, or callbacks evidently do not arrive.
func (w *sender) callbacksLate(ctx context.Context, tx *postgres.Tx, begun, now time.Time) (bool, error) {
	account, _ := w.known()
	waiting, err := w.s.callbacks.WaitingTx(ctx, tx, *account.PhoneNumberID, begun.Add(w.s.echoWait))
	if err != nil || waiting {
		return waiting, err
	}
	if !now.Before(begun.Add(mostEchoWait)) {
		return false, nil
	}
	counted, err := countMinutes(ctx, tx, now.Add(-w.s.echoWait-judgedSpan), now.Add(-w.s.echoWait))
	return err == nil && counted.Accepted >= fewestJudged && counted.CalledBack*2 < counted.Accepted, err
}

// minutes counts, in memory, the attempts that the provider accepted and those that had a callback,
// by the minute of their acceptance. FlushMinutes adds them to the cell's counts.
type minutes struct {
	mu     sync.Mutex
	counts map[time.Time]*minute
}

type minute struct {
	Minute     time.Time
	Accepted   int64
	CalledBack int64
}

// add counts attempts of the minute in which they were accepted.
func (m *minutes) add(at time.Time, accepted, calledBack int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counts == nil {
		m.counts = map[time.Time]*minute{}
	}
	key := at.Truncate(time.Minute)
	if m.counts[key] == nil {
		m.counts[key] = &minute{Minute: key}
	}
	m.counts[key].Accepted += accepted
	m.counts[key].CalledBack += calledBack
}

// take returns what was counted and starts again.
func (m *minutes) take() []minute {
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := make([]minute, 0, len(m.counts))
	for _, one := range m.counts {
		taken = append(taken, *one)
	}
	m.counts = nil
	return taken
}

// FlushMinutes adds what this process counted to the cell's counts. Every process that does
// background work calls it every second. If a process dies, the counts of its last second are lost, so
// that the share of missing callbacks is slightly wrong for two minutes.
func (s *Service) FlushMinutes(ctx context.Context) error {
	taken := s.minutes.take()
	if len(taken) == 0 {
		return nil
	}
	if err := addMinutes(ctx, s.work, taken); err != nil {
		for _, one := range taken {
			s.minutes.add(one.Minute, one.Accepted, one.CalledBack)
		}
		return err
	}
	return nil
}
