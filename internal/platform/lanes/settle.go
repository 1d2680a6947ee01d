package lanes

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// fate says what becomes of the lane with a settlement.
type fate int

const (
	// keep goes on draining.
	keep fate = iota
	// disarm leaves an empty lane idle: the next transaction that adds to it arms it.
	disarm
	// handOver gives the lane to a new job.
	handOver
)

// settlement is what a drainer writes about its lane: rows that leave, rows that wait again,
// keys held and freed.
type settlement struct {
	wake

	gone, again []Row
	keys        []keyState
	faults      []faultRow
	concurrency int
	latencyMs   int
	clean       bool
	ending      fate
	// block, unless zero, is the time until which the lane is blocked from now on.
	block time.Time
	// liftBlock removes a block that is over.
	liftBlock bool
	// at, unless zero, is the earliest time for the job of a hand-over.
	at   time.Time
	next int64
	// unhanded tells that the kind failed to take over the rows that are set aside: they are set
	// aside without it.
	unhanded bool
}

type keyState struct {
	key    ids.Any
	holder ids.Any
	// until is zero for a key that is free again.
	until time.Time
}

// Only the owner's settlement counts. Lanes are locked in the order of their ids, so that
// settlements of many lanes do not deadlock. A key that is freed gets its oldest parked row back.
const sqlSettle = `
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest(@lanes::uuid[], @tokens::bigint[], @nexts::bigint[], @armed::boolean[], @slow::boolean[],
                         @concurrency::smallint[], @latency::int[], @clean::boolean[], @lifts::boolean[], @blocks::timestamptz[])
        AS asked (lane_id, token, next, armed, slow, concurrency, latency_ms, clean, lifts, blocked_until)
), mine AS MATERIALIZED (
    SELECT l.lane_id FROM lanes l JOIN asked a ON a.lane_id = l.lane_id AND a.token = l.token ORDER BY l.lane_id FOR UPDATE OF l
), gone AS (
    -- Each row by its key: a join would read the whole lane.
    DELETE FROM lane_rows r
    WHERE r.ctid = ANY (ARRAY(
        SELECT one.ctid
        FROM unnest(@gone_lanes::uuid[], @gone_priorities::smallint[], @gone_dues::timestamptz[], @gone_ids::uuid[])
            AS g (lane_id, priority, due_at, id)
        CROSS JOIN LATERAL (
            SELECT w.ctid
            FROM lane_rows w
            WHERE w.lane_id = g.lane_id AND w.priority = g.priority AND w.due_at = g.due_at AND w.id = g.id
            LIMIT 1
        ) one
        WHERE g.lane_id IN (SELECT lane_id FROM mine)))
    RETURNING r.lane_id, r.id
), again AS (
    INSERT INTO lane_rows (lane_id, priority, due_at, id, key)
    SELECT lane_id, priority, due_at, id, key
    FROM unnest(@again_lanes::uuid[], @again_priorities::smallint[], @again_dues::timestamptz[], @again_ids::uuid[], @again_keys::uuid[])
        AS g (lane_id, priority, due_at, id, key)
    WHERE (lane_id, id) IN (SELECT lane_id, id FROM gone)
    ON CONFLICT DO NOTHING
), held AS (
    INSERT INTO lane_keys (lane_id, key, holder, until)
    SELECT lane_id, key, holder, until
    FROM unnest(@key_lanes::uuid[], @key_keys::uuid[], @key_holders::uuid[], @key_untils::timestamptz[]) AS k (lane_id, key, holder, until)
    WHERE until IS NOT NULL AND lane_id IN (SELECT lane_id FROM mine)
      AND (holder IS NULL OR (lane_id, holder) IN (SELECT lane_id, id FROM gone)) -- a row that was discarded holds nothing
    ON CONFLICT (lane_id, key) DO UPDATE SET holder = excluded.holder, until = excluded.until
), freed AS (
    DELETE FROM lane_keys k
    WHERE k.ctid = ANY (ARRAY(
        SELECT one.ctid
        FROM unnest(@key_lanes::uuid[], @key_keys::uuid[], @key_untils::timestamptz[]) AS f (lane_id, key, until)
        CROSS JOIN LATERAL (SELECT w.ctid FROM lane_keys w WHERE w.lane_id = f.lane_id AND w.key = f.key LIMIT 1) one
        WHERE f.until IS NULL AND f.lane_id IN (SELECT lane_id FROM mine)))
), unparked AS (
    UPDATE lane_rows r
    SET due_at = r.parked_from, parked_from = NULL
    WHERE r.ctid = ANY (ARRAY(
        SELECT one.ctid
        FROM unnest(@key_lanes::uuid[], @key_keys::uuid[], @key_holders::uuid[]) AS f (lane_id, key, holder)
        CROSS JOIN LATERAL (
            SELECT p.ctid
            FROM lane_rows p
            WHERE p.lane_id = f.lane_id AND p.key = f.key AND p.due_at = 'infinity'
            ORDER BY p.priority, p.parked_from, p.id
            LIMIT 1
        ) one
        WHERE f.holder IS NULL AND f.lane_id IN (SELECT lane_id FROM mine)))
)
UPDATE lanes l
SET token = a.next, armed = a.armed, slow = a.slow, concurrency = a.concurrency, latency_ms = a.latency_ms,
    progress = l.progress + 1, suspect = NULL,
    deaths = CASE WHEN a.clean THEN 0 ELSE l.deaths END,
    blocked_until = CASE WHEN a.blocked_until IS NOT NULL THEN greatest(a.blocked_until, l.blocked_until)
                         WHEN a.lifts AND l.blocked_until <= @now THEN NULL
                         ELSE l.blocked_until END
FROM asked a
JOIN mine USING (lane_id)
WHERE l.lane_id = a.lane_id
RETURNING l.lane_id`

func settleArgs(all []settlement, now time.Time) postgres.Args {
	n := len(all)
	lanes, tokens, nexts := make([]ids.Any, n), make([]int64, n), make([]*int64, n)
	armed, slow, clean, lifts := make([]bool, n), make([]bool, n), make([]bool, n), make([]bool, n)
	concurrency, latency, blocks := make([]int16, n), make([]int32, n), make([]*time.Time, n)
	var gone, again []laneRow
	keys := keyColumns{}
	for i := range all {
		s := &all[i]
		lanes[i], tokens[i], armed[i], slow[i], clean[i] = s.ID, s.token, s.ending != disarm, s.slow, s.clean
		concurrency[i], latency[i] = int16(s.concurrency), int32(s.latencyMs) //nolint:gosec // bounded by the kind and by timeouts
		switch s.ending {
		case keep:
			nexts[i] = &s.token
		case handOver:
			if s.next != 0 {
				nexts[i] = &s.next
			}
		case disarm:
		}
		if lifts[i] = s.liftBlock; !s.block.IsZero() {
			blocks[i] = &s.block
		}
		for _, row := range s.gone {
			gone = append(gone, laneRow{s.ID, row})
		}
		for _, row := range s.again {
			again = append(again, laneRow{s.ID, row})
		}
		keys.add(s.ID, s.keys)
	}
	args := postgres.Args{
		"now": now, "lanes": lanes, "tokens": tokens, "nexts": nexts, "armed": armed, "slow": slow, "clean": clean,
		"concurrency": concurrency, "latency": latency, "lifts": lifts, "blocks": blocks,
		"key_lanes": keys.lanes, "key_keys": keys.keys, "key_holders": keys.holders, "key_untils": keys.untils,
	}
	maps.Copy(args, columns("gone_", gone))
	maps.Copy(args, columns("again_", again))
	return args
}

type keyColumns struct {
	lanes, keys, holders []ids.Any
	untils               []*time.Time
}

func (c *keyColumns) add(lane ids.Any, keys []keyState) {
	for _, key := range keys {
		c.lanes, c.keys, c.holders = append(c.lanes, lane), append(c.keys, key.key), append(c.holders, key.holder)
		if key.until.IsZero() {
			c.untils = append(c.untils, nil)
		} else {
			c.untils = append(c.untils, &key.until)
		}
	}
}

// settle writes the settlements of many drainers with one statement, and tells each whether it
// still owned its lane. It serves settlements to which the kind adds nothing.
func (e *Engine) settle(ctx context.Context, all []settlement) ([]bool, error) {
	answers := make([]bool, len(all))
	for asked := range distinct(all) {
		chosen := make([]settlement, len(asked))
		for i, at := range asked {
			chosen[i] = all[at]
		}
		kept, err := postgres.Many[ids.Any](ctx, e.db.System("settle rows"), sqlSettle, settleArgs(chosen, e.clock.Now()))
		if err != nil {
			return nil, err
		}
		for _, at := range asked {
			answers[at] = slices.Contains(kept, all[at].ID)
		}
	}
	return answers, nil
}

// distinct goes through settlements in groups that name each lane once: a lane's owner and its
// former owner may ask at the same time.
func distinct(all []settlement) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		left := make([]int, len(all))
		for i := range left {
			left[i] = i
		}
		for len(left) > 0 {
			seen := make(map[ids.Any]bool, len(left))
			var group, rest []int
			for _, at := range left {
				if seen[all[at].ID] {
					rest = append(rest, at)
				} else {
					seen[all[at].ID] = true
					group = append(group, at)
				}
			}
			if left = rest; !yield(group) {
				return
			}
		}
	}
}

// settleTx writes a settlement in the owner's transaction, with the job of a hand-over. A
// blocked lane is handed to a job that runs when the block is over; a lane that is blocked for
// ever gets no job. earlier is the block that the lane has already; nil if it has none.
func (e *Engine) settleTx(ctx context.Context, tx *postgres.Tx, s settlement, earlier *time.Time) error {
	if s.block.After(s.at) {
		s.at = s.block
	}
	if earlier != nil && earlier.After(s.at) {
		s.at = *earlier
	}
	if s.ending == handOver && s.at.Before(Forever()) {
		tokens, err := e.lanes.addWakesTx(ctx, tx, []wake{s.wake}, s.at)
		if err != nil {
			return err
		}
		s.next = tokens[0]
	}
	if err := recordFaultsTx(ctx, tx, s, e.clock.Now()); err != nil {
		return err
	}
	// The fence holds the lane's lock, so that the statement can go together with the commit.
	tx.Last(sqlSettle, settleArgs([]settlement{s}, e.clock.Now()), func(rows pgx.Rows) error {
		rows.Close()
		return rows.Err()
	})
	return nil
}
