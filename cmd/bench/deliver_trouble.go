package main

import (
	"context"
	"net/http"
	"time"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/webhooks"
)

const (
	troublePending = 100_000
	troubleSpan    = 10 * time.Second
	slowAnswer     = 5 * time.Second
)

// benchTrouble measures the p99 of a healthy endpoint against itself: beside a dead endpoint
// with 100,000 deliveries waiting and a slow one (isolation_p99), and during a bulk replay of
// as many deliveries of its own (replay_p99).
func benchTrouble(ctx context.Context, b *bench) figures {
	const alone, beside, replay = "alone", "beside a dead and a slow one", "during a bulk replay"
	shown := b.inTurn(ctx, "trouble",
		troubled(alone, func(context.Context, *bench, *process) (begin func()) { return func() {} }),
		troubled(beside, deadAndSlow),
		troubled(replay, bulkReplay))
	return figures{"isolation_p99": shown.ratio(beside, alone, p99), "replay_p99": shown.ratio(replay, alone, p99)}
}

// troubled prepares a process, runs it, begins the trouble, and measures the healthy endpoint.
func troubled(name string, prepare func(ctx context.Context, b *bench, p *process) (begin func())) side {
	return side{name, func(ctx context.Context, b *bench) sample {
		p := newProcess(ctx, b, 1, 1)
		p.subscribe(ctx, p.orgs[0], 1)
		begin := prepare(ctx, b, p)
		p.run(ctx, b, app.Roles{Serve: true, Work: true})
		p.warm(ctx, b, 1)
		begin()
		return p.latency(ctx, b, b.lasting(troubleSpan))
	}}
}

// deadAndSlow adds an endpoint that never answers and one that takes 5 s, each with
// deliveries of an event to which only it is subscribed.
func deadAndSlow(ctx context.Context, b *bench, p *process) (begin func()) {
	for answer, of := range map[time.Duration]events.Type{time.Hour: events.MessageRevoked, slowAnswer: events.MessageEdited} {
		address := serve(ctx, b, http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
			select {
			case <-request.Context().Done():
			case <-time.After(answer):
			}
		}))
		must(p.cell.Webhooks.Create(ctx, p.orgs[0], audit.Operator(), webhooks.Draft{URL: "http://" + address, Events: []events.Type{of}}))
		p.record(ctx, p.orgs[0], of, b.many(troublePending))
	}
	return func() {}
}

// bulkReplay has as many dead deliveries of the healthy endpoint replayed while it is measured.
func bulkReplay(ctx context.Context, b *bench, p *process) (begin func()) {
	p.record(ctx, p.orgs[0], replayedType, b.many(troublePending))
	for _, sql := range []string{
		`UPDATE webhook_deliveries SET status = 'dead', troubled = true`, `DELETE FROM lane_rows`,
		`VACUUM ANALYZE webhook_deliveries`,
	} {
		must(p.cell.DB.Pool().Exec(ctx, sql))
	}
	return func() {
		must(p.post(ctx, &http.Client{}, "/v1/webhook_deliveries/replay", []byte(`{}`), http.StatusOK))
	}
}
