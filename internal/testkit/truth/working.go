package truth

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
)

const (
	// stuckAfter is how long a job may run: 45 s until it is started again, and 60 s.
	stuckAfter = 105 * time.Second
	// leftAfter is how long a row of a lane may be due: 20 s until a dead drainer is replaced, and 60 s.
	leftAfter = 80 * time.Second
)

type job struct {
	ID     int64
	Kind   string
	State  string
	Reason string
}

const sqlJobs = `
SELECT id, kind, state::text AS state, coalesce(errors[array_upper(errors, 1)]->>'error', '') AS reason
FROM river.river_job
WHERE state IN ('cancelled', 'discarded') OR state = 'running' AND attempted_at < $1
ORDER BY id`

// readJobs checks that no job hangs and that none was given up: nothing tells a client that a job was.
func (c *checker) readJobs(ctx context.Context, db database) error {
	all, err := rowsOf[job](ctx, db, sqlJobs, c.EndedAt.Add(-stuckAfter))
	for _, one := range all {
		if one.State == "running" {
			c.violated(Working, "the job %d, %s, has been running for longer than %s", one.ID, one.Kind, stuckAfter)
		} else {
			c.violated(Working, "the job %d, %s, is %s: %s", one.ID, one.Kind, one.State, one.Reason)
		}
	}
	return err
}

type laneRow struct {
	OrgID  orgs.ID
	Kind   string
	ID     ids.Any
	Aside  bool
	Ended  bool
	Reason string
}

const sqlLanes = `
SELECT l.org_id, l.kind, r.id, false AS aside, false AS ended, '' AS reason
FROM lane_rows r
JOIN lanes l USING (lane_id)
WHERE r.due_at < $1
UNION ALL
SELECT l.org_id, l.kind, f.id, true, EXISTS (
    SELECT FROM message_states st WHERE st.org_id = l.org_id AND st.id = f.id AND st.status NOT IN ('queued', 'pending')), f.reason
FROM lane_faults f
JOIN lanes l USING (lane_id)
WHERE f.aside
ORDER BY id`

// readLanes checks that no row of a lane is left, and that none was set aside unless it is a message
// that ended: checkSettled asks for the event of its end.
func (c *checker) readLanes(ctx context.Context, db database) error {
	all, err := rowsOf[laneRow](ctx, db, sqlLanes, c.EndedAt.Add(-leftAfter))
	for _, one := range all {
		switch {
		case !one.Aside:
			c.violated(Working, "the row %s in a lane of %s of %s has been due for longer than %s", one.ID, one.Kind, one.OrgID, leftAfter)
		case !one.Ended:
			c.violated(Working, "the row %s in a lane of %s of %s was set aside: %s", one.ID, one.Kind, one.OrgID, one.Reason)
		}
	}
	return err
}
