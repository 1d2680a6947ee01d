package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
)

// Period is the width of a partition.
type Period int

// The widths in use.
const (
	Daily Period = iota
	Weekly
	Monthly
)

// Partitioned is a table that is partitioned by time: by a timestamp, or by the time inside the
// ULIDs of its id column.
type Partitioned struct {
	Table string
	// Every is the width of a partition.
	Every Period
	// ByTime is true when the partition key is a timestamp column, false when it is a ULID.
	ByTime bool
	// Keep is how long rows are kept after their partition ended. Zero keeps them for ever.
	Keep time.Duration
	// Fillfactor is how full the pages of a partition are filled, in percent; zero fills them. The rest
	// is for new versions of rows. A partitioned table itself has no such setting.
	Fillfactor int
}

const (
	// partitionsMade is the number of periods after the current one for which EnsurePartitions
	// creates partitions.
	partitionsMade = 4
	// PartitionsNeeded is the number of periods ahead without which a process is not ready.
	PartitionsNeeded = 2
)

func (p Period) start(t time.Time) time.Time {
	t = t.UTC()
	day := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
	switch p {
	case Weekly:
		return day.AddDate(0, 0, -(int(day.Weekday())+6)%7)
	case Monthly:
		return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	default:
		return day
	}
}

func (p Period) next(start time.Time) time.Time {
	switch p {
	case Weekly:
		return start.AddDate(0, 0, 7)
	case Monthly:
		return start.AddDate(0, 1, 0)
	default:
		return start.AddDate(0, 0, 1)
	}
}

func (p Partitioned) name(start time.Time) string {
	if p.Every == Monthly {
		return p.Table + "_p" + start.Format("200601")
	}
	return p.Table + "_p" + start.Format("20060102")
}

func (p Partitioned) startOf(name string) (time.Time, bool) {
	layout := "20060102"
	if p.Every == Monthly {
		layout = "200601"
	}
	suffix, found := strings.CutPrefix(name, p.Table+"_p")
	start, err := time.Parse(layout, suffix)
	return start, found && err == nil
}

// bound returns a bound as an SQL literal, because DDL takes no parameters.
func (p Partitioned) bound(at time.Time) string {
	if p.ByTime {
		return "'" + at.Format(time.RFC3339) + "'"
	}
	floor, _ := ids.Floor[unprefixed](at).UUIDValue()
	return "'" + hex.EncodeToString(floor.Bytes[:]) + "'"
}

type unprefixed struct{}

func (unprefixed) Prefix() string { return "" }

// EnsurePartitions creates the missing partitions of the last, the current and the next periods.
// Several processes may call it at once.
func (db *DB) EnsurePartitions(ctx context.Context, tables []Partitioned, now time.Time) error {
	existing, err := db.partitions(ctx)
	if err != nil {
		return err
	}
	var failures []error
	for _, table := range tables {
		start := table.Every.start(table.Every.start(now).Add(-time.Nanosecond))
		for range partitionsMade + 2 {
			end := table.Every.next(start)
			if !existing[table.name(start)] {
				if err := db.makePartition(ctx, table, start, end); err != nil {
					failures = append(failures, fmt.Errorf("make partition %s: %w", table.name(start), err))
				}
			}
			start = end
		}
	}
	return errors.Join(failures...)
}

// CopyPartitions creates the partitions that another database has and this one lacks.
func (db *DB) CopyPartitions(ctx context.Context, from *DB, tables []Partitioned) error {
	theirs, err := from.partitions(ctx)
	if err != nil {
		return err
	}
	ours, err := db.partitions(ctx)
	if err != nil {
		return err
	}
	for _, table := range tables {
		for name := range theirs {
			if start, of := table.startOf(name); of && !ours[name] {
				if err := db.makePartition(ctx, table, start, table.Every.next(start)); err != nil {
					return fmt.Errorf("make partition %s: %w", name, err)
				}
			}
		}
	}
	return nil
}

// makePartition creates a table and then attaches it, because CREATE … PARTITION OF would block
// readers and writers of the parent.
func (db *DB) makePartition(ctx context.Context, table Partitioned, start, end time.Time) error {
	name := table.name(start)
	return db.ddl(ctx, "partition "+name, func(ctx context.Context, tx *Tx) error {
		attached, err := One[bool](ctx, tx, `SELECT EXISTS (SELECT FROM pg_class WHERE relname = @name AND relispartition)`, Args{"name": name})
		if err != nil || attached {
			return err
		}
		if _, err := tx.Exec(ctx, fmt.Sprintf(`CREATE TABLE %s (LIKE %s INCLUDING ALL) WITH (fillfactor = %d)`,
			name, table.Table, orElse(table.Fillfactor, 100)), nil); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, fmt.Sprintf(`ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%s) TO (%s)`,
			table.Table, name, table.bound(start), table.bound(end)), nil)
		return err
	})
}

// PartitionsAhead returns the number of whole periods after now that have a partition, for the
// table that has the fewest.
func (db *DB) PartitionsAhead(ctx context.Context, tables []Partitioned, now time.Time) (int, error) {
	existing, err := db.partitions(ctx)
	if err != nil {
		return 0, err
	}
	fewest := partitionsMade
	for _, table := range tables {
		ahead := -1
		for start := table.Every.start(now); existing[table.name(start)]; start = table.Every.next(start) {
			ahead++
		}
		fewest = min(fewest, ahead)
	}
	return fewest, nil
}

func (db *DB) partitions(ctx context.Context) (map[string]bool, error) {
	names, err := Many[string](ctx, db.System("partitions"), `
		SELECT relname::text
		FROM pg_class
		WHERE relispartition
		  AND relkind IN ('r', 'p')`, nil)
	existing := make(map[string]bool, len(names))
	for _, name := range names {
		existing[name] = true
	}
	return existing, err
}

// ddl runs one change of the schema at a time. It waits at most a second for the lock of a table,
// because readers and writers of the table queue behind it. If it fails, the caller tries again the
// next time that it checks the partitions.
func (db *DB) ddl(ctx context.Context, reason string, change func(context.Context, *Tx) error) error {
	_, err := InSystemTx(ctx, db, reason, func(tx *Tx) (struct{}, error) {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('parley ddl'))`, nil); err != nil {
			return struct{}{}, err
		}
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '1s'`, nil); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, change(ctx, tx)
	})
	return err
}
