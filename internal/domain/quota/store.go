package quota

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-chat/parley/internal/platform/postgres"
)

// A reservation leaves the allowances of all processes free. The one that does not fit updates
// nothing and returns no row.
const sqlReserve = `
INSERT INTO quota_usage AS q (org_id, month, used, due_at)
VALUES (@org_id, @month, @n, @due_at)
ON CONFLICT (org_id, month) DO UPDATE
SET used = q.used + @n
WHERE q.used + @n + CASE WHEN q.allowed_until > @now THEN q.allowed ELSE 0 END <= @limit
RETURNING used`

// reserveMonth adds n messages to the month if they fit. The statement goes with the commit in one
// round trip, so that the row is locked for the time of the commit only.
func reserveMonth(ctx context.Context, db *postgres.DB, k key, limit, n int64, now time.Time) (bool, error) {
	var used []int64
	_, err := postgres.InTx(postgres.Apart(ctx), db, k.org, func(tx *postgres.Tx) (struct{}, error) {
		args := postgres.Args{"month": k.month, "n": n, "limit": limit, "now": now, "due_at": now.Add(recountEvery)}
		tx.Last(sqlReserve, args, func(rows pgx.Rows) (err error) {
			used, err = pgx.CollectRows(rows, pgx.RowTo[int64])
			return err
		})
		return struct{}{}, nil
	})
	return len(used) == 1, err
}

const sqlInsertMonth = `
INSERT INTO quota_usage (org_id, month, used, due_at)
VALUES (@org_id, @month, 0, @due_at)
ON CONFLICT (org_id, month) DO NOTHING`

const sqlLockMonth = `
SELECT used, allowances, exact_until, due_at
FROM quota_usage
WHERE org_id = @org_id
  AND month = @month
FOR NO KEY UPDATE`

// lockMonth locks the row of a month, and creates it if there is none.
func lockMonth(ctx context.Context, tx *postgres.Tx, k key, now time.Time) (month, error) {
	found, err := postgres.One[month](ctx, tx, sqlLockMonth, postgres.Args{"month": k.month})
	if !errors.Is(err, postgres.ErrNoRow) {
		return found, err
	}
	if _, err := tx.Exec(ctx, sqlInsertMonth, postgres.Args{"month": k.month, "due_at": now.Add(recountEvery)}); err != nil {
		return found, err
	}
	return postgres.One[month](ctx, tx, sqlLockMonth, postgres.Args{"month": k.month})
}

const sqlUpdateMonth = `
UPDATE quota_usage
SET used = @used,
    allowances = @allowances,
    allowed = @allowed,
    allowed_until = @allowed_until,
    due_at = @due_at
WHERE org_id = @org_id
  AND month = @month`

func flushMonth(ctx context.Context, db *postgres.DB, k key, f flush) (result, error) {
	return postgres.InTx(postgres.Apart(ctx), db, k.org, func(tx *postgres.Tx) (result, error) {
		m, err := lockMonth(ctx, tx, k, f.now)
		if err != nil {
			return result{}, err
		}
		r := m.apply(f)
		allowed, until := m.allowed()
		tx.Last(sqlUpdateMonth, postgres.Args{
			"month": k.month, "used": m.Used, "allowances": m.Allowances, "allowed": allowed, "allowed_until": until, "due_at": m.DueAt,
		}, func(rows pgx.Rows) error {
			rows.Close()
			return rows.Err()
		})
		return r, nil
	})
}

const sqlRefuseAllowances = `
UPDATE quota_usage
SET exact_until = @until
WHERE org_id = @org_id
  AND month = @month`

// refuseAllowances makes every process return its allowance at its next flush.
func refuseAllowances(ctx context.Context, db *postgres.DB, k key, until time.Time) error {
	_, err := postgres.InTx(postgres.Apart(ctx), db, k.org, func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(ctx, sqlRefuseAllowances, postgres.Args{"month": k.month, "until": until})
	})
	return err
}

// standing is a month as Recount and refusals read it.
type standing struct {
	Used         int64
	Allowed      int64
	AllowedUntil *time.Time
	ExactUntil   *time.Time
	DueAt        *time.Time
	Recounts     int
}

const sqlMonth = `
SELECT used, allowed, allowed_until, exact_until, due_at, recounts
FROM quota_usage
WHERE org_id = @org_id
  AND month = @month`

// readMonth reads a month; one without a row has the zero standing.
func readMonth(ctx context.Context, scope postgres.Scope, month time.Time) (standing, error) {
	found, err := postgres.One[standing](ctx, scope, sqlMonth, postgres.Args{"month": month})
	if errors.Is(err, postgres.ErrNoRow) {
		return standing{}, nil
	}
	return found, err
}

// If another recount came in between, nothing is updated.
const sqlAddMissing = `
UPDATE quota_usage
SET used = used + @missing,
    due_at = @next,
    recounts = recounts + 1
WHERE org_id = @org_id
  AND month = @month
  AND recounts = @recounts`

func addMissing(ctx context.Context, db *postgres.DB, k key, missing int64, recounts int, next *time.Time) (updated int64, err error) {
	return postgres.InTx(ctx, db, k.org, func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(ctx, sqlAddMissing, postgres.Args{"month": k.month, "missing": missing, "recounts": recounts, "next": next})
	})
}
