package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/parley-chat/parley/internal/app"
)

const (
	sendRate = 200
	sendSpan = 10 * time.Second
	sendWarm = 3 * time.Second

	isolatedRate  = 50
	isolatedSpan  = 20 * time.Second
	hungMessages  = 2_000
	hungAnswer    = 10 * time.Second
	hungNumber    = 0
	healthyNumber = 1
)

// benchSendLatency posts messages of 20 numbers at a steady rate, and measures from the 202 to the
// provider having the whole message: p50_ms, p99_ms. They count only if latency_per_second, the rate
// that was reached, is about 200.
func benchSendLatency(ctx context.Context, b *bench) figures {
	network := (&fixedProvider{}).open(ctx, b)
	seen := newMeter[string](time.Second)
	network.seen = seen.reach
	s := newSent(ctx, b, network, seen)
	shown := b.inTurn(ctx, "latency", side{ours, func(ctx context.Context, b *bench) sample {
		seen.forget()
		return feedMeter(ctx, seen, sendRate, sendWarm, b.lasting(sendSpan), s.poster(ctx, b, seen, func(serial int64) int {
			return int(serial % sendNumbers)
		}))
	}})
	return figures{
		"p50_ms": shown.median(ours, p50), "p99_ms": shown.median(ours, p99), "latency_per_second": shown.median(ours, rate),
	}
}

// benchSendIsolation measures the same of one number at 50/s: beside a number with 2,000 messages
// queued whose provider answers after 10 s, against its quiet run (isolation_p99).
func benchSendIsolation(ctx context.Context, b *bench) figures {
	const quiet, beside = "quiet", "beside a number that hangs"
	healthy := func(name string, queued int) side {
		return side{name, func(ctx context.Context, b *bench) sample {
			network := (&fixedProvider{hung: numberOf(hungNumber), hangs: hungAnswer}).open(ctx, b)
			seen := newMeter[string](time.Second)
			network.seen = seen.reach
			s := newSent(ctx, b, network, seen)
			check(s.queue(ctx, s.numbers[hungNumber], queued))
			b.later(func() { close(network.over) }) // so that the process need not wait for its calls
			return feedMeter(ctx, seen, isolatedRate, sendWarm, b.lasting(isolatedSpan), s.poster(ctx, b, seen, func(int64) int {
				return healthyNumber
			}))
		}}
	}
	shown := b.inTurn(ctx, "isolation", healthy(quiet, 0), healthy(beside, b.many(hungMessages)))
	return figures{
		"isolation_p99": shown.ratio(beside, quiet, p99), "isolation_p99_ms": shown.median(beside, p99),
		"isolation_quiet_p99_ms": shown.median(quiet, p99),
	}
}

// newSent runs a process that has sent messages of all numbers but the one that hangs. The planner
// expects of tables that it only knows empty that any index finds a row at once.
func newSent(ctx context.Context, b *bench, network *fixedProvider, seen *meter[string]) *sending {
	s := newSending(ctx, b, network.url, 0)
	each := b.many(sendQueued) / sendNumbers
	for n, number := range s.numbers {
		if n != hungNumber {
			check(s.queue(ctx, number, each))
		}
	}
	must(s.cell.DB.Pool().Exec(ctx, `ANALYZE`))
	s.run(ctx, b, app.Roles{Serve: true, Work: true})
	network.await(ctx, each*(sendNumbers-1))
	seen.forget()
	return s
}

// poster returns a function that posts a message through the API with an Idempotency-Key, and notes
// when it was accepted.
func (s *sending) poster(ctx context.Context, b *bench, seen *meter[string], number func(serial int64) int) func() error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: fed}}
	b.later(client.CloseIdleConnections)
	return func() error {
		to := s.recipient()
		body := fmt.Appendf(nil, `{"messaging_product":"chat","to":%q,"type":"text","text":{"body":%q}}`, to, messageText)
		header := http.Header{"Authorization": {"Bearer " + s.keys[0]}, "Idempotency-Key": {"bench-" + to}}
		address := s.url + "/v1/" + numberOf(number(s.serial.Load())) + "/messages"
		answer, err := post(ctx, client, address, header, body, http.StatusAccepted)
		at := time.Now()
		if err != nil {
			return err
		}
		var made struct {
			Data struct {
				ID string `json:"id"`
			} `json:"data"`
		}
		if err := json.Unmarshal(answer, &made); err != nil || made.Data.ID == "" {
			return errNoID
		}
		seen.add(made.Data.ID, at)
		return nil
	}
}
