package lanes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Classes of faults. After three faults of the same class in a row lanes set the row aside. A fault of
// another class starts the count again.
const (
	classPanic  = "panic"
	classBegin  = "begin"
	classCall   = "call"
	classSettle = "settle"
	classHung   = "hung"
	classDeath  = "death"
	// classUnsettled sets a row aside at once.
	classUnsettled = "unsettled"
)

// asideAfter is how many faults of the same class in a row set the row aside: the third one does.
const asideAfter = 3

// faultRow is a row that failed, with how often it has.
type faultRow struct {
	Row
	class  string
	reason string
	times  int
	aside  bool
}

func (f faultRow) id() ids.Any { return f.ID }

// patience is how long a row waits after its nth fault.
func patience(times int) time.Duration { return time.Duration(times*times) * 5 * time.Second }

type knownFault struct {
	ID    ids.Any
	Class string
	Times int
}

const sqlKnownFaults = `
SELECT id, class, times
FROM lane_faults
WHERE lane_id = @lane_id AND id = ANY (@ids)`

// judgeTx counts faults and says which rows are tried again and which are set aside.
func (d *drain[T, R]) judgeTx(ctx context.Context, tx *postgres.Tx, results []Result[T, R]) ([]faultRow, error) {
	var judged []faultRow
	for _, result := range results {
		if result.Fault != nil {
			judged = append(judged, faultRow{Row: result.Row, class: cmp.Or(result.class, classCall), reason: brief(result.Fault), times: 1})
		}
	}
	if len(judged) == 0 {
		return nil, nil
	}
	args := postgres.Args{"lane_id": d.ID, "ids": postgres.Each(judged, faultRow.id)}
	before, err := postgres.Many[knownFault](ctx, tx, sqlKnownFaults, args)
	if err != nil {
		return nil, err
	}
	known := make(map[ids.Any]knownFault, len(before))
	for _, one := range before {
		known[one.ID] = one
	}
	for i := range judged {
		one := &judged[i]
		if earlier := known[one.ID]; earlier.Class == one.class {
			one.times = earlier.Times + 1
		}
		one.aside = one.times >= asideAfter || one.class == classUnsettled
	}
	return judged, nil
}

// asideOf are the rows that a settlement sets aside, as their kind gets them.
func asideOf[T, R any](results []Result[T, R], judged []faultRow) (rows []Aside[T]) {
	for _, one := range judged {
		if one.aside {
			at := slices.IndexFunc(results, func(r Result[T, R]) bool { return r.Row.ID == one.ID })
			rows = append(rows, Aside[T]{Row: one.Row, Task: results[at].Task, Reason: one.reason})
		}
	}
	return rows
}

// brief cuts a reason to a readable length.
func brief(err error) string {
	const most = 500
	text := fmt.Sprint(err)
	return text[:min(len(text), most)]
}

const sqlRecordFaults = `
INSERT INTO lane_faults (lane_id, id, key, priority, class, times, reason, at, aside)
SELECT @lane_id, id, key, priority, class, times, reason, @now, aside
FROM unnest(@ids::uuid[], @keys::uuid[], @priorities::smallint[], @classes::text[], @times::smallint[], @reasons::text[],
            @asides::boolean[])
    AS f (id, key, priority, class, times, reason, aside)
ON CONFLICT (lane_id, id) DO UPDATE
SET class = excluded.class, times = excluded.times, reason = excluded.reason, at = excluded.at, aside = excluded.aside`

func recordFaultsTx(ctx context.Context, tx *postgres.Tx, s settlement, now time.Time) error {
	if len(s.faults) == 0 {
		return nil
	}
	args := postgres.Columns(s.faults,
		postgres.Col("ids", faultRow.id),
		postgres.Col("keys", func(f faultRow) ids.Any { return f.Key }),
		postgres.Col("priorities", func(f faultRow) int16 { return int16(f.Priority) }), //nolint:gosec // 0 or 1
		postgres.Col("classes", func(f faultRow) string { return f.class }),
		postgres.Col("times", func(f faultRow) int16 { return int16(f.times) }), //nolint:gosec // small
		postgres.Col("reasons", func(f faultRow) string { return f.reason }),
		postgres.Col("asides", func(f faultRow) bool { return f.aside }))
	args["lane_id"], args["now"] = s.ID, now
	_, err := tx.Exec(ctx, sqlRecordFaults, args)
	return err
}

// AsideRow is a row that was set aside, as an operator sees it.
type AsideRow struct {
	LaneID ids.Any
	OrgID  ids.Org
	Kind   string
	ID     ids.Any
	Class  string
	Reason string
	At     time.Time
}

const sqlAside = `
SELECT f.lane_id, l.org_id, l.kind, f.id, f.class, f.reason, f.at
FROM lane_faults f
JOIN lanes l USING (lane_id)
WHERE f.aside
ORDER BY f.at, f.id
LIMIT @limit`

// Aside lists rows that were set aside, oldest first.
func (l *Lanes) Aside(ctx context.Context, limit int) ([]AsideRow, error) {
	return postgres.Many[AsideRow](ctx, l.db.System("rows set aside"), sqlAside, postgres.Args{"limit": limit})
}

const sqlRetry = `
WITH forgiven AS (
    DELETE FROM lane_faults WHERE id = @id AND aside RETURNING lane_id, priority, id, key
), waiting AS (
    INSERT INTO lane_rows (lane_id, priority, due_at, id, key)
    SELECT lane_id, priority, @now, id, key FROM forgiven
)
SELECT f.lane_id, l.org_id FROM forgiven f JOIN lanes l USING (lane_id)`

// Retry puts a row that was set aside back in its lane, its faults forgotten, and returns the organization of
// the lane.
func (l *Lanes) Retry(ctx context.Context, id ids.Any) (ids.Org, error) {
	type retried struct {
		LaneID ids.Any
		OrgID  ids.Org
	}
	row, err := postgres.InSystemTx(ctx, l.db, "retry a row", func(tx *postgres.Tx) (retried, error) {
		return postgres.One[retried](ctx, tx, sqlRetry, postgres.Args{"id": id, "now": l.clock.Now()})
	})
	if errors.Is(err, postgres.ErrNoRow) {
		return ids.Org{}, fault.New(fault.ResourceNotFound, "No row with that id was set aside.")
	}
	if err != nil {
		return ids.Org{}, err
	}
	return row.OrgID, l.look(ctx, []ids.Any{row.LaneID})
}
