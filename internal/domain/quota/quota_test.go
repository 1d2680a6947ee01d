package quota_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/quota"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

const limit = 10_000 // an allowance is 50

func reserve(t testing.TB, f fixture, p *quota.Service, limit int64, n int) error {
	t.Helper()
	_, err := p.Reserve(t.Context(), f.org, limit, n)
	return err
}

func TestReserve_FarFromTheLimit_NoStatement(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.process()
	f.warm(t, p, limit)
	before := f.statements.Load()
	for range 49 {
		require.NoError(t, reserve(t, f, p, limit, 1))
	}
	require.Equal(t, before, f.statements.Load())
	f.requireUsed(t, 1)
	require.NoError(t, reserve(t, f, p, limit, 1))
	require.Greater(t, f.statements.Load(), before, "the allowance was used up")
	f.requireUsed(t, 51)
	f.pass(t, t.Context(), []*quota.Service{p})
	f.requireUsed(t, 52)

	view, err := f.Orgs.Overview(t.Context(), f.org)
	require.NoError(t, err)
	require.EqualValues(t, 52, view.QuotaUsed)
}

func TestReserve_AllowanceReturnedWhileIdle_GrantedAgainAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.process()
	f.warm(t, p, limit)
	f.Clock.Move(3 * time.Second)
	require.NoError(t, p.Flush(t.Context()))
	_, allowed := f.shared(t, t.Context())
	require.Zero(t, allowed, "the allowance was returned")
	f.warm(t, p, limit)
	before := f.statements.Load()
	for range 40 {
		require.NoError(t, reserve(t, f, p, limit, 1))
	}
	require.Equal(t, before, f.statements.Load(), "the second message got an allowance")
}

func TestReserve_FewMessages_CountedInTheRow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.process()
	for n := range 4 {
		require.NoError(t, reserve(t, f, p, limit, 1))
		used, allowed := f.shared(t, t.Context())
		require.EqualValues(t, n+1, used)
		require.Zero(t, allowed, "one message in 3 s needs no allowance")
		f.Clock.Move(3 * time.Second)
	}
}

func TestReserve_NotFlushedForSeconds_AsksTheRow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.process()
	f.warm(t, p, limit)
	f.Clock.Move(3*time.Second - time.Millisecond)
	before := f.statements.Load()
	require.NoError(t, reserve(t, f, p, limit, 1))
	require.Equal(t, before, f.statements.Load())
	f.Clock.Move(time.Millisecond)
	f.seed(t, limit-3)
	require.Equal(t, fault.QuotaExceeded, fault.Of(reserve(t, f, p, limit, 1)))
	require.Greater(t, f.statements.Load(), before)
	f.requireUsed(t, limit)
}

func TestReserve_Exceeded_SaysLimitAndReset(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.seed(t, 98)
	p := f.process()
	require.EqualError(t, reserve(t, f, p, 100, 3), "quota_exceeded: The plan of this organization includes 100 messages a month, "+
		"and 98 are used, so that 3 more do not fit. The quota resets at 2026-04-01T00:00:00.000Z; a larger plan counts at once.")
	require.NoError(t, reserve(t, f, p, 100, 2))
	require.EqualError(t, reserve(t, f, p, 100, 1), "quota_exceeded: The plan of this organization includes 100 messages a month, "+
		"and all are used. The quota resets at 2026-04-01T00:00:00.000Z; a larger plan counts at once.")
	require.Equal(t, fault.QuotaExceeded, fault.Of(reserve(t, f, p, 0, 1)))
	f.requireUsed(t, 100)
}

func TestReserve_NoMessages_NothingCounted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r, err := f.process().Reserve(t.Context(), f.org, 0, 0)
	require.NoError(t, err)
	r.GiveBack()
	f.requireUsed(t, 0)
}

func TestReserve_PlanChanges_EffectiveAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p, other := f.process(), f.process()
	f.warm(t, p, limit)
	f.warm(t, other, limit)
	require.NoError(t, reserve(t, f, p, limit, 10))
	require.Equal(t, fault.QuotaExceeded, fault.Of(reserve(t, f, p, 12, 1)), "a smaller plan, although the row has 2 of the 14")
	f.requireUsed(t, 13)
	require.NoError(t, reserve(t, f, p, limit, 1), "back on the larger one")
	require.NotNil(t, f.decided(t, t.Context(), p, 20, 5, []*quota.Service{p, other}), "when the other process has returned its allowance")
	require.Equal(t, fault.QuotaExceeded, fault.Of(reserve(t, f, p, 20, 1)))
	require.NoError(t, reserve(t, f, p, 21, 1), "one message more")
	require.NoError(t, p.Flush(t.Context()))
	f.requireUsed(t, 21)
}

func TestReserve_NewMonth_CountsFromZero(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.process()
	f.seed(t, 9_000-2)
	f.warm(t, p, limit)
	old, err := p.Reserve(t.Context(), f.org, limit, 7)
	require.NoError(t, err)
	require.NoError(t, reserve(t, f, p, limit, 5))
	f.Clock.Move(time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC).Sub(f.Clock.Now()) - time.Millisecond)
	require.Equal(t, fault.QuotaExceeded, fault.Of(reserve(t, f, p, limit, 1_000)))
	f.Clock.Move(time.Millisecond)
	require.NoError(t, reserve(t, f, p, limit, 9_999))
	f.requireUsed(t, 9_999)
	old.GiveBack()
	f.pass(t, t.Context(), []*quota.Service{p})
	f.requireUsed(t, 9_999)
	f.Clock.Move(-2 * time.Second)
	f.requireUsed(t, 9_005)
}

func TestGiveBack_Refused_FreeAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p, other := f.process(), f.process()
	f.seed(t, 95)
	r, err := p.Reserve(t.Context(), f.org, 100, 5)
	require.NoError(t, err)
	require.Equal(t, fault.QuotaExceeded, fault.Of(reserve(t, f, p, 100, 1)))
	r.GiveBack()
	r.GiveBack()
	(*quota.Reservation)(nil).GiveBack()
	require.NoError(t, reserve(t, f, p, 100, 3), "at once in the same process")
	require.NoError(t, reserve(t, f, other, 100, 2))
	require.Equal(t, fault.QuotaExceeded, fault.Of(reserve(t, f, other, 100, 1)))

	r, err = f.process().Reserve(t.Context(), f.org, 101, 1)
	require.NoError(t, err)
	r.GiveBack()
	require.Equal(t, fault.QuotaExceeded, fault.Of(reserve(t, f, other, 101, 1)), "not yet flushed")
}

func TestReserve_TwentyOneProcesses_TwentyAllowances(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var living []*quota.Service
	for range 21 {
		living = append(living, f.process())
		f.warm(t, living[len(living)-1], limit)
	}
	_, allowed := f.shared(t, t.Context())
	require.EqualValues(t, limit/10, allowed)
	before := f.statements.Load()
	require.NoError(t, reserve(t, f, living[20], limit, 1))
	require.Greater(t, f.statements.Load(), before, "the last one reserves in the row")
	for _, p := range living {
		require.NoError(t, p.Close(t.Context()))
	}
	used, allowed := f.shared(t, t.Context())
	require.EqualValues(t, 43, used)
	require.Zero(t, allowed)
}

// Allowances are renewed while at most 90 % are used. A reservation of many messages that fits only
// without them must not be refused for ever.
func TestReserve_OnlyAllowancesInTheWay_FitsAfterASecond(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.seed(t, 9_000-4)
	busy := []*quota.Service{f.process(), f.process()}
	for _, p := range busy {
		f.warm(t, p, limit)
	}
	large := f.process()
	err := reserve(t, f, large, limit, 1_000)
	require.Equal(t, fault.ServiceUnavailable, fault.Of(err))
	for _, p := range busy {
		require.NoError(t, reserve(t, f, p, limit, 1), "still covered")
	}
	require.Equal(t, fault.QuotaExceeded, fault.Of(reserve(t, f, large, limit, 1_005)))
	f.pass(t, t.Context(), busy)
	require.NoError(t, reserve(t, f, large, limit, 998))
	f.requireUsed(t, limit)
}

func TestReserve_ProcessKilled_AllowanceExpires(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.warm(t, f.process(), limit)
	p := f.process()
	require.NoError(t, reserve(t, f, p, limit, 9_948))
	require.Equal(t, fault.ServiceUnavailable, fault.Of(reserve(t, f, p, limit, 51)))
	f.Clock.Move(10*time.Second - time.Millisecond)
	require.Equal(t, fault.ServiceUnavailable, fault.Of(reserve(t, f, p, limit, 51)))
	f.Clock.Move(time.Millisecond)
	require.NoError(t, reserve(t, f, p, limit, 51), "the message that the other process had in memory is forgotten")
	f.requireUsed(t, limit)
}

func TestReserve_DatabaseDown_CountsUpToTheAllowance(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	proxy := proc.NewProxy(t, f.address(t))
	db, err := postgres.Open(t.Context(), postgres.Config{URL: f.through(t, proxy.Address), Name: t.Name(), Tracers: pgtest.Tracers(t)})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	p := quota.New(quota.Deps{DB: db, Work: db, Clock: f.Clock, Jobs: f.Jobs, Logger: f.Logger})
	f.warm(t, p, limit)
	proxy.Off()
	for range 49 {
		require.NoError(t, reserve(t, f, p, limit, 1))
	}
	for range 2 {
		require.Equal(t, fault.ServiceUnavailable, fault.Of(reserve(t, f, p, limit, 1)))
	}
	require.Error(t, p.Flush(t.Context()))
	f.requireUsed(t, 1)
	proxy.On(t)
	require.Eventually(t, func() bool { return p.Flush(t.Context()) == nil }, 3*time.Minute, time.Millisecond)
	f.requireUsed(t, 51)
	require.NoError(t, reserve(t, f, p, limit, 1))
}

func TestFlush_OrganizationFrozen_ForgetsItsCount(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.process()
	f.warm(t, p, limit)
	f.freeze(t, true)
	require.Error(t, p.Flush(t.Context()))
	require.NoError(t, p.Flush(t.Context()), "it is not tried again")
	require.Equal(t, fault.ServiceUnavailable, fault.Of(reserve(t, f, p, limit, 1)))
	f.freeze(t, false)
	f.Clock.Move(10 * time.Second)
	require.NoError(t, reserve(t, f, p, limit, 1))
	f.requireUsed(t, 2)
}

func (f fixture) freeze(t testing.TB, on bool) {
	t.Helper()
	_, err := postgres.InFirstTx(t.Context(), f.work, f.org, func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(t.Context(), `UPDATE organizations SET frozen_at = CASE WHEN @on THEN @now::timestamptz END WHERE org_id = @org_id`,
			postgres.Args{"on": on, "now": f.Clock.Now()})
	})
	require.NoError(t, err)
}

func TestReserve_CallerGone_AllowanceStillGranted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.process()
	require.NoError(t, reserve(t, f, p, limit, 1))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.Reserve(gone, f.org, limit, 1)
	require.NoError(t, err, "the flush that others may wait for goes on")
	_, allowed := f.shared(t, t.Context())
	require.EqualValues(t, 50, allowed)
}

// TestRefuses_WhatThisProcessCounted_AndCountsNothing: the messages that are counted in memory only are included.
func TestRefuses_WhatThisProcessCounted_AndCountsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.process()
	require.NoError(t, p.Refuses(t.Context(), f.org, 1), "a month without a row")
	require.Equal(t, fault.QuotaExceeded, fault.Of(p.Refuses(t.Context(), f.org, 0)))
	f.warm(t, p, limit)
	f.requireUsed(t, 1) // the second is in memory
	for range 3 {
		require.NoError(t, p.Refuses(t.Context(), f.org, 3))
		require.Equal(t, fault.QuotaExceeded, fault.Of(p.Refuses(t.Context(), f.org, 2)))
	}
	require.NoError(t, p.Flush(t.Context()))
	f.requireUsed(t, 2)
	require.Equal(t, fault.QuotaExceeded, fault.Of(f.process().Refuses(t.Context(), f.org, 2)), "in another process")
}
