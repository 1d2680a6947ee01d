package main

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

const tripTries = 25

// benchAcceptTrips counts the round trips to the databases from the request to its answer, of one
// request after the other: the fewest of 25, because other work of the process and the first use of a
// statement on a connection only add some.
func benchAcceptTrips(ctx context.Context, b *bench) figures {
	count := &tripCounter{}
	a := newAccepting(ctx, b, setup{cells: 1, organizations: 1, tracers: []pgx.QueryTracer{count}})
	// One number, so that its lane is busy, as it is under load.
	first := func(to func(int64) target) func(int64) target {
		return func(serial int64) target {
			one := to(serial)
			one.number = numberOf(0)
			return one
		}
	}
	fewest := func(to func(int64) target) int64 {
		post, least := a.posting(ctx, b, first(to)), int64(1_000)
		for range tripTries {
			before := count.trips.Load()
			check(post(0))
			least = min(least, count.trips.Load()-before)
			time.Sleep(time.Millisecond)
		}
		return least
	}
	same := func(int64) target { return target{a.keys[0], numberOf(0), "+351910000000"} }
	return figures{"round_trips": fewest(same), "round_trips_new": fewest(a.fresh)}
}

// tripCounter counts how often an answer of a database came after something was sent.
type tripCounter struct{ trips atomic.Int64 }

// TraceQueryStart does nothing: only connections are counted.
func (*tripCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

// TraceQueryEnd does nothing.
func (*tripCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceConnectStart makes the connection count.
func (t *tripCounter) TraceConnectStart(ctx context.Context, data pgx.TraceConnectStartData) context.Context {
	dial := data.ConnConfig.DialFunc
	data.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &countingConn{Conn: conn, trips: &t.trips}, err
	}
	return ctx
}

// TraceConnectEnd does nothing.
func (*tripCounter) TraceConnectEnd(context.Context, pgx.TraceConnectEndData) {}

type countingConn struct {
	net.Conn

	sent  atomic.Bool
	trips *atomic.Int64
}

// Write notes that something is sent.
func (c *countingConn) Write(data []byte) (int, error) {
	c.sent.Store(true)
	return c.Conn.Write(data)
}

// Read counts the first part of each answer.
func (c *countingConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	if n > 0 && c.sent.Swap(false) {
		c.trips.Add(1)
	}
	return n, err
}
