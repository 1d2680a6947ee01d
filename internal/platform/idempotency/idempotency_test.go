package idempotency_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/idempotency"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/factory"
)

// Duplicates of one request get idempotency_in_progress, other requests with the same key get
// idempotency_key_reuse.
func TestStore_ClaimTx_Concurrent_DuplicatesAndOtherRequestsRefused(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	org, _ := w.Org(t)
	claim := func(round, body int, hold *sync.WaitGroup) fault.Code {
		request := idempotency.Request{Org: org, Key: fmt.Sprint("round ", round), Parts: [][]byte{fmt.Append(nil, body)}}
		_, err := postgres.InTx(t.Context(), w.DB, org, func(tx *postgres.Tx) (int, error) {
			err := w.Idempotency.ClaimTx(t.Context(), tx, request)
			hold.Done()
			hold.Wait() // keep the locks until all have tried
			return 0, err
		})
		return fault.Of(err)
	}
	for round := range 300 {
		bodies := []int{0, 0, 0, 0, 0, 0}
		if round%2 == 1 {
			bodies = []int{0, 0, 0, 1, 2, 3}
		}
		codes := make([]fault.Code, len(bodies))
		var hold, done sync.WaitGroup
		hold.Add(len(bodies))
		for i, body := range bodies {
			done.Go(func() { codes[i] = claim(round, body, &hold) })
		}
		done.Wait()
		counts := map[fault.Code]int{}
		for _, code := range codes {
			counts[code]++
		}
		require.Equal(t, 1, counts[""], "one claims: %v", counts)
		if round%2 == 0 {
			require.Equal(t, 5, counts[fault.IdempotencyInProgress], "the others are duplicates: %v", counts)
			continue
		}
		require.GreaterOrEqual(t, counts[fault.IdempotencyKeyReuse], 3, "%v", counts)
		require.Zero(t, 5-counts[fault.IdempotencyKeyReuse]-counts[fault.IdempotencyInProgress], "%v", counts)
	}
}

// A duplicate that has committed releases its two locks one after the other. A request that comes between sees the lock of
// the key held, and finds the answer.
func TestStore_ClaimTx_KeyStillLocked_AnswerFound(t *testing.T) {
	t.Parallel()
	ctx, w := t.Context(), factory.New(t)
	org, _ := w.Org(t)
	request := idempotency.Request{Org: org, Key: "key", Parts: [][]byte{[]byte("body")}}
	other := idempotency.Request{Org: org, Key: "key", Parts: [][]byte{[]byte("other")}}
	claim := func(request idempotency.Request, then func(*postgres.Tx) error) error {
		_, err := postgres.InTx(ctx, w.DB, org, func(tx *postgres.Tx) (bool, error) {
			err := w.Idempotency.ClaimTx(ctx, tx, request)
			return true, errors.Join(err, then(tx))
		})
		return err
	}
	require.NoError(t, claim(request, func(tx *postgres.Tx) error {
		return w.Idempotency.KeepTx(ctx, tx, request, idempotency.Answer{Status: 201})
	}))
	// The other request is refused, and holds the lock of the key until its transaction ends.
	require.Error(t, claim(other, func(*postgres.Tx) error {
		require.ErrorIs(t, claim(request, func(*postgres.Tx) error { return nil }), idempotency.ErrStored)
		return nil
	}))
}
