package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// The rows that a status writes, as the product writes them.
const (
	bareDelivered   = `UPDATE message_states SET status = 'delivered', delivered_at = $3, announced = 5 WHERE org_id = $1 AND id = $2`
	bareStatusEvent = `
INSERT INTO events (org_id, id, key, type, audience, phone_number_id, contact_id, message_id, body)
VALUES ($1, $2, $3, 'message.status', 'public', '100000000000000', $4, $5, $6)`
	bareDelivery = `
INSERT INTO webhook_deliveries (org_id, id, subscription_id, event_id, event_key, event_type, status, next_attempt_at)
VALUES ($1, $2, $3, $4, $5, 'message.status', 'pending', $6)`
	bareWaiting = `INSERT INTO lane_rows (lane_id, priority, due_at, id) VALUES ($1, 0, $2, $3)`
)

// bareClients is as many as the product's work has connections.
const bareClients = 12

// bareStatuses writes the rows of statuses in batches, each in one transaction and one round trip, and
// does nothing else: no callback is read, parsed or deleted, nothing is locked, merged or looked up.
func (s *sending) bareStatuses(ctx context.Context, sent []sentMessage) sample {
	pool := s.cell.DB.Pool()
	var subscription [16]byte
	check(pool.QueryRow(ctx, `SELECT id FROM webhook_subscriptions`).Scan(&subscription))
	batches, started := slices.Collect(slices.Chunk(sent, inboundBatch)), time.Now()
	check(times(bareClients, len(batches), func(i int) error {
		batch, now := &pgx.Batch{}, time.Now()
		for _, one := range batches[i] {
			event, delivery := newRow().ID, newRow().ID
			body := fmt.Appendf(nil, `{"object":"chat_business_account","entry":[{"id":"%s","changes":[{"field":"messages","value":{`+
				`"messaging_product":"chat","metadata":{"display_phone_number":"351200000000","phone_number_id":"100000000000000"},`+
				`"statuses":[%s]}}]}]}`, benchBusiness, deliveredStatus(one))
			batch.Queue(bareDelivered, s.orgs[0], one.ID, now)
			batch.Queue(bareStatusEvent, s.orgs[0], event, one.ProviderID, one.ContactID, one.ID, body)
			batch.Queue(bareDelivery, s.orgs[0], delivery, subscription, event, one.ProviderID, now)
			batch.Queue(bareWaiting, subscription, now, delivery)
		}
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return tx.SendBatch(ctx, batch).Close() })
	}))
	return sample{rate: float64(len(sent)) / time.Since(started).Seconds()}
}
