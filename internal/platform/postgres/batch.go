package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// Statement is one statement of a Batch. IntoOne and IntoMany make it.
type Statement struct {
	sql  string
	args Args
	read func(pgx.Rows) error
}

// IntoOne is One in a Batch: it reads the single row of a statement into a value.
func IntoOne[T any](into *T, sql string, args Args) Statement {
	return Statement{sql: sql, args: args, read: func(rows pgx.Rows) (err error) {
		if *into, err = pgx.CollectExactlyOneRow(rows, scan[T]); errors.Is(err, pgx.ErrNoRows) {
			return ErrNoRow
		}
		return err
	}}
}

// IntoMany is Many in a Batch: it reads every row of a statement into a slice, which is never nil
// afterwards.
func IntoMany[T any](into *[]T, sql string, args Args) Statement {
	return Statement{sql: sql, args: args, read: func(rows pgx.Rows) (err error) {
		*into, err = pgx.AppendRows([]T{}, rows, scan[T])
		return err
	}}
}

// Batch sends statements in one round trip. The server runs them one after the other, each with a
// snapshot of its own; outside of a Tx they are one transaction. When one fails, those after it do not
// run. A missing row is no failure of the server: all statements run, and Batch returns ErrNoRow.
func Batch(ctx context.Context, s Scope, statements ...Statement) error {
	return s.batch(ctx, statements)
}

// sender is a connection or a transaction of pgx.
type sender interface {
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

func sendBatch(ctx context.Context, to sender, m mark, statements []Statement) error {
	var queue pgx.Batch
	var missing error
	for _, statement := range statements {
		queue.Queue(statement.sql, m.bind(statement.args)).Query(func(rows pgx.Rows) error {
			err := statement.read(rows)
			if errors.Is(err, ErrNoRow) { // after any other error pgx forgets the prepared statements
				missing, err = ErrNoRow, nil
			}
			return err
		})
	}
	if err := to.SendBatch(ctx, &queue).Close(); err != nil {
		return err
	}
	return missing
}

func (s scope) batch(ctx context.Context, statements []Statement) error {
	conn, release, err := s.db.acquire(ctx, s.mark.org)
	if err != nil {
		return err
	}
	defer release()
	if s.steady {
		skip := func(rows pgx.Rows) error {
			rows.Close()
			return rows.Err()
		}
		statements = append([]Statement{{sql: sqlSteady, read: skip}}, statements...)
	}
	return s.db.classify(sendBatch(s.db.marked(ctx, s.mark), conn, s.mark, statements))
}

func (tx *Tx) batch(ctx context.Context, statements []Statement) error {
	return sendBatch(tx.db.marked(ctx, tx.mark), tx.tx, tx.mark, statements)
}
