package postgres

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/parley-chat/parley/internal/platform/ids"
)

// Args are the named arguments of one statement: @name in its text. The scope adds @org_id to the
// map, so the caller must not share it between statements.
type Args map[string]any

// plan is a statement with numbered parameters and the names that fill them.
type plan struct {
	sql   string
	names []string
}

// plans caches the numbered form of each statement. Its size is bounded by the number of
// statements in the code, plus those that create and drop partitions.
var plans sync.Map //nolint:gochecknoglobals // a cache of pure results

// RewriteQuery is called by pgx before the statement is prepared.
func (a Args) RewriteQuery(ctx context.Context, conn *pgx.Conn, sql string, _ []any) (string, []any, error) {
	known, err := planOf(ctx, conn, sql, a)
	if err != nil {
		return "", nil, err
	}
	values := make([]any, len(known.names))
	for i, name := range known.names {
		value, given := a[name]
		if !given {
			return "", nil, fmt.Errorf("argument @%s is missing in %q", name, sql)
		}
		values[i] = value
	}
	return known.sql, values, nil
}

// planOf has pgx number the parameters. It passes each name as its own value, to learn the order.
func planOf(ctx context.Context, conn *pgx.Conn, sql string, args Args) (plan, error) {
	if known, found := plans.Load(sql); found {
		return known.(plan), nil //nolint:forcetypeassert // only plans are stored
	}
	named := make(pgx.NamedArgs, len(args))
	for name := range args {
		named[name] = name
	}
	numbered, values, err := named.RewriteQuery(ctx, conn, sql, nil)
	if err != nil {
		return plan{}, err
	}
	made := plan{sql: numbered}
	for _, value := range values {
		name, given := value.(string)
		if !given {
			return plan{}, fmt.Errorf("an argument is missing in %q", sql)
		}
		made.names = append(made.names, name)
	}
	plans.Store(sql, made)
	return made, nil
}

// mark is the scope of a statement: an organization, or the reason of a system scope.
type mark struct {
	org ids.Org
	// system is the reason of a system scope; empty for a statement of an organization.
	system string
	// unentered transactions create, open or close an organization, so they do not enter it.
	unentered bool
}

func (m mark) bind(args Args) Args {
	if m.system != "" {
		return args
	}
	if args == nil {
		return Args{"org_id": m.org}
	}
	args["org_id"] = m.org
	return args
}

type markKey struct{}

// marked returns a context from which tracers read the scope of a statement. Without tracers it
// returns ctx.
func (db *DB) marked(ctx context.Context, m mark) context.Context {
	if !db.traced {
		return ctx
	}
	return context.WithValue(ctx, markKey{}, m)
}
