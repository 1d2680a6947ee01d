package main

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/app"
)

const (
	callbackClients = 32
	callbackNumbers = 20
	callbackSpan    = 5 * time.Second
	callbackAppID   = "1"
	callbackSecret  = "bench-app-secret"
)

// benchCallbacks measures the ingress of the provider's callbacks, signed and of one item
// each, to the 200: in a process that only stores them, and (working_…) in one that also
// applies what it stored.
func benchCallbacks(ctx context.Context, b *bench) figures {
	const applied = "while they are applied"
	shown := b.inTurn(ctx, "callbacks", pushed(ours, app.Roles{Serve: true}), pushed(applied, app.Roles{Serve: true, Work: true}))
	return figures{
		perSecond: shown.median(ours, rate), "p50_ms": shown.median(ours, p50), "p99_ms": shown.median(ours, p99),
		"working_per_second": shown.median(applied, rate), "working_p99_ms": shown.median(applied, p99),
	}
}

// pushed has clients push as fast as they are answered.
func pushed(name string, roles app.Roles) side {
	return side{name, func(ctx context.Context, b *bench) sample {
		p := newProcess(ctx, b, 1, 1)
		for n := range callbackNumbers {
			must(attach(ctx, p.cell, p.orgs[0], n))
		}
		p.run(ctx, b, roles)
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callbackClients}}
		b.later(client.CloseIdleConnections)
		var serial atomic.Int64
		push := func(int) error {
			return pushCallback(ctx, client, p.url, callback(serial.Add(1)))
		}
		during(callbackClients, b.lasting(time.Second), push) // connections and statements are made
		return during(callbackClients, b.lasting(callbackSpan), push)
	}}
}

func callback(serial int64) []byte {
	return fmt.Appendf(nil, `{"object":"chat_business_account","entry":[{"id":"`+benchBusiness+`","changes":[{"field":"messages","value":{`+
		`"messaging_product":"chat","metadata":{"display_phone_number":"351200000000","phone_number_id":"%s"},`+
		`"statuses":[{"id":"wamid.%030d","status":"delivered","timestamp":"1773480413","recipient_id":"351910000000",`+
		`"biz_opaque_callback_data":"msg_01KKNWJ8CD0000000000000000:1"}]}}]}]}`, numberOf(int(serial%callbackNumbers)), serial)
}
