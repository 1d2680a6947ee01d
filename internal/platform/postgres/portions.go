package postgres

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
)

// Portion is the largest number of rows that one statement of DeleteInPortions deletes.
const Portion = 500

// MoreError means that a deletion stopped because its time was over. The next call goes on after After, which is zero if
// the deletion finds its place itself.
type MoreError struct{ After ids.Any }

func (*MoreError) Error() string { return "there is more to delete: call again" }

type budgetKey struct{}

type budget struct {
	watch clock.Watch
	time  time.Duration
}

// WithBudget lets every deletion in portions under ctx return a MoreError once this time has passed. A job uses it to end
// before its own time does.
func WithBudget(ctx context.Context, of time.Duration) context.Context {
	return context.WithValue(ctx, budgetKey{}, budget{clock.StartWatch(), of})
}

// OverBudget tells whether the time of WithBudget has passed.
func OverBudget(ctx context.Context) bool {
	given, limited := ctx.Value(budgetKey{}).(budget)
	return limited && given.watch.Elapsed() > given.time
}

// pausing is the pace of WithPauses: a portion is small, and the pause after it is as long as the portion took.
func pausing() pace { return pace{rows: 30, rest: 1} }

type pauseKey struct{}

// WithPauses lets every InPortions under ctx work in smaller portions with pauses between, so that statements of requests are
// delayed little while very many rows are deleted.
func WithPauses(ctx context.Context) context.Context {
	return context.WithValue(ctx, pauseKey{}, pausing())
}

// DeleteInPortions deletes rows of an organization until none is left, each portion in a
// transaction of its own, so that no other transaction waits long. The statement deletes at most
// @limit rows with ids greater than @after, in the order of their ids, and returns their ids. A
// statement whose filter has no index reads a bounded number of rows after @after, deletes those that
// match, and returns the id of the last row that it read. The first @after is the one in args, or zero.
func DeleteInPortions(ctx context.Context, db *DB, org ids.Org, sql string, args Args) error {
	from, _ := args["after"].(ids.Any)
	return InPortions(ctx, db, org, from, func(tx *Tx, portion Args) ([]ids.Any, error) {
		all := maps.Clone(args)
		if all == nil {
			all = Args{}
		}
		maps.Copy(all, portion)
		return Many[ids.Any](ctx, tx, sql, all)
	})
}

// InPortions is DeleteInPortions for work that takes several statements: it gets @after and @limit, and returns the ids as a
// statement would.
func InPortions(
	ctx context.Context, db *DB, org ids.Org, from ids.Any, work func(tx *Tx, portion Args) (gone []ids.Any, err error),
) error {
	pauses, paused := ctx.Value(pauseKey{}).(pace)
	rows := Portion
	if paused {
		rows = pauses.rows
	}
	for last := from; ; {
		watch := clock.StartWatch()
		after, _ := last.UUIDValue()
		after.Valid = true // the zero id is less than every other, not unknown
		gone, err := InTx(ctx, db, org, func(tx *Tx) ([]ids.Any, error) { return work(tx, Args{"limit": rows, "after": after}) })
		if err != nil || len(gone) == 0 {
			return err
		}
		if greatest := slices.MaxFunc(gone, ids.Any.Compare); greatest.Compare(last) > 0 {
			last = greatest
		}
		if OverBudget(ctx) {
			return &MoreError{After: last}
		}
		if paused {
			pauses.pause(watch.Elapsed())
		}
	}
}
