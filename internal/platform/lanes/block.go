package lanes

import (
	"context"
	"fmt"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const sqlBlock = `
UPDATE lanes
SET blocked_until = greatest(blocked_until, @until)
WHERE lane_id = @lane_id AND org_id = @org_id`

// BlockTx lets no row of the lane start before until, or ever if that is Forever. Rows
// under way are finished. No row is touched: once its drainer has seen the block, the
// lane costs one scheduled job, however many rows wait.
func (l *Lanes) BlockTx(ctx context.Context, tx *postgres.Tx, lane ids.Any, until time.Time) error {
	_, err := tx.Exec(ctx, sqlBlock, postgres.Args{"lane_id": lane, "org_id": tx.Org(), "until": until})
	return err
}

// A lane whose job still exists has no drainer: it is made idle, to be armed anew, and the
// job is gone, so that nobody can claim it meanwhile. A lane that has a drainer is left to
// it, who finds the block lifted.
const sqlUnblock = `
WITH lane AS (
    SELECT lane_id, armed, token
    FROM lanes
    WHERE lane_id = @lane_id AND org_id = @org_id AND blocked_until IS NOT NULL
    FOR UPDATE
), job AS (
    DELETE FROM ` + jobs.Table + ` j USING lane WHERE j.id = lane.token RETURNING j.id
), drained AS (
    SELECT lane_id, armed AND token IS NOT NULL AND NOT EXISTS (SELECT FROM job) AS drained FROM lane
)
UPDATE lanes l
SET blocked_until = NULL, armed = d.drained, token = CASE WHEN d.drained THEN l.token END, progress = l.progress + 1
FROM drained d
WHERE l.lane_id = d.lane_id`

// UnblockTx lets rows start again at once.
func (l *Lanes) UnblockTx(ctx context.Context, tx *postgres.Tx, kind string, lane ids.Any) error {
	lifted, err := tx.Exec(ctx, sqlUnblock, postgres.Args{"lane_id": lane, "org_id": tx.Org()})
	if err == nil && lifted > 0 {
		l.TouchTx(tx, kind, lane)
	}
	return err
}

// HoldTx has the transaction go first among those that settle or change a lane. Whoever
// also locks what the lane is for must hold the lane before.
func (l *Lanes) HoldTx(ctx context.Context, tx *postgres.Tx, lane ids.Any) error {
	_, err := tx.Exec(ctx, sqlLock, postgres.Args{"lanes": []ids.Any{lane}})
	return err
}

// Keys stay held: who holds one may start, the others of the key still wait for it.
const sqlHurry = `
WITH later AS (
    DELETE FROM lane_rows WHERE lane_id = @lane_id AND due_at > @now RETURNING priority, id, key
)
INSERT INTO lane_rows (lane_id, priority, due_at, id, key)
SELECT @lane_id, priority, timestamptz 'epoch' + interval '1 ms' * ('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint, id, key
FROM later
ON CONFLICT DO NOTHING`

// HurryTx makes rows that wait for their retry due. Each stands where its id says that it
// was made, so that the lane goes on with the oldest and the rows of a key keep their order.
func (l *Lanes) HurryTx(ctx context.Context, tx *postgres.Tx, kind string, lane ids.Any) error {
	_, err := tx.Exec(ctx, sqlHurry, postgres.Args{"lane_id": lane, "now": l.clock.Now()})
	if err == nil {
		l.TouchTx(tx, kind, lane)
	}
	return err
}

const sqlDissolve = `
WITH gone AS (
    DELETE FROM lanes WHERE org_id = @org RETURNING lane_id
), waiting AS (
    DELETE FROM lane_rows WHERE lane_id IN (SELECT lane_id FROM gone)
), keys AS (
    DELETE FROM lane_keys WHERE lane_id IN (SELECT lane_id FROM gone)
)
DELETE FROM lane_faults WHERE lane_id IN (SELECT lane_id FROM gone)`

// DissolveTx removes every lane of an organization that is about to move. Their drainers
// own nothing any more and stop.
func (l *Lanes) DissolveTx(ctx context.Context, tx *postgres.Tx, org ids.Org) error {
	_, err := tx.Exec(ctx, sqlDissolve, postgres.Args{"org": org})
	return err
}

// RebuildTx makes the lanes of the transaction's organization again, out of what the
// domain's tables say is waiting.
func (l *Lanes) RebuildTx(ctx context.Context, tx *postgres.Tx) error {
	if err := l.DissolveTx(ctx, tx, tx.Org()); err != nil {
		return err
	}
	for _, kind := range l.kinds {
		if kind.Restore == nil {
			continue
		}
		if err := kind.Restore(ctx, tx); err != nil {
			return fmt.Errorf("restore lanes of kind %s: %w", kind.Name, err)
		}
	}
	return nil
}
