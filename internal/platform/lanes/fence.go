package lanes

import (
	"context"
	"errors"
	"time"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// errLost means that another drainer owns the lane now.
var errLost = errors.New("the lane has another owner")

const sqlFence = `
SELECT blocked_until, pg_current_xact_id()::text AS transaction
FROM lanes
WHERE lane_id = @lane_id AND token = @token
FOR UPDATE`

type fence struct {
	BlockedUntil *time.Time
	Transaction  string
}

// ownedTx runs a verb in a transaction of the lane's organization that only the lane's owner
// can commit. If the answer to the commit is lost, it asks the database. No error: the transaction
// was committed. errLost, or an error after ctx ended: it may have been committed, and the drainer
// must stop. Any other error: it was not committed.
func (e *Engine) ownedTx(ctx context.Context, w wake, verb func(tx *postgres.Tx, block *time.Time) error) error {
	leave, err := e.gate.enter(ctx, w.Org)
	if err != nil {
		return err
	}
	defer leave()
	var transaction string
	_, err = postgres.InTx(ctx, e.db, w.Org, func(tx *postgres.Tx) (struct{}, error) {
		lane, err := postgres.One[fence](ctx, tx, sqlFence, postgres.Args{"lane_id": w.ID, "token": w.token})
		if errors.Is(err, postgres.ErrNoRow) {
			return struct{}{}, errLost
		}
		if err != nil {
			return struct{}{}, err
		}
		transaction = lane.Transaction
		return struct{}{}, verb(tx, lane.BlockedUntil)
	})
	switch {
	case errors.Is(err, postgres.ErrNotOpenHere):
		return errLost // the organization is being moved
	case errors.Is(err, postgres.ErrUnanswered):
		return e.askOutcome(ctx, transaction, err)
	default:
		return err
	}
}

const sqlOutcome = `SELECT coalesce(pg_xact_status(@transaction::xid8), 'unknown')`

// askOutcome waits until the database knows whether a transaction was committed.
func (e *Engine) askOutcome(ctx context.Context, transaction string, cause error) error {
	for {
		status, err := postgres.One[string](ctx, e.db.System("outcome of a commit"), sqlOutcome, postgres.Args{"transaction": transaction})
		switch {
		case err != nil && !away(err):
			// A standby that took over may never have heard of the transaction.
			return errors.Join(errLost, cause, err)
		case err == nil && status == "committed":
			return nil
		case err == nil && status == "aborted":
			// The cause is not wrapped: it says that the outcome is unknown.
			return fault.Unavailable(time.Second, errors.New("the transaction was rolled back: "+cause.Error()))
		case err == nil && status == "unknown":
			return errors.Join(errLost, cause)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(awayPause):
		}
	}
}
