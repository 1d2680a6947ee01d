package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/webhooks"
)

const (
	roundTripClients = 32
	roundTripPeople  = 2_000
	roundTripSpan    = 10 * time.Second
	roundTripWarm    = 3 * time.Second
)

// benchRoundTrip posts callbacks, each with a text from one of 2,000 people to one of 20 numbers, and
// measures from the start of the POST until the receiver of message.received has the webhook. First as
// fast as webhooks arrive (per_second), then at 30 % of that (p50_ms, p99_ms, at_per_second).
func benchRoundTrip(ctx context.Context, b *bench) figures {
	const most, part = "as fast as possible", "at 30 %"
	s := newSending(ctx, b, "", 0)
	draft := webhooks.Draft{URL: s.sink.url, Events: []events.Type{events.MessageReceived}}
	must(s.cell.Webhooks.Create(ctx, s.orgs[0], audit.Operator(), draft))
	s.run(ctx, b, app.Roles{Serve: true, Work: true})
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: roundTripClients}}
	b.later(client.CloseIdleConnections)

	seen := newMeter[string](5 * time.Second)
	watched := s.sink.watch(func(body []byte, at time.Time) { seen.reach(receivedIn(body), at) })
	var serial atomic.Int64
	say := func() error {
		id, body := received(serial.Add(1))
		seen.add(id, time.Now())
		return pushCallback(ctx, client, s.url, body)
	}
	check(times(roundTripClients, roundTripPeople, func(int) error { return say() })) // all people get a contact
	watched.await(ctx, int(serial.Load()))
	must(s.cell.DB.Pool().Exec(ctx, `ANALYZE`))

	fastest := 0.0
	shown := b.inTurn(ctx, "round trip",
		side{most, func(ctx context.Context, b *bench) sample {
			seen.forget()
			before, started := watched.count.Load(), time.Now()
			during(roundTripClients, b.lasting(roundTripSpan/2), func(int) error { return say() })
			watched.await(ctx, int(serial.Load()))
			fastest = float64(watched.count.Load()-before) / time.Since(started).Seconds()
			return sample{rate: fastest}
		}},
		side{part, func(ctx context.Context, b *bench) sample {
			seen.forget()
			return feedMeter(ctx, seen, max(1, int(0.3*fastest)), roundTripWarm, b.lasting(roundTripSpan), say)
		}})
	return figures{
		perSecond: shown.median(most, rate), "p50_ms": shown.median(part, p50), "p99_ms": shown.median(part, p99),
		"at_per_second": shown.median(part, rate),
	}
}

// received is a callback with a text.
func received(serial int64) (id string, body []byte) {
	id = fmt.Sprintf("wamid.%030d", serial)
	person := serial % roundTripPeople
	return id, fmt.Appendf(nil, `{"object":"chat_business_account","entry":[{"id":"`+benchBusiness+`","changes":[`+
		`{"field":"messages","value":{"messaging_product":"chat","metadata":{"display_phone_number":"351200000000","phone_number_id":"%s"},`+
		`"contacts":[{"profile":{"name":"Person %d"},"wa_id":"35191%07d"}],`+
		`"messages":[{"from":"35191%07d","id":"%s","timestamp":"%d","type":"text","text":{"body":%q}}]}}]}]}`,
		numberOf(int(person%sendNumbers)), person, person, person, id, time.Now().Unix(), messageText)
}

// receivedIn is the provider's id of the message in a webhook.
func receivedIn(body []byte) string {
	_, after, _ := bytes.Cut(body, []byte(`"id":"wamid.`))
	id, _, _ := bytes.Cut(after, []byte(`"`))
	return "wamid." + string(id)
}

// pushCallback posts a signed callback.
func pushCallback(ctx context.Context, client *http.Client, address string, body []byte) error {
	mac := hmac.New(sha256.New, []byte(callbackSecret))
	mac.Write(body)
	signed := http.Header{"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))}}
	_, err := post(ctx, client, address+"/provider/callbacks", signed, body, http.StatusOK)
	return err
}
