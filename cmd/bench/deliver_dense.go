package main

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	denseOrgs   = 10
	denseEach   = 10 // subscriptions of one organization
	denseEvents = 100
)

// benchDense delivers what waits for 100 subscriptions, against a loop that only signs and
// posts the same bodies (bare_post), and against one River job for each delivery with the same
// client (one_job_each).
func benchDense(ctx context.Context, b *bench) figures {
	const bare, jobs = "bare post", "one job each"
	each := b.many(denseEvents)
	total := each * denseOrgs * denseEach
	shown := b.inTurn(ctx, "dense",
		side{ours, func(ctx context.Context, b *bench) sample { return deliverDense(ctx, b, each, total) }},
		side{bare, func(ctx context.Context, b *bench) sample { return barePosts(ctx, b, total) }},
		side{jobs, func(ctx context.Context, b *bench) sample { return oneJobEach(ctx, b, total) }},
	)
	return figures{"bare_post": shown.ratio(ours, bare, rate), "one_job_each": shown.ratio(ours, jobs, rate)}
}

func deliverDense(ctx context.Context, b *bench, each, total int) sample {
	p := newProcess(ctx, b, 1, denseOrgs)
	for _, org := range p.orgs {
		p.subscribe(ctx, org, denseEach)
		p.record(ctx, org, events.CustomerCreated, each)
	}
	must(p.cell.DB.Pool().Exec(ctx, `ANALYZE events, webhook_deliveries, webhook_subscriptions, lanes, lane_rows`))
	watched := p.sink.watch(nil)
	p.run(ctx, b, app.Roles{Serve: true, Work: true})
	watched.await(ctx, total)
	pace := watched.pace()
	for busy := true; busy; time.Sleep(time.Millisecond) { // all that arrived must also be settled
		busy = must(postgres.One[bool](ctx, p.cell.DB.System("whether all is settled"), `SELECT EXISTS (SELECT FROM lane_rows)`, nil))
	}
	return pace
}
