package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/parley-chat/parley/internal/platform/ids"
)

const (
	// sqlDropWait bounds how long dropping waits for a lock, because statements on the table queue behind it. It also bounds
	// the wait for transactions that still use the partition.
	sqlDropWait = `SET lock_timeout = '200ms'`
	sqlLockDDL  = `SELECT pg_try_advisory_lock(hashtext('parley ddl'))`
	// A table that is no partition any more has no row.
	sqlDetaching = `SELECT inhdetachpending FROM pg_inherits WHERE inhrelid = to_regclass($1)`
)

// DropPartition detaches a partition concurrently and drops it. Dropping an attached partition would lock the whole table
// against readers. It fails when it must wait longer than 200 ms, or when another process changes the schema; a later call
// goes on where this one stopped.
func (db *DB) DropPartition(ctx context.Context, table, partition string) error {
	conn, release, err := db.acquire(ctx, ids.Org{})
	if err != nil {
		return err
	}
	defer release()
	ctx = db.marked(ctx, mark{system: "drop partition"})
	var locked bool
	if err := conn.QueryRow(ctx, sqlLockDDL).Scan(&locked); err != nil {
		return db.classify(err)
	}
	if !locked {
		return ErrBusy
	}
	defer restore(ctx, conn)
	if _, err := conn.Exec(ctx, sqlDropWait); err != nil {
		return db.classify(err)
	}
	return db.classify(detachAndDrop(ctx, conn, table, partition))
}

// restore gives the connection back as it was, or closes it.
func restore(ctx context.Context, conn *pgxpool.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackWait)
	defer cancel()
	if _, err := conn.Exec(ctx, `RESET lock_timeout; SELECT pg_advisory_unlock(hashtext('parley ddl'))`); err != nil {
		_ = conn.Conn().Close(ctx)
	}
}

// detachAndDrop runs outside of a transaction: PostgreSQL detaches concurrently in two transactions of its own. A process
// that died between the two leaves a partition that is being detached, which only FINALIZE ends.
func detachAndDrop(ctx context.Context, conn *pgxpool.Conn, table, partition string) error {
	var detaching bool
	err := conn.QueryRow(ctx, sqlDetaching, partition).Scan(&detaching)
	attached := !errors.Is(err, pgx.ErrNoRows)
	if attached && err != nil {
		return err
	}
	if attached {
		how := "CONCURRENTLY"
		if detaching {
			how = "FINALIZE"
		}
		if _, err := conn.Exec(ctx, fmt.Sprintf(`ALTER TABLE %s DETACH PARTITION %s %s`, table, partition, how)); err != nil {
			return err
		}
	}
	_, err = conn.Exec(ctx, `DROP TABLE IF EXISTS `+partition)
	return err
}

// Partitions that a process detached and did not drop before it died are tables like any other.
const sqlTables = `
SELECT relname::text
FROM pg_class
WHERE relkind = 'r'
  AND pg_table_is_visible(oid)`

// EndedBefore returns the starts of the partitions that ended at or before a time, oldest first. Those of several tables that
// start at the same time are one.
func (db *DB) EndedBefore(ctx context.Context, tables []Partitioned, before time.Time) ([]time.Time, error) {
	names, err := Many[string](ctx, db.System("partitions to drop"), sqlTables, nil)
	if err != nil {
		return nil, err
	}
	var starts []time.Time
	for _, table := range tables {
		for _, name := range names {
			if start, ours := table.startOf(name); ours && !table.Every.next(start).After(before) {
				starts = append(starts, start)
			}
		}
	}
	slices.SortFunc(starts, time.Time.Compare)
	return slices.CompactFunc(starts, time.Time.Equal), nil
}

// DropStarted drops the partition of each table that starts at a time.
func (db *DB) DropStarted(ctx context.Context, tables []Partitioned, start time.Time) error {
	for _, table := range tables {
		if err := db.DropPartition(ctx, table.Table, table.name(start)); err != nil {
			return fmt.Errorf("drop partition %s: %w", table.name(start), err)
		}
	}
	return nil
}

// End is when the partition that starts at a time ends.
func (p Partitioned) End(start time.Time) time.Time { return p.Every.next(start) }
