package api

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/idempotency"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// leased is once for a route that calls the provider before it answers. A lease holds the
// Idempotency-Key over several transactions. The last transaction stores the answer, which may be a
// refusal of the provider.
func leased(c *call, k *keeper) (reply, error) {
	unwitnessed := c.ctx()
	lease, err := inTx(unwitnessed, c, func(tx *postgres.Tx) (idempotency.Lease, error) {
		return c.cell.Idempotency.LeaseTx(unwitnessed, tx, k.request)
	})
	if errors.Is(err, idempotency.ErrStored) {
		return k.replayNow(unwitnessed)
	}
	if err != nil {
		return reply{}, err
	}
	k.lease = &lease
	c.request = c.request.WithContext(postgres.WithWitness(idempotency.With(unwitnessed, lease), k))
	answer, err := c.handle()
	switch {
	case k.committed:
		return answer, err
	case err == nil:
		return k.keepAlone(answer)
	default:
		return reply{}, errors.Join(err, k.endLease(unwitnessed, lease, err))
	}
}

const endLeaseTimeout = 2 * time.Second

// endLease ends the lease of a request that failed. When the request was refused, it had no effect and
// its key is free again. After any other failure it may have had an effect: the lease lapses, and a
// repeated request finds out.
func (k *keeper) endLease(ctx context.Context, lease idempotency.Lease, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLeaseTimeout)
	defer cancel()
	end, code := k.call.cell.Idempotency.EndTx, faultOf(cause).Code
	unknown := []fault.Code{fault.InternalError, fault.ServiceUnavailable, fault.ProviderUpstreamError, fault.IdempotencyInProgress}
	if slices.Contains(unknown, code) {
		end = k.call.cell.Idempotency.LapseTx
	}
	_, err := inTx(ctx, k.call, func(tx *postgres.Tx) (idempotency.Lease, error) { return lease, end(ctx, tx, lease) })
	return err
}

func inTx[T any](ctx context.Context, c *call, do func(*postgres.Tx) (T, error)) (T, error) {
	return postgres.InTx(ctx, c.cell.DB, c.org(), do)
}
