package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/accounts"
)

const (
	acceptClients = 32
	acceptNumbers = 20
	// acceptKnown is how many recipients have a contact and a conversation.
	acceptKnown = 2_000
	acceptSpan  = 4 * time.Second
)

// The sides of benchAccept. Ours is to known recipients.
const (
	oursNew   = "ours to new"
	bareKnown = "bare"
	bareNew   = "bare to new"
	bareBatch = "bare in one batch"
)

// benchAccept measures POST messages with an Idempotency-Key against a loop that only writes the
// same rows by one transaction each: statement by statement (ratio), and all of a transaction in one
// batch (ratio_batch). Fields that end in _new are to recipients without a contact. No message is sent
// meanwhile. wal_bytes is per message, with the entries of the API log, which the bare loops do not write.
func benchAccept(ctx context.Context, b *bench) figures {
	a := newAccepting(ctx, b, setup{cells: 1, organizations: 1})
	wal := map[string][]float64{}
	measured := func(name string, verb func(ctx context.Context, b *bench) func(client int) error) side {
		return side{name, func(ctx context.Context, b *bench) sample {
			call, before := verb(ctx, b), a.walAt(ctx)
			var count atomic.Int64
			shown := during(acceptClients, b.lasting(acceptSpan), func(client int) error {
				count.Add(1)
				return call(client)
			})
			wal[name] = append(wal[name], (a.walAt(ctx)-before)/float64(count.Load()))
			return shown
		}}
	}
	loop := a.newBareLoop(ctx)
	sides := []side{
		measured(ours, func(ctx context.Context, b *bench) func(int) error { return a.posting(ctx, b, a.known) }),
		measured(bareKnown, func(ctx context.Context, _ *bench) func(int) error { return loop.verb(ctx, loop.known, loop.eachAlone) }),
		measured(bareBatch, func(ctx context.Context, _ *bench) func(int) error { return loop.verb(ctx, loop.known, loop.inBatch) }),
		measured(oursNew, func(ctx context.Context, b *bench) func(int) error { return a.posting(ctx, b, a.fresh) }),
		measured(bareNew, func(ctx context.Context, _ *bench) func(int) error { return loop.verb(ctx, loop.fresh, loop.eachAlone) }),
	}
	shown := b.inTurn(ctx, "rate", sides...)
	return figures{
		perSecond: shown.median(ours, rate), "per_second_new": shown.median(oursNew, rate),
		"ratio": shown.ratio(ours, bareKnown, rate), "ratio_new": shown.ratio(oursNew, bareNew, rate),
		"ratio_batch": shown.ratio(ours, bareBatch, rate),
		"wal_bytes":   middle(wal[ours]), "wal_bytes_new": middle(wal[oursNew]), "wal_bytes_bare": middle(wal[bareKnown]),
	}
}

func middle(values []float64) float64 {
	slices.Sort(values)
	return math.Round(values[len(values)/2])
}

// benchAcceptLatency measures the p99 of POST messages and of the bare loop, both at half of the rate
// that the product reaches: p99_ratio.
func benchAcceptLatency(ctx context.Context, b *bench) figures {
	a := newAccepting(ctx, b, setup{cells: 1, organizations: 1})
	loop := a.newBareLoop(ctx)
	full := b.once(ctx, side{ours, func(ctx context.Context, b *bench) sample {
		return during(acceptClients, b.lasting(acceptSpan), a.posting(ctx, b, a.known))
	}})
	perSecond := max(1, int(full.rate/2))
	steady := func(name string, verb func(b *bench) func(client int) error) side {
		return side{fmt.Sprintf("%s at %d/s", name, perSecond), func(ctx context.Context, b *bench) sample {
			return timed(ctx, perSecond, b.lasting(acceptSpan), verb(b))
		}}
	}
	first := steady(ours, func(b *bench) func(int) error { return a.posting(ctx, b, a.known) })
	second := steady(bareKnown, func(*bench) func(int) error { return loop.verb(ctx, loop.known, loop.eachAlone) })
	shown := b.inTurn(ctx, "latency", first, second)
	return figures{
		"p50_ms": shown.median(first.name, p50), "p99_ms": shown.median(first.name, p99), "bare_p99_ms": shown.median(second.name, p99),
		"p99_ratio": shown.ratio(first.name, second.name, p99),
	}
}

// timed calls verb at a steady rate, each client one call at a time, and returns the delays.
func timed(ctx context.Context, perSecond int, span time.Duration, verb func(client int) error) sample {
	idle, delays := make(chan int, fed), make(chan time.Duration, int(float64(perSecond)*span.Seconds())*2+fed)
	for client := range fed {
		idle <- client
	}
	feed(ctx, perSecond, span, func() error {
		client := <-idle
		defer func() { idle <- client }()
		began := time.Now()
		err := verb(client)
		delays <- time.Since(began)
		return err
	})
	close(delays)
	all := make([]time.Duration, 0, len(delays))
	for one := range delays {
		all = append(all, one)
	}
	return sample{rate: float64(len(all)) / span.Seconds()}.withDelays(all)
}

// accepting is a process that accepts messages and sends none.
type accepting struct {
	*process

	numbers []accounts.Account
	serial  atomic.Int64
}

// newAccepting runs a process whose known recipients have been written to.
func newAccepting(ctx context.Context, b *bench, with setup) *accepting {
	a := &accepting{process: newProcessWith(ctx, b, with)}
	for n := range acceptNumbers {
		a.numbers = append(a.numbers, must(attach(ctx, a.cell, a.orgs[0], n)))
	}
	a.run(ctx, b, app.Roles{Serve: true})
	post := a.posting(ctx, b, a.known)
	check(together(acceptClients, func(client int) (more bool, err error) {
		return a.serial.Load() < acceptKnown, post(client)
	}))
	must(a.cell.DB.Pool().Exec(ctx, `ANALYZE`))
	return a
}

func (a *accepting) walAt(ctx context.Context) (bytes float64) {
	check(a.cell.DB.Pool().QueryRow(ctx, `SELECT pg_current_wal_insert_lsn() - '0/0'`).Scan(&bytes))
	return bytes
}

// target is what one POST needs to know.
type target struct{ key, number, recipient string }

// known is a recipient of the first organization that has a contact after the first call with it.
func (a *accepting) known(serial int64) target {
	recipient := serial % acceptKnown
	return target{a.keys[0], numberOf(int(recipient % acceptNumbers)), fmt.Sprintf("+351910%06d", recipient)}
}

// fresh is a recipient that was never seen.
func (a *accepting) fresh(serial int64) target {
	return target{a.keys[0], numberOf(int(serial % acceptNumbers)), fmt.Sprintf("+35192%07d", serial)}
}

// messageText is the text of every message.
const messageText = "Your parcel is on its way and will be with you between nine and five."

// posting returns a function that posts one message on the connection of a client. It is kept as thin
// as HTTP allows, because it shares the cores with what it measures.
func (a *accepting) posting(ctx context.Context, b *bench, to func(serial int64) target) func(client int) error {
	conns, readers := make([]net.Conn, acceptClients), make([]*bufio.Reader, acceptClients)
	for i := range conns {
		conns[i] = must((&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(a.url, "http://")))
		b.later(func() { _ = conns[i].Close() })
		readers[i] = bufio.NewReaderSize(conns[i], 8<<10)
	}
	return func(client int) error {
		serial := a.serial.Add(1)
		one := to(serial)
		body := fmt.Sprintf(`{"messaging_product":"chat","to":%q,"type":"text","text":{"body":%q}}`, one.recipient, messageText)
		request := fmt.Appendf(nil, "POST /v1/%s/messages HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\n"+
			"Idempotency-Key: bench-%d\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			one.number, one.key, serial, len(body), body)
		if _, err := conns[client].Write(request); err != nil {
			return err
		}
		return errors.Join(readAnswer(readers[client], http.StatusAccepted), ctx.Err())
	}
}
