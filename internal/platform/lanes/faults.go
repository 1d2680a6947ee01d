package lanes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Classes of what nobody foresaw.
const (
	classPanic  = "panic"
	classBegin  = "begin"
	classDo     = "do"
	classSettle = "settle"
	classHung   = "hung"
	classDeath  = "death"
)

// asideAfter is how often a row may fail in one class before it is set aside.
const asideAfter = 3

// faultRow is a row that failed, with how often it has.
type faultRow struct {
	Row
	class  string
	reason string
	times  int
	aside  bool
}

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
func judgeTx(ctx context.Context, tx *postgres.Tx, lane ids.Any, failed []Result) ([]faultRow, error) {
	if len(failed) == 0 {
		return nil, nil
	}
	rows := make([]ids.Any, len(failed))
	for i, result := range failed {
		rows[i] = result.Row.ID
	}
	before, err := postgres.Many[knownFault](ctx, tx, sqlKnownFaults, postgres.Args{"lane_id": lane, "ids": rows})
	if err != nil {
		return nil, err
	}
	known := make(map[ids.Any]knownFault, len(before))
	for _, one := range before {
		known[one.ID] = one
	}
	judged := make([]faultRow, len(failed))
	for i, result := range failed {
		times := 1
		if earlier := known[result.Row.ID]; earlier.Class == result.class {
			times = earlier.Times + 1
		}
		judged[i] = faultRow{
			Row: result.Row, class: result.class, reason: brief(result.Fault), times: times, aside: times >= asideAfter,
		}
	}
	return judged, nil
}

// brief keeps a reason readable.
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
	n := len(s.faults)
	if n == 0 {
		return nil
	}
	rows, keys := make([]ids.Any, n), make([]ids.Any, n)
	priorities, times, asides := make([]int16, n), make([]int16, n), make([]bool, n)
	classes, reasons := make([]string, n), make([]string, n)
	for i, f := range s.faults {
		rows[i], keys[i], classes[i], reasons[i], asides[i] = f.ID, f.Key, f.class, f.reason, f.aside
		priorities[i], times[i] = int16(f.Priority), int16(f.times) //nolint:gosec // small
	}
	_, err := tx.Exec(ctx, sqlRecordFaults, postgres.Args{
		"lane_id": s.ID, "ids": rows, "keys": keys, "priorities": priorities, "classes": classes, "times": times,
		"reasons": reasons, "asides": asides, "now": now,
	})
	return err
}

// Aside is a row that was set aside.
type Aside struct {
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
func (l *Lanes) Aside(ctx context.Context, limit int) ([]Aside, error) {
	return postgres.Many[Aside](ctx, l.db.System("rows set aside"), sqlAside, postgres.Args{"limit": limit})
}

const sqlRetry = `
WITH forgiven AS (
    DELETE FROM lane_faults WHERE id = @id AND aside RETURNING lane_id, priority, id, key
), waiting AS (
    INSERT INTO lane_rows (lane_id, priority, due_at, id, key)
    SELECT lane_id, priority, @now, id, key FROM forgiven
)
SELECT lane_id FROM forgiven`

// Retry puts a row that was set aside back in its lane, its faults forgotten.
func (l *Lanes) Retry(ctx context.Context, id ids.Any) error {
	lane, err := postgres.InSystemTx(ctx, l.db, "retry a row", func(tx *postgres.Tx) (ids.Any, error) {
		return postgres.One[ids.Any](ctx, tx, sqlRetry, postgres.Args{"id": id, "now": l.clock.Now()})
	})
	if errors.Is(err, postgres.ErrNoRow) {
		return fault.New(fault.ResourceNotFound, "No row with that id was set aside.")
	}
	if err != nil {
		return err
	}
	return l.look(ctx, []ids.Any{lane})
}
