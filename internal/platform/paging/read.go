package paging

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Read runs the statement of a list and makes a page of its rows. The statement returns at
// most @limit rows after @after in the order of the list; both are bound here, and @after is
// greater than every id on the first page. A list whose position is not an id binds its own.
func Read[T, P any](
	ctx context.Context, scope postgres.Scope, sql string, args postgres.Args, slice Slice[P], position func(T) P,
) (Page[T, P], error) {
	rows, err := postgres.Many[T](ctx, scope, sql, bind(args, slice))
	return Cut(rows, slice.Limit, position), err
}

func bind[P any](args postgres.Args, slice Slice[P]) postgres.Args {
	if args == nil {
		args = postgres.Args{}
	}
	args["limit"] = slice.Limit + 1
	if _, bound := args["after"]; !bound {
		args["after"] = slice.After
		if slice.After == nil {
			args["after"] = greatest
		}
	}
	if _, bound := args["read"]; !bound {
		args["read"] = MaxRead
	}
	return args
}

// greatest is the start of a list that shows the newest first.
var greatest = pgtype.UUID{ //nolint:gochecknoglobals // a constant
	Bytes: [16]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}, Valid: true,
}

// MaxRead is the largest number of rows that one call reads for a filter without an index.
const MaxRead = 10_000

// Walk is a list with a filter without an index. Its statement reads at most @read rows in the
// order of the list. It returns at most @limit rows that match, and the last row that it read,
// after which the next call starts.
type Walk struct {
	// Columns are what the statement returns. Empty means all columns of Rows.
	Columns string
	// Rows selects the rows after the position, without an order. An index has them in Order.
	Rows string
	// Order is an ORDER BY by columns of Rows: `id DESC`.
	Order string
	// Filter is a condition on the columns of Rows, which are those of c.
	Filter string
}

// SQL returns the statement. ReadWalk reads its rows.
func (w Walk) SQL() string {
	columns := `*`
	if w.Columns != "" {
		columns = w.Columns + `, matches, last_read`
	}
	//nolint:unqueryvet // the columns of Rows are those of its caller
	return `
SELECT ` + columns + `
FROM (
    SELECT *, (` + w.Filter + `) IS TRUE AS matches, row_number() OVER (ORDER BY ` + w.Order + `) = @read AS last_read
    FROM (` + w.Rows + `
    ORDER BY ` + w.Order + `
    LIMIT @read) AS c
) AS walked
WHERE matches OR last_read
ORDER BY ` + w.Order + `
LIMIT @limit`
}

// Mark holds the columns that a Walk adds to a row. The struct of its rows embeds it.
type Mark struct {
	Matches bool
	// LastRead is true for the last row that the statement read.
	LastRead bool
}

func (m Mark) mark() Mark { return m }

// ReadWalk is Read for a Walk. A page may have fewer rows than the limit, or none, and still have
// a next page.
func ReadWalk[R interface{ mark() Mark }, T, P any](
	ctx context.Context, scope postgres.Scope, sql string, args postgres.Args, slice Slice[P], row func(R) T, position func(T) P,
) (Page[T, P], error) {
	rows, err := postgres.Many[R](ctx, scope, sql, bind(args, slice))
	page := Page[T, P]{Items: make([]T, 0, len(rows))}
	for _, read := range rows {
		if mark := read.mark(); mark.Matches && len(page.Items) == slice.Limit {
			page.Next = new(position(page.Items[slice.Limit-1]))
		} else {
			if mark.Matches {
				page.Items = append(page.Items, row(read))
			}
			if mark.LastRead {
				page.Next = new(position(row(read)))
			}
		}
	}
	return page, err
}
