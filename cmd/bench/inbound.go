package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/callbacks"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/patch"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	inboundMessages = 20_000
	// inboundBatch is how many statuses one callback has, and one batch of the bare side.
	inboundBatch = 50
)

// benchInbound measures how many statuses per second are applied from callbacks that are stored
// already, of 50 statuses each (ratio, per_second) and of one each (single, single_per_second): states,
// events, and the deliveries of one subscription. The subscription is paused, so that nothing is
// posted. The bare side writes the same rows in batches of 50.
func benchInbound(ctx context.Context, b *bench) figures {
	const single, bare = "one each", "bare"
	total := b.many(inboundMessages) / (sendNumbers * inboundBatch) * sendNumbers * inboundBatch
	apply := func(name string, perCallback int) side {
		return side{name, func(ctx context.Context, b *bench) sample {
			s, sent := newSentMessages(ctx, b, total)
			s.storeStatuses(ctx, sent, perCallback)
			return s.applied(ctx, b)
		}}
	}
	shown := b.inTurn(ctx, "statuses", apply(ours, inboundBatch), apply(single, 1), side{bare, func(ctx context.Context, b *bench) sample {
		s, sent := newSentMessages(ctx, b, total)
		return s.bareStatuses(ctx, sent)
	}})
	return figures{
		"ratio": shown.ratio(ours, bare, rate), perSecond: shown.median(ours, rate), "bare_per_second": shown.median(bare, rate),
		"single": shown.ratio(single, bare, rate), "single_per_second": shown.median(single, rate),
	}
}

// sentMessage is a message that the provider took.
type sentMessage struct {
	ID         messages.ID
	AccountID  ids.Any
	ContactID  ids.Any
	ProviderID string
}

// newSentMessages builds a process whose messages were sent, with a paused subscription to statuses.
func newSentMessages(ctx context.Context, b *bench, total int) (*sending, []sentMessage) {
	s := newSending(ctx, b, "", total)
	draft := webhooks.Draft{URL: s.sink.url, Events: []events.Type{events.MessageStatus}}
	made := must(s.cell.Webhooks.Create(ctx, s.orgs[0], audit.Operator(), draft))
	must(s.cell.Webhooks.Update(ctx, s.orgs[0], made.ID, webhooks.Patch{Status: patch.To(webhooks.Paused)}))
	pool := s.cell.DB.Pool()
	for _, sql := range []string{
		`UPDATE message_states SET status = 'sent', attempt = 1, announced = 1, sent_at = now(), provider_id = 'wamid.' || id`,
		`INSERT INTO provider_messages (org_id, provider_id, message_id) SELECT org_id, provider_id, id FROM message_states`,
		`DELETE FROM lane_rows`,
		`VACUUM ANALYZE`,
	} {
		must(pool.Exec(ctx, sql))
	}
	rows := must(pool.Query(ctx, `
		SELECT m.id, m.account_id, m.contact_id, s.provider_id
		FROM messages m JOIN message_states s USING (org_id, id)
		ORDER BY m.account_id, m.id`))
	return s, must(pgx.CollectRows(rows, pgx.RowToStructByName[sentMessage]))
}

// storeStatuses stores a delivered for each message, as the ingress would.
func (s *sending) storeStatuses(ctx context.Context, sent []sentMessage, perCallback int) {
	for some := range slices.Chunk(sent, perCallback) {
		number := s.numbers[slices.IndexFunc(s.numbers, func(a accounts.Account) bool { return a.ID.Any() == some[0].AccountID })]
		items := make([]string, len(some))
		for i, one := range some {
			items[i] = deliveredStatus(one)
		}
		body := fmt.Sprintf(`{"object":"chat_business_account","entry":[{"id":"%s","changes":[{"field":"messages","value":{`+
			`"messaging_product":"chat","metadata":{"display_phone_number":"351200000000","phone_number_id":"%s"},`+
			`"statuses":[%s]}}]}]}`, benchBusiness, *number.PhoneNumberID, strings.Join(items, ","))
		must(s.cell.Callbacks.Store(ctx, []callbacks.Part{{
			OrgID: s.orgs[0], NumberID: *number.PhoneNumberID, Generation: number.Generation, BusinessAccountID: benchBusiness, Body: []byte(body),
		}}))
	}
	must(s.cell.DB.Pool().Exec(ctx, `ANALYZE callbacks, lane_rows`))
}

func deliveredStatus(of sentMessage) string {
	return fmt.Sprintf(`{"id":"%s","status":"delivered","timestamp":"%d","recipient_id":"351910000000","biz_opaque_callback_data":"%s:1",`+
		`"pricing":{"billable":true,"pricing_model":"PMP","category":"service","type":"regular"}}`,
		of.ProviderID, time.Now().Unix(), of.ID)
}

// applied runs the workers and returns how many statuses per second they apply. The first tenth is left
// out: it opens connections and prepares statements.
func (s *sending) applied(ctx context.Context, b *bench) sample {
	s.run(ctx, b, app.Roles{Work: true, Serve: true})
	count := func() int {
		return must(postgres.One[int](ctx, s.cell.DB.System("statuses applied"),
			`SELECT count(*)::int FROM events WHERE type = 'message.status'`, nil))
	}
	for count() < s.queued/10 {
		time.Sleep(5 * time.Millisecond)
	}
	before, started := count(), time.Now()
	for busy := true; busy; time.Sleep(5 * time.Millisecond) {
		busy = must(postgres.One[bool](ctx, s.cell.DB.System("whether all is applied"),
			`SELECT EXISTS (SELECT FROM lane_rows r JOIN lanes l USING (lane_id) WHERE l.kind = 'callbacks')`, nil))
	}
	elapsed := time.Since(started)
	if all := count(); all != s.queued {
		check(fmt.Errorf("%d of %d statuses were applied", all, s.queued))
	}
	return sample{rate: float64(s.queued-before) / elapsed.Seconds()}
}
