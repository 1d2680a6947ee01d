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
// that move with it: while it is frozen its lanes do not exist, so that no drainer can work them.
// Jobs, and what a drainer learned of a lane, stay behind.

// Locks the lanes first, as their drainers do. Each row is deleted where it is and inserted where it is kept by one
// statement: a row that is added meanwhile is not deleted, and is in the lane when that is made again.
const sqlDissolve = `-- locks: lanes, lanes_moving, lane_rows_moving, lane_keys_moving, lane_faults_moving
WITH locked AS MATERIALIZED (
    SELECT lane_id FROM lanes WHERE org_id = @org_id ORDER BY lane_id FOR UPDATE
), gone_lanes AS (
    DELETE FROM lanes WHERE lane_id IN (SELECT lane_id FROM locked) RETURNING lane_id, kind, blocked_until
), kept_lanes AS (
    INSERT INTO lanes_moving (org_id, lane_id, kind, blocked_until)
    SELECT @org_id, lane_id, kind, blocked_until FROM gone_lanes
), gone_rows AS (
    DELETE FROM lane_rows WHERE lane_id IN (SELECT lane_id FROM locked) RETURNING lane_id, priority, due_at, id, key, parked_from
), kept_rows AS (
    INSERT INTO lane_rows_moving (org_id, lane_id, priority, due_at, id, key, parked_from)
    SELECT @org_id, lane_id, priority, due_at, id, key, parked_from FROM gone_rows
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

// DissolveTx removes every lane of an organization that is about to move, and keeps what waits in
// them. Their drainers lose them and stop.
func (l *Lanes) DissolveTx(ctx context.Context, tx *postgres.Tx, org ids.Org) error {
	_, err := tx.Exec(ctx, sqlDissolve, postgres.Args{"org_id": org})
	return err
}

const sqlRestore = `-- locks: lanes, lanes_moving, lane_rows_moving, lane_keys_moving, lane_faults_moving
WITH kept_lanes AS (
    DELETE FROM lanes_moving WHERE org_id = @org_id RETURNING lane_id, kind, blocked_until
), kept_rows AS (
    DELETE FROM lane_rows_moving WHERE org_id = @org_id RETURNING lane_id, priority, due_at, id, key, parked_from
), kept_keys AS (
    DELETE FROM lane_keys_moving WHERE org_id = @org_id RETURNING lane_id, key, holder, until
), kept_faults AS (
    DELETE FROM lane_faults_moving WHERE org_id = @org_id RETURNING lane_id, id, key, priority, class, times, reason, at, aside
), opened AS (
    INSERT INTO lanes (lane_id, org_id, kind, blocked_until)
    SELECT lane_id, @org_id, kind, blocked_until FROM kept_lanes ORDER BY lane_id
), added AS (
    INSERT INTO lane_rows (lane_id, priority, due_at, id, key, parked_from)
    SELECT lane_id, priority, due_at, id, key, parked_from FROM kept_rows
    ON CONFLICT DO NOTHING
), held AS (
    INSERT INTO lane_keys (lane_id, key, holder, until) SELECT lane_id, key, holder, until FROM kept_keys
), faults AS (
    INSERT INTO lane_faults (lane_id, id, key, priority, class, times, reason, at, aside)
    SELECT lane_id, id, key, priority, class, times, reason, at, aside FROM kept_faults
)
SELECT l.lane_id, l.kind FROM kept_lanes l WHERE l.lane_id IN (SELECT lane_id FROM kept_rows) ORDER BY l.lane_id`

// RebuildTx makes the lanes of the transaction's organization again, with the rows that
// DissolveTx kept, and lets each kind restore what else it needs. Lanes that still exist, because
// the organization is open already, are dissolved first.
func (l *Lanes) RebuildTx(ctx context.Context, tx *postgres.Tx) error {
	if err := l.DissolveTx(ctx, tx, tx.Org()); err != nil {
		return err
	}
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
