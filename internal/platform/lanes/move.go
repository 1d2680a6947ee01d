package lanes

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// An organization that moves to another cell takes its waiting rows along. They are copied to tables
// that move with it: while it is frozen its lanes do not exist, so that no drainer can work them. The
// table lanes_moving names these lanes, and the sweep does not clear their rows. Jobs, and what a drainer
// learned of a lane, stay behind.

// movedAtOnce is how many rows of lanes one transaction moves: an organization may have millions.
const movedAtOnce = 20_000

// Locks the lanes first, as their drainers do.
const sqlDissolve = `-- locks: lanes, lanes_moving, lane_keys_moving, lane_faults_moving
WITH locked AS MATERIALIZED (
    SELECT lane_id FROM lanes WHERE org_id = @org_id ORDER BY lane_id FOR UPDATE
), gone_lanes AS (
    DELETE FROM lanes WHERE lane_id IN (SELECT lane_id FROM locked) RETURNING lane_id, kind, blocked_until
), kept_lanes AS (
    INSERT INTO lanes_moving (org_id, lane_id, kind, blocked_until)
    SELECT @org_id, lane_id, kind, blocked_until FROM gone_lanes
), gone_keys AS (
    DELETE FROM lane_keys WHERE lane_id IN (SELECT lane_id FROM locked) RETURNING lane_id, key, holder, until
), kept_keys AS (
    INSERT INTO lane_keys_moving (org_id, lane_id, key, holder, until)
    SELECT @org_id, lane_id, key, holder, until FROM gone_keys
), gone_faults AS (
    DELETE FROM lane_faults WHERE lane_id IN (SELECT lane_id FROM locked)
    RETURNING lane_id, id, key, priority, class, times, reason, at, aside
)
INSERT INTO lane_faults_moving (org_id, lane_id, id, key, priority, class, times, reason, at, aside)
SELECT @org_id, lane_id, id, key, priority, class, times, reason, at, aside FROM gone_faults`

const sqlKeepRows = `-- locks: lane_rows_moving
WITH gone AS (
    DELETE FROM lane_rows
    WHERE ctid = ANY (ARRAY(
        SELECT r.ctid FROM lanes_moving m JOIN lane_rows r USING (lane_id) WHERE m.org_id = @org_id LIMIT @limit))
    RETURNING lane_id, priority, due_at, id, key, parked_from
)
INSERT INTO lane_rows_moving (org_id, lane_id, priority, due_at, id, key, parked_from)
SELECT @org_id, lane_id, priority, due_at, id, key, parked_from FROM gone`

// Dissolve removes every lane of an organization that is frozen, and keeps what waits in them. Their drainers lose
// them and stop. Dissolve continues where an earlier call failed.
func (l *Lanes) Dissolve(ctx context.Context, org ids.Org) error {
	_, err := postgres.InFirstTx(ctx, l.db, org, func(tx *postgres.Tx) (int64, error) { return tx.Exec(ctx, sqlDissolve, nil) })
	if err != nil {
		return err
	}
	return l.moveRows(ctx, org, sqlKeepRows)
}

// moveRows moves rows between lane_rows and lane_rows_moving in portions.
func (l *Lanes) moveRows(ctx context.Context, org ids.Org, sql string) error {
	for {
		moved, err := postgres.InFirstTx(ctx, l.db, org, func(tx *postgres.Tx) (int64, error) {
			return tx.Exec(ctx, sql, postgres.Args{"limit": movedAtOnce})
		})
		if err != nil || moved == 0 {
			return err
		}
	}
}

// A row that is in its lane already was added while Dissolve ran.
const sqlReturnRows = `-- locks: lane_rows_moving
WITH kept AS (
    DELETE FROM lane_rows_moving
    WHERE org_id = @org_id
      AND ctid = ANY (ARRAY(SELECT ctid FROM lane_rows_moving WHERE org_id = @org_id LIMIT @limit))
    RETURNING lane_id, priority, due_at, id, key, parked_from
), added AS (
    INSERT INTO lane_rows (lane_id, priority, due_at, id, key, parked_from)
    SELECT lane_id, priority, due_at, id, key, parked_from FROM kept
    ON CONFLICT DO NOTHING
)
SELECT FROM kept`

// ReturnRows puts the rows that Dissolve kept back into the lanes of an organization that is frozen. RebuildTx makes
// the lanes.
func (l *Lanes) ReturnRows(ctx context.Context, org ids.Org) error {
	return l.moveRows(ctx, org, sqlReturnRows)
}

const sqlRestore = `-- locks: lanes, lanes_moving, lane_keys_moving, lane_faults_moving
WITH kept_lanes AS (
    DELETE FROM lanes_moving WHERE org_id = @org_id RETURNING lane_id, kind, blocked_until
), kept_keys AS (
    DELETE FROM lane_keys_moving WHERE org_id = @org_id RETURNING lane_id, key, holder, until
), kept_faults AS (
    DELETE FROM lane_faults_moving WHERE org_id = @org_id RETURNING lane_id, id, key, priority, class, times, reason, at, aside
), opened AS (
    INSERT INTO lanes (lane_id, org_id, kind, blocked_until)
    SELECT lane_id, @org_id, kind, blocked_until FROM kept_lanes ORDER BY lane_id
), held AS (
    INSERT INTO lane_keys (lane_id, key, holder, until) SELECT lane_id, key, holder, until FROM kept_keys
), faults AS (
    INSERT INTO lane_faults (lane_id, id, key, priority, class, times, reason, at, aside)
    SELECT lane_id, id, key, priority, class, times, reason, at, aside FROM kept_faults
)
SELECT l.lane_id, l.kind
FROM kept_lanes l
WHERE EXISTS (SELECT FROM lane_rows r WHERE r.lane_id = l.lane_id)
ORDER BY l.lane_id`

// RebuildTx makes the lanes that Dissolve removed again, after ReturnRows, and lets each kind restore what else it
// needs.
func (l *Lanes) RebuildTx(ctx context.Context, tx *postgres.Tx) error {
	type waiting struct {
		LaneID ids.Any
		Kind   string
	}
	restored, err := postgres.Many[waiting](ctx, tx, sqlRestore, nil)
	if err != nil {
		return err
	}
	for _, lane := range restored {
		l.touchTx(tx, lane.Kind, lane.LaneID)
	}
	for _, name := range slices.Sorted(maps.Keys(l.kinds)) {
		if restore := l.kinds[name].settings().restore; restore != nil {
			if err := restore(ctx, tx); err != nil {
				return fmt.Errorf("restore lanes of kind %s: %w", name, err)
			}
		}
	}
	return nil
}
