package idempotency_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/idempotency"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/factory"
)

// TestLease_HeldExpiredLapsedEnded_EachTransition takes one key through all states of a lease.
func TestLease_HeldExpiredLapsedEnded_EachTransition(t *testing.T) {
	t.Parallel()
	ctx, w := t.Context(), factory.New(t)
	org, _ := w.Org(t)
	request := idempotency.Request{Org: org, Key: "key", Parts: [][]byte{[]byte("body")}}
	other := idempotency.Request{Org: org, Key: "key", Parts: [][]byte{[]byte("other body")}}
	run := func(do func(tx *postgres.Tx) error) error {
		_, err := postgres.InTx(ctx, w.DB, org, func(tx *postgres.Tx) (bool, error) { return true, do(tx) })
		return err
	}
	take := func(request idempotency.Request) (lease idempotency.Lease, err error) {
		err = run(func(tx *postgres.Tx) error {
			lease, err = w.Idempotency.LeaseTx(ctx, tx, request)
			return err
		})
		return lease, err
	}
	first, err := take(request)
	require.NoError(t, err)
	require.False(t, first.Repeated)
	_, err = take(request)
	require.Equal(t, fault.IdempotencyInProgress, fault.Of(err))
	_, err = take(other)
	require.Equal(t, fault.IdempotencyKeyReuse, fault.Of(err))
	err = run(func(tx *postgres.Tx) error { return w.Idempotency.ClaimTx(ctx, tx, other) })
	require.Equal(t, fault.IdempotencyKeyReuse, fault.Of(err), "requests without a lease are refused too")
	w.Clock.Move(idempotency.LeaseTime - time.Millisecond)
	_, err = take(request)
	require.Equal(t, fault.IdempotencyInProgress, fault.Of(err))

	w.Clock.Move(time.Millisecond)
	second, err := take(request)
	require.NoError(t, err)
	require.True(t, second.Repeated, "the request before it never ended")
	_, err = take(other)
	require.Equal(t, fault.IdempotencyKeyReuse, fault.Of(err))
	err = run(func(tx *postgres.Tx) error { return w.Idempotency.ClaimLeaseTx(ctx, tx, first) })
	require.Equal(t, fault.IdempotencyInProgress, fault.Of(err), "the holder of an expired lease cannot store an answer")
	require.NoError(t, run(func(tx *postgres.Tx) error { return w.Idempotency.EndTx(ctx, tx, first) }))
	require.NoError(t, run(func(tx *postgres.Tx) error { return w.Idempotency.LapseTx(ctx, tx, first) }))
	_, err = take(request)
	require.Equal(t, fault.IdempotencyInProgress, fault.Of(err), "nor end the lease of another holder")

	require.NoError(t, run(func(tx *postgres.Tx) error { return w.Idempotency.LapseTx(ctx, tx, second) }))
	third, err := take(request)
	require.NoError(t, err)
	require.True(t, third.Repeated)
	require.True(t, idempotency.Repeats(idempotency.With(ctx, third)))
	require.False(t, idempotency.Repeats(ctx))
	require.NoError(t, run(func(tx *postgres.Tx) error {
		if err := w.Idempotency.ClaimLeaseTx(ctx, tx, third); err != nil {
			return err
		}
		if err := w.Idempotency.EndTx(ctx, tx, third); err != nil {
			return err
		}
		return w.Idempotency.KeepTx(ctx, tx, request, idempotency.Answer{Status: 200, Body: []byte("answer")})
	}))
	_, err = take(request)
	require.ErrorIs(t, err, idempotency.ErrStored)
	stored, err := w.Idempotency.Find(ctx, w.DB.Of(org), request)
	require.NoError(t, err)
	require.Equal(t, "answer", string(stored.Body))

	w.Clock.Move(idempotency.Window)
	free, err := take(other)
	require.NoError(t, err)
	require.False(t, free.Repeated, "after a day the key is free")
	require.NoError(t, run(func(tx *postgres.Tx) error { return w.Idempotency.EndTx(ctx, tx, free) }))
	again, err := take(request)
	require.NoError(t, err)
	require.False(t, again.Repeated, "after a refusal the key is free")
}

// TestLease_DuplicateLooksMeanwhile_HolderStores: a duplicate holds the locks of the key for a moment, just when the holder of the
// lease wants to store its answer.
func TestLease_DuplicateLooksMeanwhile_HolderStores(t *testing.T) {
	t.Parallel()
	ctx, w := t.Context(), factory.New(t)
	org, _ := w.Org(t)
	request := idempotency.Request{Org: org, Key: "key", Parts: [][]byte{[]byte("body")}}
	lease, err := postgres.InTx(ctx, w.DB, org, func(tx *postgres.Tx) (idempotency.Lease, error) { return w.Idempotency.LeaseTx(ctx, tx, request) })
	require.NoError(t, err)
	stored := make(chan error, 1)
	_, err = postgres.InTx(ctx, w.DB, org, func(tx *postgres.Tx) (bool, error) {
		_, refused := w.Idempotency.LeaseTx(ctx, tx, request)
		go func() {
			_, err := postgres.InTx(ctx, w.DB, org, func(tx *postgres.Tx) (bool, error) { return true, w.Idempotency.ClaimLeaseTx(ctx, tx, lease) })
			stored <- err
		}()
		require.Eventually(t, func() bool {
			waits, err := postgres.One[bool](ctx, w.DB.System("locks"), `
SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`, nil)
			return err == nil && waits || len(stored) == 1
		}, 3*time.Minute, 10*time.Millisecond)
		return false, refused
	})
	require.Equal(t, fault.IdempotencyInProgress, fault.Of(err))
	require.NoError(t, <-stored)
}
