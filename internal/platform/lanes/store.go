package lanes

import (
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
)

const (
	// Opened in one order, so that transactions that open the same lanes do not deadlock.
	sqlOpen = `
INSERT INTO lanes (lane_id, org_id, kind)
SELECT given.lane_id, given.org_id, given.kind
FROM unnest(@lanes::uuid[], @orgs::uuid[], @kinds::text[]) AS given (lane_id, org_id, kind)
WHERE NOT EXISTS (SELECT FROM lanes l WHERE l.lane_id = given.lane_id)
ORDER BY given.lane_id
ON CONFLICT DO NOTHING`

	// Rows and keys, of which there may be millions, are left to Sweep. Without the lane nothing reads them.
	sqlClose = `
WITH lane AS (
    DELETE FROM lanes WHERE lane_id = @lane_id AND org_id = @org_id RETURNING lane_id
)
DELETE FROM lane_faults WHERE lane_id IN (SELECT lane_id FROM lane)`

	// Adds rows and reads the lanes' states in one round trip. A lane that is closed gets no rows.
	sqlAdd = `
WITH added AS (
    INSERT INTO lane_rows (lane_id, priority, due_at, id, key)
    SELECT given.lane_id, given.priority, given.due_at, given.id, given.key
    FROM unnest(@lanes::uuid[], @priorities::smallint[], @dues::timestamptz[], @ids::uuid[], @keys::uuid[])
        AS given (lane_id, priority, due_at, id, key)
    JOIN lanes USING (lane_id)
    ON CONFLICT DO NOTHING
)
SELECT lane_id, org_id, kind, armed, slow
FROM lanes
WHERE lane_id = ANY (@touched)
ORDER BY lane_id`

	// The same for one row, the usual case: arrays cost three times as much.
	sqlAddOne = `
WITH added AS (
    INSERT INTO lane_rows (lane_id, priority, due_at, id, key)
    SELECT lane_id, @priority, @due_at, @id, @key FROM lanes WHERE lane_id = @lane_id
    ON CONFLICT DO NOTHING
)
SELECT lane_id, org_id, kind, armed, slow
FROM lanes
WHERE lane_id = @lane_id`

	sqlArmOne = `-- locks: lanes to arm
UPDATE lanes
SET armed = true, token = @token, progress = progress + 1
WHERE lane_id = @lane_id AND NOT armed`

	// Locks in one order, so that two transactions do not deadlock, and waits for locks: a lane
	// whose lock is held by a transaction that rolls back must not be skipped.
	sqlArm = `-- locks: lanes to arm
WITH given AS (
    SELECT * FROM unnest(@lanes::uuid[], @tokens::bigint[]) AS given (lane_id, token)
), idle AS (
    SELECT l.lane_id FROM lanes l JOIN given USING (lane_id) WHERE NOT l.armed ORDER BY l.lane_id FOR UPDATE OF l
)
UPDATE lanes l
SET armed = true, token = given.token, progress = l.progress + 1
FROM given JOIN idle USING (lane_id)
WHERE l.lane_id = given.lane_id
RETURNING l.lane_id`

	// Reads when the earliest row of an idle lane may start. A row whose key is held or paced cannot
	// start yet: the end of the hold or pace (lane_keys.until) counts instead of its due time. LIMIT makes the
	// planner look up each lane by its key, in a plan that is kept (ADR 15): planning takes ten times as long as the look.
	sqlLook = `
SELECT l.lane_id, l.org_id, l.kind, l.armed, l.slow, head.due_at
FROM (SELECT DISTINCT lane_id FROM unnest(@lanes::uuid[]) AS lane_id LIMIT @count) asked
JOIN lanes l ON l.lane_id = asked.lane_id
CROSS JOIN LATERAL (
    SELECT least(
        (SELECT min(first.due_at)
         FROM (VALUES (0), (1)) AS p (priority)
         CROSS JOIN LATERAL (
             SELECT r.due_at
             FROM lane_rows r
             WHERE r.lane_id = l.lane_id AND r.priority = p.priority AND r.due_at < 'infinity'
               AND NOT ` + sqlHeld + ` AND NOT ` + sqlPaced + `
             ORDER BY r.due_at
             LIMIT 1
         ) first),
        (SELECT min(k.until) FROM lane_keys k WHERE k.lane_id = l.lane_id AND k.until > @now)
    ) AS due_at
    OFFSET 0 -- keeps the planner from merging the subquery, which would then run once per mention of due_at
) head
WHERE NOT l.armed
  AND head.due_at IS NOT NULL
  AND (head.due_at <= @now OR l.timer_at IS NULL OR l.timer_at <= @now OR l.timer_at > head.due_at)
ORDER BY l.lane_id`

	// sqlHeld tells that lane_rows r waits for another row of its key: the key is held by a row that
	// waits for its retry, or an older row of the key is parked.
	sqlHeld = `(r.key IS NOT NULL AND coalesce(
    (SELECT k.holder <> r.id FROM lane_keys k WHERE k.lane_id = r.lane_id AND k.key = r.key AND k.holder IS NOT NULL),
    EXISTS (
        SELECT FROM lane_rows o
        WHERE o.lane_id = r.lane_id AND o.key = r.key AND o.due_at = 'infinity' AND o.priority <= r.priority
          AND (o.parked_from, o.id) < (r.due_at, r.id))))`

	// sqlPaced tells that the key of lane_rows r may not start yet because of its pace.
	sqlPaced = `(r.key IS NOT NULL AND EXISTS (
    SELECT FROM lane_keys k WHERE k.lane_id = r.lane_id AND k.key = r.key AND k.holder IS NULL AND k.until > @now))`

	sqlLock = `
SELECT FROM lanes WHERE lane_id = ANY (@lanes) ORDER BY lane_id FOR UPDATE`

	sqlSetTimers = `
UPDATE lanes l
SET timer_at = given.due_at
FROM unnest(@lanes::uuid[], @dues::timestamptz[]) AS given (lane_id, due_at)
WHERE l.lane_id = given.lane_id`

	// A timer's job becomes the owner unless the lane has an owner already.
	sqlArmByTimer = `
UPDATE lanes
SET armed = true, token = @token, progress = progress + 1, timer_at = NULL
WHERE lane_id = @lane_id AND (NOT armed OR token = @token)`
)

// laneState is what a transaction that adds rows reads of a lane.
type laneState struct {
	LaneID ids.Any
	OrgID  ids.Org
	Kind   string
	Armed  bool
	Slow   bool
}

func (s laneState) wake() wake {
	return wake{Lane: Lane{ID: s.LaneID, Org: s.OrgID, Kind: s.Kind}, slow: s.Slow}
}

// idleLane is a lane without an owner, and when its next row is due.
type idleLane struct {
	laneState

	DueAt time.Time
}
