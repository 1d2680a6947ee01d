package pgtest

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// CountTrips returns a context whose statements add their round trips to a counter, on every pool
// that was made by Connect. A batch is one round trip. The first use of a statement on a connection
// takes another one, which prepares it: run the code once before counting.
func CountTrips(ctx context.Context, into *atomic.Int64) context.Context {
	return context.WithValue(ctx, tripsKey{}, into)
}

type tripsKey struct{}

// trips is a tracer that counts round trips on the wire, and not statements. It sees all that a
// connection sends between the start and the end of a statement or batch. Pings of idle connections
// by the pool are outside of that.
type trips struct{}

// TraceConnectStart makes the connection count.
func (trips) TraceConnectStart(ctx context.Context, data pgx.TraceConnectStartData) context.Context {
	dial := data.ConnConfig.DialFunc
	data.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &countingConn{Conn: conn}, nil
	}
	return ctx
}

// TraceConnectEnd does nothing.
func (trips) TraceConnectEnd(context.Context, pgx.TraceConnectEndData) {}

// TraceQueryStart notes the count before a statement.
func (trips) TraceQueryStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return startTrips(ctx, conn)
}

// TraceQueryEnd adds the round trips of a statement.
func (trips) TraceQueryEnd(ctx context.Context, conn *pgx.Conn, _ pgx.TraceQueryEndData) {
	endTrips(ctx, conn)
}

// TraceBatchStart notes the count before a batch.
func (trips) TraceBatchStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return startTrips(ctx, conn)
}

// TraceBatchQuery does nothing.
func (trips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd adds the round trips of a batch.
func (trips) TraceBatchEnd(ctx context.Context, conn *pgx.Conn, _ pgx.TraceBatchEndData) {
	endTrips(ctx, conn)
}

type tripsBeforeKey struct{}

func startTrips(ctx context.Context, conn *pgx.Conn) context.Context {
	counting, counted := conn.PgConn().Conn().(*countingConn)
	if !counted || ctx.Value(tripsKey{}) == nil {
		return ctx
	}
	return context.WithValue(ctx, tripsBeforeKey{}, counting.trips.Load())
}

func endTrips(ctx context.Context, conn *pgx.Conn) {
	before, started := ctx.Value(tripsBeforeKey{}).(int64)
	into, _ := ctx.Value(tripsKey{}).(*atomic.Int64)
	counting, counted := conn.PgConn().Conn().(*countingConn)
	if started && counted {
		into.Add(counting.trips.Load() - before)
	}
}

// countingConn counts how often an answer came after something was sent.
type countingConn struct {
	net.Conn

	sent  atomic.Bool
	trips atomic.Int64
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
