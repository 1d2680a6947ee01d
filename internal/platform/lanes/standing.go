package lanes

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Standing is how the lanes of one kind are doing.
type Standing struct {
	Kind string
	// OldestDue is the due time of the most overdue row in a lane that is not blocked; nil if no such
	// row is due.
	OldestDue *time.Time
	// LanesWaiting is how many lanes have waiting rows.
	LanesWaiting int64
	// Aside is how many rows are set aside.
	Aside int64
}

const sqlStanding = sqlWaiting + `, heads AS (
    SELECT l.kind, (
        SELECT min(first.due_at)
        FROM (VALUES (0), (1)) AS p (priority)
        CROSS JOIN LATERAL (
            SELECT r.due_at FROM lane_rows r WHERE r.lane_id = l.lane_id AND r.priority = p.priority ORDER BY r.due_at LIMIT 1
        ) first
        WHERE first.due_at <= @now AND (l.blocked_until IS NULL OR l.blocked_until <= @now)
    ) AS due_at
    FROM waiting w
    JOIN lanes l USING (lane_id)
), aside AS (
    SELECT l.kind, count(*) AS rows FROM lane_faults f JOIN lanes l USING (lane_id) WHERE f.aside GROUP BY l.kind
)
SELECT kinds.kind, min(h.due_at) AS oldest_due, count(h.kind) AS lanes_waiting, coalesce(max(a.rows), 0) AS aside
FROM unnest(@kinds::text[]) AS kinds (kind)
LEFT JOIN heads h ON h.kind = kinds.kind
LEFT JOIN aside a ON a.kind = kinds.kind
GROUP BY kinds.kind
ORDER BY kinds.kind`

// Standing returns the standing of every kind.
func (l *Lanes) Standing(ctx context.Context) ([]Standing, error) {
	kinds := make([]string, 0, len(l.kinds))
	for name := range l.kinds {
		kinds = append(kinds, name)
	}
	return postgres.Many[Standing](ctx, l.db.System("standing of the lanes"), sqlStanding,
		postgres.Args{"kinds": kinds, "now": l.clock.Now()})
}

// Counts is what an engine has done and does.
type Counts struct {
	// Busy is how many lanes are drained now.
	Busy int64
	// Rows is how many results were settled.
	Rows int64
	// TakenOver is how many lanes were taken from dead drainers.
	TakenOver int64
	// Unhanded is how often a kind failed to take over rows that were set aside.
	Unhanded int64
}

// Counts tells of this process alone.
func (e *Engine) Counts() Counts {
	e.mu.Lock()
	defer e.mu.Unlock()
	return Counts{Busy: int64(len(e.sessions)), Rows: e.rows.Load(), TakenOver: e.takeovers.Load(), Unhanded: e.unhanded.Load()}
}
