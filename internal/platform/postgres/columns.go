package postgres

import (
	"errors"

	"github.com/parley-chat/parley/internal/fault"
)

// Column fills one array argument from rows. Col makes it.
type Column[R any] func(rows []R, args Args)

// Col is the array @name: one value for each row, nil values included.
func Col[R, T any](name string, value func(R) T) Column[R] {
	return func(rows []R, args Args) { args[name] = Each(rows, value) }
}

// Columns turns rows into the arrays that `unnest(@ids::uuid[], @names::text[])` turns into
// rows again, so that one statement writes all of them:
//
//	postgres.Columns(labels,
//		postgres.Col("ids", func(l Label) ID { return l.ID }),
//		postgres.Col("names", func(l Label) string { return l.Name }))
func Columns[R any](rows []R, columns ...Column[R]) Args {
	args := make(Args, len(columns)+1) // the scope adds @org_id
	for _, column := range columns {
		column(rows, args)
	}
	return args
}

// Each returns the value of each row, in the order of the rows. It is never nil, because a nil
// slice would be NULL in SQL, and not an empty array.
func Each[R, T any](rows []R, value func(R) T) []T {
	values := make([]T, len(rows))
	for i, row := range rows {
		values[i] = value(row)
	}
	return values
}

// NotFound turns ErrNoRow into the fault resource_not_found of the noun and leaves every other
// error as it is. Param is the body field that named the row, empty when the path named it.
func NotFound(err error, noun, param string) error {
	if !errors.Is(err, ErrNoRow) {
		return err
	}
	return fault.NotFound(noun).At(param)
}
