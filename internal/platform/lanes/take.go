package lanes

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// claim says how a drainer gets its lane. The first take deletes the job that woke the lane:
// the drainer that deletes it is the only one that this token will ever have.
type claim int16

const (
	// owned needs no claim: the job is deleted already.
	owned claim = iota
	// unfetched claims a job that River has not handed out yet.
	unfetched
	// fetched claims the job that River handed to this process.
	fetched
)

// takeRequest asks for due rows of one lane.
type takeRequest struct {
	lane  ids.Any
	token int64
	claim claim
	// limit is how many rows of each priority are read.
	limit int
	// priorities is how many are asked for, beginning with 0.
	priorities int
}

// taken is the lane as its owner sees it. rows are the due rows that may start; held are the due
// rows that wait behind another row of their key.
type taken struct {
	owned bool
	state laneHealth
	rows  []Row
	held  []Row
}

// laneHealth is what a drainer learns from the ones before it.
type laneHealth struct {
	Slow         bool
	BlockedUntil *time.Time
	Concurrency  int
	LatencyMs    int
	Deaths       int
	Suspect      ids.Any
}

const sqlTake = `
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest(@lanes::uuid[], @tokens::bigint[], @claims::smallint[], @limits::int[], @priorities::int[])
        AS asked (lane_id, token, claim, n, priorities)
), there AS MATERIALIZED (
    SELECT j.id
    FROM ` + jobs.Table + ` j
    JOIN asked a ON j.id = a.token AND (a.claim = 2 OR a.claim = 1 AND j.state = 'available')
    ORDER BY j.id -- one order, so that two processes that claim the same jobs do not deadlock
    FOR UPDATE OF j
), claimed AS (
    DELETE FROM ` + jobs.Table + ` j USING there WHERE j.id = there.id RETURNING j.id
)
SELECT l.token, l.slow, l.blocked_until, l.concurrency, l.latency_ms, l.deaths, l.suspect,
       r.priority, r.due_at, r.id, r.key, coalesce(r.held, false) AS held
FROM asked a
JOIN lanes l ON l.lane_id = a.lane_id AND l.token = a.token
LEFT JOIN LATERAL (
    SELECT due.priority, due.due_at, due.id, due.key, due.held
    FROM (VALUES (0), (1)) AS p (priority)
    CROSS JOIN LATERAL (
        SELECT r.priority, r.due_at, r.id, r.key, ` + sqlHeld + ` AS held
        FROM lane_rows r
        WHERE p.priority < a.priorities AND r.lane_id = a.lane_id AND r.priority = p.priority AND r.due_at <= @now AND NOT ` + sqlPaced + `
        ORDER BY r.due_at, r.id
        LIMIT a.n
    ) due
) r ON l.blocked_until IS NULL OR l.blocked_until <= @now
WHERE a.claim = 0 OR a.token IN (SELECT id FROM claimed)`

type takenRow struct {
	Token int64
	laneHealth

	Priority *int16
	DueAt    *time.Time
	ID       ids.Any
	Key      ids.Any
	Held     bool
}

// take answers the requests of many drainers with one statement.
func (e *Engine) take(ctx context.Context, requests []takeRequest) ([]taken, error) {
	var lanes []ids.Any
	var tokens []int64
	var claims []int16
	var limits, levels []int32
	at := answeredTo(requests)
	for token, i := range at {
		r := requests[i]
		lanes, tokens, claims = append(lanes, r.lane), append(tokens, token), append(claims, int16(r.claim))
		limits, levels = append(limits, int32(r.limit)), append(levels, int32(r.priorities)) //nolint:gosec // a few thousand
	}
	watch := clock.StartWatch()
	rows, err := postgres.Many[takenRow](ctx, e.db.System("take due rows"), sqlTake, postgres.Args{
		"lanes": lanes, "tokens": tokens, "claims": claims, "limits": limits, "priorities": levels, "now": e.clock.Now(),
	})
	if err != nil {
		return nil, err
	}
	answers := make([]taken, len(requests))
	for _, row := range rows {
		answer := &answers[at[row.Token]]
		answer.owned, answer.state = true, row.laneHealth
		if row.DueAt == nil {
			continue
		}
		one := Row{ID: row.ID, Key: row.Key, Priority: int(*row.Priority), DueAt: *row.DueAt, taken: watch}
		if row.Held {
			answer.held = append(answer.held, one)
		} else {
			answer.rows = append(answer.rows, one)
		}
	}
	return answers, nil
}

// answeredTo chooses one request per token, because a token belongs to one drainer. If the owner
// asks, a drainer that still tries to claim the lane is too late; of several that claim, one wins.
func answeredTo(requests []takeRequest) map[int64]int {
	at := make(map[int64]int, len(requests))
	for i, r := range requests {
		if other, asked := at[r.token]; !asked || goesBefore(r.claim, requests[other].claim) {
			at[r.token] = i
		}
	}
	return at
}

func goesBefore(one, other claim) bool { return one == owned || other == unfetched && one == fetched }

// sqlPark moves rows behind a held key out of the way of takes. It runs under the fence, which
// waits for settlements: a key that was freed meanwhile is seen, and its rows stay where they are.
const sqlPark = `
UPDATE lane_rows r
SET parked_from = r.due_at, due_at = 'infinity'
FROM unnest(@lanes::uuid[], @priorities::smallint[], @dues::timestamptz[], @ids::uuid[]) AS g (lane_id, priority, due_at, id)
WHERE r.lane_id = g.lane_id AND r.priority = g.priority AND r.due_at = g.due_at AND r.id = g.id AND ` + sqlHeld

// parkTx moves rows of held keys aside, so that takes do not read them again.
func parkTx(ctx context.Context, tx *postgres.Tx, lane ids.Any, rows []Row) error {
	given := postgres.Each(rows, func(row Row) laneRow { return laneRow{lane, row} })
	_, err := tx.Exec(ctx, sqlPark, columns("", given))
	return err
}
