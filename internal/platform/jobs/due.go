package jobs

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Due is a table whose rows have a time, due_at, at which a job is added for them.
type Due[R any] struct {
	// Table has the columns org_id and due_at, and an index on due_at.
	Table string
	// Key is the column that identifies a row within its organization.
	Key string
	// Returning lists the columns of R, at least two. Columns of the table have the prefix `t.`.
	Returning string
	// Every is added to now to make the next due_at of a row, unless the job changes it.
	Every time.Duration
	// AtOnce is the largest number of rows of one call.
	AtOnce int
	// Job returns the arguments of the job for a row.
	Job func(R) Args
}

// AddTx adds a job for each row that is due at now, oldest first, and sets the row's next due_at.
// Rows that another transaction has locked are skipped. So are rows of organizations that are
// being moved: their new cell adds the jobs. Every process may call it at any time.
func (d Due[R]) AddTx(ctx context.Context, tx *postgres.Tx, queue *Queue, now time.Time) (added int, err error) {
	rows, err := postgres.Many[R](ctx, tx, d.sql(), postgres.Args{"now": now, "next": now.Add(d.Every), "at_once": d.AtOnce})
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	_, err = queue.AddTx(ctx, tx, postgres.Each(rows, func(row R) Job { return Job{Queue: Maintenance, Args: d.Job(row)} })...)
	return len(rows), err
}

func (d Due[R]) sql() string {
	return `
UPDATE ` + d.Table + ` t
SET due_at = @next
FROM (
    SELECT d.org_id, d.` + d.Key + ` AS key
    FROM ` + d.Table + ` d
    JOIN organizations o ON o.org_id = d.org_id AND o.frozen_at IS NULL
    WHERE d.due_at <= @now
    ORDER BY d.due_at
    LIMIT @at_once
    FOR UPDATE OF d SKIP LOCKED
) AS taken
WHERE t.org_id = taken.org_id
  AND t.` + d.Key + ` = taken.key
RETURNING ` + d.Returning
}
