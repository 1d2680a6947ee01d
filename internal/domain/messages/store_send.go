package messages

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// sqlBegin writes the attempts of those messages whose last attempt has a known result, and reads
// all of them, with everything that decides whether they may be sent. What it returns of a state is
// from before its update. It comes from the locked row: another read of the table would return the
// version from before a callback whose transaction the lock waited for. Each state is found by its primary key, as in
// sqlWriteBook.
const sqlBegin = `
WITH locked AS MATERIALIZED (
    SELECT st.id, ` + stateColumns + `
    FROM (SELECT DISTINCT id FROM unnest(@ids::uuid[]) AS id ORDER BY id) AS wanted
    JOIN LATERAL (
        SELECT st.id, ` + stateColumns + ` FROM message_states st
        WHERE st.org_id = @org_id AND st.id = wanted.id AND st.id BETWEEN @least AND @greatest
        FOR NO KEY UPDATE
    ) AS st ON true
), begun AS (
    UPDATE message_states st
    SET attempt = st.attempt + 1, begun_at = @now, last_begun_at = @now, status = 'pending'
    FROM (
        SELECT @org_id::uuid AS org_id, id FROM locked WHERE status IN ('queued', 'pending') AND begun_at IS NULL LIMIT @count
    ) AS waiting
    WHERE st.org_id = waiting.org_id AND st.id = waiting.id AND st.id BETWEEN @least AND @greatest
    RETURNING st.id
), facts AS MATERIALIZED (
    SELECT o.subscription_status, o.trial_ends_at, o.suspended_at, o.require_opt_in, a.xmin::text AS version,
           a.cooldown_until, cu.status AS customer_status
    FROM organizations o
    JOIN accounts a ON a.org_id = @org_id AND a.id = @account_id
    LEFT JOIN LATERAL (SELECT status FROM customers WHERE org_id = @org_id AND id = a.customer_id OFFSET 0) AS cu ON true
    WHERE o.org_id = @org_id
)
SELECT ` + columns + `, ` + stateColumns + `, ` + contactColumns + `,
    b.id IS NOT NULL AS begun, c.marketing IS NULL OR coalesce(c.departure, '') = 'erasing' AS contact_left,
    coalesce(c.marketing, 'unknown') AS marketing,
    v.last_inbound_at IS NOT NULL AS wrote, coalesce(p.waits, 0) AS waits, f.*
FROM locked st
JOIN LATERAL (SELECT ` + columns + ` FROM messages m WHERE m.org_id = @org_id AND m.id = st.id OFFSET 0) AS m ON true
LEFT JOIN begun b ON b.id = m.id` + sqlContact + `
LEFT JOIN LATERAL (
    SELECT last_inbound_at FROM conversations WHERE org_id = @org_id AND contact_id = c.id OFFSET 0
) AS v ON true
LEFT JOIN LATERAL (
    SELECT waits FROM send_pairs WHERE org_id = @org_id AND account_id = @account_id AND contact_id = m.contact_id OFFSET 0
) AS p ON true
CROSS JOIN facts f`

func beginAttempts(ctx context.Context, tx *postgres.Tx, of accounts.ID, rows []ids.Any, now time.Time) ([]begun, error) {
	least, greatest := lanes.Span(rows)
	return postgres.Many[begun](ctx, tx, sqlBegin, postgres.Args{
		"ids": rows, "least": least, argGreatest: greatest, argAccount: of, "now": now, "count": len(rows),
	})
}

// The attempt before is kept for the timeline. Its drainer may have died without noting it.
const sqlResend = `-- locks: message_states, send_attempts
WITH noted AS (
    INSERT INTO send_attempts (org_id, message_id, attempt, begun_at, ended_at, outcome)
    SELECT @org_id, id, attempt, begun_at, @now, 'unknown' FROM message_states WHERE org_id = @org_id AND id = @id
    ON CONFLICT DO NOTHING
)
UPDATE message_states
SET attempt = @attempt,
    begun_at = @now,
    last_begun_at = @now,
    resent = true
WHERE org_id = @org_id
  AND id = @id`

func writeResend(ctx context.Context, tx *postgres.Tx, id ID, attempt int, now time.Time) error {
	_, err := tx.Exec(ctx, sqlResend, postgres.Args{"id": id, "attempt": attempt, "now": now})
	return err
}

const (
	sqlAddMinutes = `
INSERT INTO send_minutes (minute, accepted, called_back)
SELECT * FROM unnest(@minutes::timestamptz[], @accepted::bigint[], @called_back::bigint[])
ON CONFLICT (minute) DO UPDATE
SET accepted = send_minutes.accepted + EXCLUDED.accepted,
    called_back = send_minutes.called_back + EXCLUDED.called_back`
	sqlCountMinutes = `
SELECT @from::timestamptz AS minute, coalesce(sum(accepted), 0)::bigint AS accepted,
       coalesce(sum(called_back), 0)::bigint AS called_back
FROM send_minutes
WHERE minute >= date_trunc('minute', @from::timestamptz)
  AND minute < @until`
	sqlForgetMinutes = `
DELETE FROM send_minutes
WHERE minute < @before`
)

// addMinutes adds counts to those of the cell, and deletes counts that nothing reads any more.
func addMinutes(ctx context.Context, db *postgres.DB, counted []minute) error {
	_, err := postgres.InSystemTx(ctx, db, "count attempts", func(tx *postgres.Tx) (int64, error) {
		if _, err := tx.Exec(ctx, sqlAddMinutes, postgres.Columns(counted,
			postgres.Col("minutes", func(m minute) time.Time { return m.Minute }),
			postgres.Col("accepted", func(m minute) int64 { return m.Accepted }),
			postgres.Col("called_back", func(m minute) int64 { return m.CalledBack }))); err != nil {
			return 0, err
		}
		return tx.Exec(ctx, sqlForgetMinutes, postgres.Args{"before": counted[0].Minute.Add(-time.Hour)})
	})
	return err
}

func countMinutes(ctx context.Context, tx *postgres.Tx, from, until time.Time) (minute, error) {
	return postgres.One[minute](ctx, tx, sqlCountMinutes, postgres.Args{"from": from, "until": until})
}
