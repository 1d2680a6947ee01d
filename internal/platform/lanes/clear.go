package lanes

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	// clearAtOnce is how many rows of a lane one transaction deletes outside of a settlement.
	clearAtOnce = 5_000
	// clearPortions bounds one sweep, because the watch over the lanes waits for it; the next sweep goes on.
	clearPortions = 40
)

const sqlClosed = sqlWaiting + `
SELECT w.lane_id
FROM waiting w
WHERE w.lane_id IS NOT NULL
  AND NOT EXISTS (SELECT FROM lanes l WHERE l.lane_id = w.lane_id)
  AND NOT EXISTS (SELECT FROM lanes_moving m WHERE m.lane_id = w.lane_id)
UNION
SELECT k.lane_id
FROM lane_keys k
WHERE NOT EXISTS (SELECT FROM lanes l WHERE l.lane_id = k.lane_id)
LIMIT @limit`

const sqlClear = `
WITH rows AS (
    DELETE FROM lane_rows
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM lane_rows WHERE lane_id = @lane_id LIMIT @limit))
      AND NOT EXISTS (SELECT FROM lanes WHERE lane_id = @lane_id)
      AND NOT EXISTS (SELECT FROM lanes_moving WHERE lane_id = @lane_id)
    RETURNING 1
), keys AS (
    DELETE FROM lane_keys
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM lane_keys WHERE lane_id = @lane_id LIMIT @limit))
      AND NOT EXISTS (SELECT FROM lanes WHERE lane_id = @lane_id)
    RETURNING 1
)
SELECT greatest((SELECT count(*) FROM rows), (SELECT count(*) FROM keys))`

// clearClosed deletes rows and keys of lanes that were closed, also rows that were added at that moment.
func (l *Lanes) clearClosed(ctx context.Context) error {
	closed, err := postgres.Many[ids.Any](ctx, l.db.System("closed lanes"), sqlClosed, postgres.Args{"limit": sweepLanes})
	if err != nil {
		return err
	}
	portions := 0
	for _, lane := range closed {
		for deleted := clearAtOnce; deleted == clearAtOnce && portions < clearPortions; portions++ {
			deleted, err = postgres.InSystemTx(ctx, l.db, "clear closed lane", func(tx *postgres.Tx) (int, error) {
				return postgres.One[int](ctx, tx, sqlClear, postgres.Args{"lane_id": lane, "limit": clearAtOnce})
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	sqlExpiring = `
SELECT l.lane_id AS id, l.org_id AS org, l.kind
FROM lanes l
WHERE l.kind = @kind AND l.blocked_until >= @forever
  AND EXISTS (
      SELECT FROM (VALUES (0), (1)) AS p (priority)
      CROSS JOIN LATERAL (
          SELECT r.id FROM lane_rows r WHERE r.lane_id = l.lane_id AND r.priority = p.priority ORDER BY r.due_at, r.id LIMIT 1
      ) first
      WHERE first.id < @before)
LIMIT @limit`

	// Rows that are parked are due at infinity.
	sqlDeleteOld = `
WITH gone AS (
    DELETE FROM lane_rows
    WHERE ctid = ANY (ARRAY(
        SELECT r.ctid
        FROM (VALUES (0), (1)) AS p (priority)
        CROSS JOIN LATERAL (
            SELECT r.ctid
            FROM lane_rows r
            WHERE r.lane_id = @lane_id AND r.priority = p.priority AND r.due_at < @due_before AND r.id < @before
            LIMIT @limit
        ) r
        UNION ALL
        SELECT parked.ctid
        FROM (
            SELECT r.ctid
            FROM lane_rows r
            WHERE r.lane_id = @lane_id AND r.due_at = 'infinity' AND r.id < @before
            LIMIT @limit
        ) parked))
    RETURNING id, key
), freed AS (
    DELETE FROM lane_keys k USING gone WHERE k.lane_id = @lane_id AND k.key = gone.key AND k.holder = gone.id
)
SELECT coalesce(key, '00000000-0000-0000-0000-000000000000') FROM gone`

	// Rows that waited for a deleted row of their key may start: the oldest of each key that is not held.
	sqlUnpark = `
UPDATE lane_rows r
SET due_at = r.parked_from, parked_from = NULL
WHERE r.ctid = ANY (ARRAY(
    SELECT one.ctid
    FROM (SELECT DISTINCT key FROM unnest(@keys::uuid[]) AS f (key)) f
    CROSS JOIN LATERAL (
        SELECT p.ctid
        FROM lane_rows p
        WHERE p.lane_id = @lane_id AND p.key = f.key AND p.due_at = 'infinity'
        ORDER BY p.priority, p.parked_from, p.id
        LIMIT 1
    ) one
    WHERE NOT EXISTS (SELECT FROM lane_keys k WHERE k.lane_id = @lane_id AND k.key = f.key AND k.holder IS NOT NULL)))`
)

// Expire deletes rows of a kind that were made before a time from lanes that are blocked until further notice, and
// returns how many. In a lane that is drained, the kind removes what no longer exists.
func (l *Lanes) Expire(ctx context.Context, kind string, before time.Time) (expired int, err error) {
	lanes, err := postgres.Many[Lane](ctx, l.db.System("expire rows of lanes"), sqlExpiring,
		postgres.Args{"kind": kind, "forever": Forever(), "before": ids.Floor[rowID](before), "limit": sweepLanes})
	if err != nil {
		return 0, err
	}
	for _, lane := range lanes {
		deleted, err := l.deleteOld(ctx, lane, ids.Floor[rowID](before).Any(), before)
		if expired += deleted; err != nil {
			return expired, err
		}
	}
	return expired, nil
}

// Discard deletes rows of a lane whose ids are less than before, also those that wait for a retry. The lane may be
// drained meanwhile: a row that its drainer has taken already is settled as usual, and does not come back. A
// postgres.MoreError means that it must be called again.
func (l *Lanes) Discard(ctx context.Context, lane Lane, before ids.Any) error {
	_, err := l.deleteOld(ctx, lane, before, Forever())
	return err
}

// deleteOld deletes rows in portions and returns how many.
func (l *Lanes) deleteOld(ctx context.Context, lane Lane, before ids.Any, dueBefore time.Time) (deleted int, err error) {
	args := postgres.Args{"lane_id": lane.ID, "due_before": dueBefore, "before": before, "limit": clearAtOnce}
	for {
		portion, err := postgres.InTx(ctx, l.db, lane.Org, func(tx *postgres.Tx) (int, error) {
			if err := l.LockTx(ctx, tx, lane.ID); err != nil {
				return 0, err
			}
			keys, err := postgres.Many[ids.Any](ctx, tx, sqlDeleteOld, args)
			if err != nil || len(keys) == 0 {
				return 0, err
			}
			l.touchTx(tx, lane.Kind, lane.ID)
			_, err = tx.Exec(ctx, sqlUnpark, postgres.Args{"lane_id": lane.ID, "keys": keys})
			return len(keys), err
		})
		if deleted += portion; err != nil || portion == 0 {
			return deleted, err
		}
		if postgres.OverBudget(ctx) {
			return deleted, &postgres.MoreError{}
		}
	}
}
