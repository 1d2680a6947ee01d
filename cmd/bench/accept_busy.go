package main

import (
	"context"
	"fmt"
	"time"
)

const (
	spreadOrgs = 1_000
	spreadSpan = 5 * time.Second
)

// benchAcceptBusy compares the accept rate of one organization with one number to that of the same
// load, spread over 1,000 organizations with one number each: busy_org_ratio. Both have as many known
// recipients.
func benchAcceptBusy(ctx context.Context, b *bench) figures {
	const busy, spread = "one organization", "spread"
	a := newAccepting(ctx, b, setup{cells: 1, organizations: 1})
	organizations := b.many(spreadOrgs)
	keys := make([]string, organizations)
	check(times(fillClients, organizations, func(i int) error {
		org, key, err := addOrganization(ctx, a.cell)
		if err == nil {
			_, err = attach(ctx, a.cell, org, acceptNumbers+i)
		}
		keys[i] = key
		return err
	}))
	to := func(name string, target func(serial int64) target) side {
		return side{name, func(ctx context.Context, b *bench) sample {
			return during(acceptClients, b.lasting(spreadSpan), a.posting(ctx, b, target))
		}}
	}
	recipient := func(serial int64) string { return fmt.Sprintf("+351940%06d", serial%acceptKnown) }
	sides := []side{
		to(busy, func(serial int64) target { return target{a.keys[0], numberOf(0), recipient(serial)} }),
		to(spread, func(serial int64) target {
			at := int(serial % int64(organizations))
			return target{keys[at], numberOf(acceptNumbers + at), recipient(serial)}
		}),
	}
	b.warm(ctx, sides...) // makes the contacts
	shown := b.inTurn(ctx, "busy", sides...)
	return figures{"busy_org_ratio": shown.ratio(busy, spread, rate), "spread_per_second": shown.median(spread, rate)}
}
