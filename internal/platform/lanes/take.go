package lanes

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// claim says how a drainer comes by its lane. The job that woke it is deleted with the
// first take: whoever deletes it is the one drainer that this token will ever have.
type claim int16

const (
	// owned needs no claim: the job is gone already.
	owned claim = iota
	// unfetched takes a job that River has not given to anybody yet.
	unfetched
	// fetched takes the job that River gave to this process.
	fetched
)

type takeQuestion struct {
	lane       ids.Any
	token      int64
	claim      claim
	limit      int
	priorities int
}

// taken is the lane as its owner sees it, and rows that may start, by priority and order.
type taken struct {
	owned bool
	state ownState
	rows  []Row
}

type ownState struct {
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
    ORDER BY j.id -- two who claim the same jobs must not lock each other out
    FOR UPDATE OF j
), claimed AS (
    DELETE FROM ` + jobs.Table + ` j USING there WHERE j.id = there.id RETURNING j.id
)
SELECT l.token, l.slow, l.blocked_until, l.concurrency, l.latency_ms, l.deaths, l.suspect, r.priority, r.due_at, r.id, r.key
FROM asked a
JOIN lanes l ON l.lane_id = a.lane_id AND l.token = a.token
LEFT JOIN LATERAL (
    SELECT due.priority, due.due_at, due.id, due.key
    FROM (VALUES (0), (1), (2), (3)) AS p (priority)
    CROSS JOIN LATERAL (
        SELECT r.priority, r.due_at, r.id, r.key
        FROM lane_rows r
        WHERE p.priority < a.priorities AND r.lane_id = a.lane_id AND r.priority = p.priority AND r.due_at <= @now AND ` + sqlFree + `
        ORDER BY r.due_at, r.id
        LIMIT a.n
    ) due
) r ON l.blocked_until IS NULL OR l.blocked_until <= @now
WHERE a.claim = 0 OR a.token IN (SELECT id FROM claimed)`

type takenRow struct {
	Token int64
	ownState

	Priority *int16
	DueAt    *time.Time
	ID       ids.Any
	Key      ids.Any
}

// take answers many drainers at once.
func (e *Engine) take(ctx context.Context, questions []takeQuestion) ([]taken, error) {
	var lanes []ids.Any
	var tokens []int64
	var claims []int16
	var limits, priorities []int32
	at := answeredTo(questions)
	for token, i := range at {
		q := questions[i]
		lanes, tokens, claims = append(lanes, q.lane), append(tokens, token), append(claims, int16(q.claim))
		limits, priorities = append(limits, int32(q.limit)), append(priorities, int32(q.priorities)) //nolint:gosec // a few thousand
	}
	watch := clock.StartWatch()
	rows, err := postgres.Many[takenRow](ctx, e.db.System("take due rows"), sqlTake, postgres.Args{
		"lanes": lanes, "tokens": tokens, "claims": claims, "limits": limits, "priorities": priorities, "now": e.clock.Now(),
	})
	if err != nil {
		return nil, err
	}
	answers := make([]taken, len(questions))
	for _, row := range rows {
		answer := &answers[at[row.Token]]
		answer.owned, answer.state = true, row.ownState
		if row.DueAt != nil {
			answer.rows = append(answer.rows, Row{ID: row.ID, Key: row.Key, Priority: int(*row.Priority), DueAt: *row.DueAt, taken: watch})
		}
	}
	return answers, nil
}

// answeredTo says which question of each token is asked: a token belongs to one drainer. If
// its owner asks, who still comes to claim it is too late; of several who do, one gets it.
func answeredTo(questions []takeQuestion) map[int64]int {
	at := make(map[int64]int, len(questions))
	for i, q := range questions {
		if other, asked := at[q.token]; !asked || goesBefore(q.claim, questions[other].claim) {
			at[q.token] = i
		}
	}
	return at
}

func goesBefore(one, other claim) bool { return one == owned || other == unfetched && one == fetched }
