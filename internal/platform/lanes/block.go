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
