package pgtest

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Each is a tracer that is called with each statement before it is sent, alone or in a batch.
type Each func(sql string)

// TraceQueryStart is called before a statement.
func (e Each) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	e(data.SQL)
	return ctx
}

// TraceBatchStart is called before a batch.
func (e Each) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, queued := range data.Batch.QueuedQueries {
		e(queued.SQL)
	}
	return ctx
}

// TraceQueryEnd does nothing.
func (Each) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchQuery does nothing.
func (Each) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd does nothing.
func (Each) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
