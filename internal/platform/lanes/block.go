package lanes

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Forever blocks a lane until UnblockTx.
func Forever() time.Time { return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }

const sqlBlock = `
UPDATE lanes
SET blocked_until = greatest(blocked_until, @until)
WHERE lane_id = @lane_id AND org_id = @org_id`

// BlockTx lets no row of the lane start before until. Calls under way are finished. No row is
// touched: once its drainer has seen the block, the lane costs one scheduled job, however many
// rows wait; a lane that is blocked for ever costs none.
func (l *Lanes) BlockTx(ctx context.Context, tx *postgres.Tx, lane ids.Any, until time.Time) error {
	_, err := tx.Exec(ctx, sqlBlock, postgres.Args{"lane_id": lane, "org_id": tx.Org(), "until": until})
	return err
}

// If the lane's job still exists, no drainer has claimed the lane. Then the statement deletes the job
// and makes the lane idle, and UnblockTx arms it again. A lane without a job is left to its drainer,
// which finds the block lifted.
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

// UnblockTx lets rows of the lane start again at once.
func (l *Lanes) UnblockTx(ctx context.Context, tx *postgres.Tx, kind string, lane ids.Any) error {
	lifted, err := tx.Exec(ctx, sqlUnblock, postgres.Args{"lane_id": lane, "org_id": tx.Org()})
	if err == nil && lifted > 0 {
		l.touchTx(tx, kind, lane)
	}
	return err
}

// LockTx locks a lane. A transaction that changes a lane and also locks what the lane is for must
// lock the lane first, as settlements do.
func (l *Lanes) LockTx(ctx context.Context, tx *postgres.Tx, lane ids.Any) error {
	_, err := tx.Exec(ctx, sqlLock, postgres.Args{"lanes": []ids.Any{lane}})
	return err
}
