package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/idempotency"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// once runs the handler. For a POST with an Idempotency-Key it runs the handler at most once in 24
// hours, and otherwise returns the stored answer. Authentication has looked for that answer already.
// A duplicate that finished since then is found when the transaction claims the key.
func once(c *call) (reply, error) {
	key, err := idempotencyKey(c)
	if err != nil {
		return reply{}, err
	}
	if key == "" {
		if err := refuseOnHold(c); err != nil {
			return reply{}, err
		}
		return c.handle()
	}
	k := &keeper{call: c, request: idempotency.Request{
		Org: c.org(), Key: key, Parts: append([][]byte{[]byte(c.request.Method), []byte(c.request.URL.EscapedPath())}, c.fingerprint()...),
	}}
	if answer, found, err := k.replay(k.lookedUp()); err != nil || found {
		return answer, err
	}
	if err := refuseOnHold(c); err != nil {
		return reply{}, err
	}
	if c.route.leased {
		return leased(c, k)
	}
	unwitnessed := c.ctx()
	c.request = c.request.WithContext(postgres.WithWitness(unwitnessed, k))
	answer, err := c.handle()
	if err == nil && !k.committed {
		answer, err = k.keepAlone(answer)
	}
	if errors.Is(err, idempotency.ErrStored) {
		return k.replayNow(unwitnessed)
	}
	return answer, err
}

// refuseOnHold refuses routes that call the provider while the cell is on hold. A stored answer is still returned.
func refuseOnHold(c *call) error {
	if !c.route.leased {
		return nil
	}
	return c.cell.Hold.Refuse(c.ctx())
}

// idempotencyKey returns the Idempotency-Key of a request, or "" for a request without one. Only POST
// takes a key.
func idempotencyKey(c *call) (string, error) {
	keys := c.request.Header.Values("Idempotency-Key")
	if c.request.Method != http.MethodPost || c.route.operation == nil || len(keys) == 0 {
		return "", nil
	}
	if len(keys) > 1 {
		return "", fault.New(fault.InvalidFieldValue, "The header Idempotency-Key was sent more than once. Send one.").At("Idempotency-Key")
	}
	return keys[0], idempotency.Check(keys[0])
}

// keeper is the witness of a call's transaction: it stores the answer in the transaction that makes
// the change.
type keeper struct {
	call      *call
	request   idempotency.Request
	committed bool
	// lease holds the key of a route that calls the provider; nil for other routes.
	lease *idempotency.Lease
}

var (
	errSecondTransaction = errors.New("a request with an Idempotency-Key ran two transactions: its handler needs one verb that does both")
	errNoRender          = errors.New("a request with an Idempotency-Key ran a transaction outside of write: its answer cannot be stored")
)

// Begin claims the key at the start of the verb's transaction.
func (k *keeper) Begin(ctx context.Context, tx *postgres.Tx) error {
	if k.committed {
		return errSecondTransaction
	}
	if k.lease != nil {
		return k.call.cell.Idempotency.ClaimLeaseTx(ctx, tx, *k.lease)
	}
	return k.call.cell.Idempotency.ClaimTx(ctx, tx, k.request)
}

// Keep renders the verb's result as the answer and stores it.
func (k *keeper) Keep(ctx context.Context, tx *postgres.Tx, result any) error {
	if k.call.render == nil {
		return errNoRender
	}
	answer, err := k.call.render(result)
	if err != nil {
		return err
	}
	body, err := answer.encode()
	if err != nil {
		return err
	}
	tx.AfterCommit(func() { k.committed = true })
	if k.lease != nil {
		if err := k.call.cell.Idempotency.EndTx(ctx, tx, *k.lease); err != nil {
			return err
		}
	}
	return k.call.cell.Idempotency.KeepTx(ctx, tx, k.request, idempotency.Answer{
		Status: answer.status, RequestID: k.call.id.String(), Header: answer.header, Body: body,
	})
}

// keepAlone stores the answer of a handler that ran no transaction.
func (k *keeper) keepAlone(answer reply) (reply, error) {
	k.call.render = func(any) (reply, error) { return answer, nil }
	_, err := postgres.InTx(k.call.ctx(), k.call.cell.DB, k.call.org(), func(*postgres.Tx) (reply, error) { return answer, nil })
	return answer, err
}

// lookedUp returns the answer that authentication found, or looks now if authentication did not.
func (k *keeper) lookedUp() (*idempotency.Answer, error) {
	if k.call.stored == nil {
		return k.find(k.call.ctx())
	}
	return k.call.cell.Idempotency.Open(*k.call.stored, k.request)
}

func (k *keeper) find(ctx context.Context) (*idempotency.Answer, error) {
	return k.call.cell.Idempotency.Find(ctx, k.call.cell.DB.Of(k.call.org()), k.request)
}

// replay makes a reply of the stored answer, if there is one.
func (k *keeper) replay(stored *idempotency.Answer, err error) (answer reply, found bool, _ error) {
	if err != nil || stored == nil {
		return reply{}, false, err
	}
	k.call.replayed = true
	return reply{status: stored.Status, header: stored.Header, encoded: stored.Body, requestID: stored.RequestID}, true, nil
}

// replayNow reads the answer that a duplicate has just stored.
func (k *keeper) replayNow(ctx context.Context) (reply, error) {
	answer, _, err := k.replay(k.find(ctx))
	return answer, err
}
