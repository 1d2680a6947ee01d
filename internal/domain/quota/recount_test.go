package quota_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/quota"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

var march = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// messages stands in for the messages of an organization: the times at which they were accepted.
type messages struct {
	mu sync.Mutex
	at []time.Time
	// before runs before each count; nil for nothing.
	before func()
}

func (m *messages) accept(n int, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for range n {
		m.at = append(m.at, at)
	}
}

func (m *messages) count(_ context.Context, _ orgs.ID, from, to time.Time) (n int64, err error) {
	if m.before != nil {
		m.before()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, at := range m.at {
		if !at.Before(from) && at.Before(to) {
			n++
		}
	}
	return n, nil
}

// accept reserves and stores n messages, one by one.
func (f fixture) accept(t testing.TB, m *messages, p *quota.Service, n int) {
	t.Helper()
	for range n {
		require.NoError(t, reserve(t, f, p, limit, 1))
		m.accept(1, f.Clock.Now())
	}
}

func (f fixture) recount(t testing.TB, p *quota.Service) int64 {
	t.Helper()
	missing, err := p.Recount(t.Context(), f.org, march)
	require.NoError(t, err)
	return missing
}

func TestRecount_ProcessKilled_AddsWhatItForgot(t *testing.T) {
	t.Parallel()
	f, m := newFixture(t), &messages{}
	killed, p := f.process(), f.process()
	p.CountWith(m.count)
	f.accept(t, m, killed, 40)
	f.requireUsed(t, 1)
	f.Clock.Move(time.Minute + time.Millisecond)
	require.Zero(t, f.recount(t, p), "the process may only be slow")
	f.Clock.Move(time.Minute)
	require.EqualValues(t, 39, f.recount(t, p))
	f.requireUsed(t, 40)
	require.Zero(t, f.recount(t, p))
}

func TestRecount_ProcessesLive_CountsNothingTwice(t *testing.T) {
	t.Parallel()
	f, m := newFixture(t), &messages{}
	living := []*quota.Service{f.process(), f.process()}
	p := f.process()
	p.CountWith(m.count)
	// Each count is interrupted by accepts and flushes.
	m.before = func() {
		for _, one := range living {
			f.accept(t, m, one, 3)
		}
		require.NoError(t, living[0].Flush(t.Context()))
	}
	for range 70 {
		f.accept(t, m, living[0], 7)
		f.accept(t, m, living[1], 1)
		f.pass(t, t.Context(), living)
	}
	require.Zero(t, f.recount(t, p))
	for _, one := range living {
		require.NoError(t, one.Close(t.Context()))
	}
	f.requireUsed(t, len(m.at))
}

func TestRecount_MessagesErased_KeepsTheCount(t *testing.T) {
	t.Parallel()
	f, m := newFixture(t), &messages{}
	p := f.process()
	p.CountWith(m.count)
	f.seed(t, 500)
	f.Clock.Move(time.Hour)
	require.Zero(t, f.recount(t, p))
	f.requireUsed(t, 500)
}

func TestRecount_TwiceAtOnce_AddsOnce(t *testing.T) {
	t.Parallel()
	f, m := newFixture(t), &messages{}
	p, other := f.process(), f.process()
	f.seed(t, 1)
	m.accept(10, f.Clock.Now())
	f.Clock.Move(time.Hour)
	other.CountWith(m.count)
	var once sync.Once
	p.CountWith(func(ctx context.Context, org orgs.ID, from, to time.Time) (int64, error) {
		once.Do(func() { require.EqualValues(t, 9, f.recount(t, other)) })
		return m.count(ctx, org, from, to)
	})
	require.Zero(t, f.recount(t, p))
	f.requireUsed(t, 10)
}

func TestRecount_CountFails_NothingChanges(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.process()
	f.seed(t, 1)
	broken := errors.New("broken")
	p.CountWith(func(context.Context, orgs.ID, time.Time, time.Time) (int64, error) { return 7, broken })
	_, err := p.Recount(t.Context(), f.org, march)
	require.ErrorIs(t, err, broken)
	f.requireUsed(t, 1)
}

// The job runs a day after the first message, when the last tenth is reached, and an hour after the
// end of the month for the last time.
func TestLookAfter_DueMonths_OneJobEach(t *testing.T) {
	t.Parallel()
	f, m := newFixture(t), &messages{}
	due := func(want int) {
		t.Helper()
		begun, err := f.Quota.LookAfter(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, begun)
	}
	f.seed(t, 9_000-1)
	f.Clock.Move(24 * time.Hour)
	f.Quota.CountWith(nil)
	due(0) // nothing counts messages
	f.Quota.CountWith(m.count)
	due(1)
	due(0)
	p := f.process()
	f.warm(t, p, limit)
	require.NoError(t, reserve(t, f, p, limit, 1))
	f.pass(t, t.Context(), []*quota.Service{p})
	due(1) // the last tenth was reached
	due(0)
	m.accept(9_100, march)
	f.Work(t)
	require.Eventually(t, func() bool {
		waiting, err := postgres.One[int](t.Context(), f.DB.System("test"),
			`SELECT count(*) FROM `+jobs.Table+` WHERE kind = 'quota_recount' AND state <> 'completed'`, nil)
		return err == nil && waiting == 0
	}, 3*time.Minute, 5*time.Millisecond, "both jobs ran")
	f.requireUsed(t, 9_100)

	f.Clock.Move(march.AddDate(0, 1, 0).Add(time.Hour).Sub(f.Clock.Now()))
	require.Zero(t, f.recount(t, f.Quota))
	f.Clock.Move(24 * time.Hour)
	due(0)
}
