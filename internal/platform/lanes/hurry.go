package lanes

import (
	"context"
	"errors"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// hurryAtOnce is how many rows of a lane one transaction makes due: a lane may have millions.
const hurryAtOnce = 5_000

// Keys stay held: the row that holds a key may start, the others of the key still wait for it.
// Parked rows stay parked. A lane that was closed meanwhile is left to Sweep.
const sqlHurry = `
WITH later AS (
    DELETE FROM lane_rows
    WHERE ctid = ANY (ARRAY(
        SELECT one.ctid
        FROM lanes l
        CROSS JOIN (VALUES (0), (1)) AS p (priority)
        CROSS JOIN LATERAL (
            SELECT r.ctid, r.due_at
            FROM lane_rows r
            WHERE r.lane_id = l.lane_id AND r.priority = p.priority AND r.due_at > @now AND r.due_at >= @from AND r.due_at < 'infinity'
            ORDER BY r.due_at
            LIMIT @limit
        ) one
        WHERE l.lane_id = @lane_id AND l.org_id = @org_id
        ORDER BY one.due_at
        LIMIT @limit))
    RETURNING priority, due_at, id, key
), moved AS (
    INSERT INTO lane_rows (lane_id, priority, due_at, id, key)
    SELECT @lane_id, priority, timestamptz 'epoch' + interval '1 ms' * ('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint,
           id, key
    FROM later
    ON CONFLICT DO NOTHING
)
SELECT count(*) AS count, max(due_at) AS until
FROM later`

type hurried struct {
	Count int
	Until *time.Time
}

// hurryArgs is the job that makes the next rows due: those that are due from From on. A row that fails again meanwhile
// waits for its new retry if that is before From.
type hurryArgs struct {
	Lane ids.Any   `json:"lane"`
	Org  ids.Org   `json:"org"`
	Of   string    `json:"of"`
	From time.Time `json:"from"`
}

// Kind names the job.
func (hurryArgs) Kind() string { return "lane_hurry" }

// HurryTx makes rows that wait for their retry due now: hurryAtOnce of them, those that are due first, and a job the
// others. Their due time becomes the time in their id, so that the lane goes on with the oldest and the rows of a key
// keep their order. The transaction has locked the lane.
func (l *Lanes) HurryTx(ctx context.Context, tx *postgres.Tx, kind string, lane ids.Any) error {
	_, _, err := l.hurryTx(ctx, tx, hurryArgs{Lane: lane, Org: tx.Org(), Of: kind, From: l.clock.Now()}, true)
	return err
}

// hurryTx makes one portion due. If there may be more, next says where to go on; if this portion is the last of its
// caller, a job goes on.
func (l *Lanes) hurryTx(ctx context.Context, tx *postgres.Tx, args hurryArgs, last bool) (next hurryArgs, more bool, err error) {
	moved, err := postgres.One[hurried](ctx, tx, sqlHurry, postgres.Args{
		"lane_id": args.Lane, "now": l.clock.Now(), "from": args.From, "limit": hurryAtOnce,
	})
	if err != nil {
		return args, false, err
	}
	l.touchTx(tx, args.Of, args.Lane)
	if more = moved.Count == hurryAtOnce; !more {
		return args, false, nil
	}
	if args.From = *moved.Until; last {
		_, err = l.queue.AddTx(ctx, tx, jobs.Job{Args: args, Queue: jobs.Maintenance})
	}
	return args, more, err
}

// hurry works the job: a portion in each transaction, until its turn is over.
func (e *Engine) hurry(ctx context.Context, args hurryArgs) error {
	ctx = postgres.WithBudget(ctx, jobs.Turn)
	for {
		last, more := postgres.OverBudget(ctx), false
		next, err := postgres.InTx(ctx, e.db, args.Org, func(tx *postgres.Tx) (next hurryArgs, err error) {
			if err = e.lanes.LockTx(ctx, tx, args.Lane); err == nil {
				next, more, err = e.lanes.hurryTx(ctx, tx, args, last)
			}
			return next, err
		})
		if errors.Is(err, postgres.ErrNotOpenHere) {
			return nil // it is being moved: the other retries keep their times
		}
		if err != nil || last || !more {
			return err
		}
		args = next
	}
}
