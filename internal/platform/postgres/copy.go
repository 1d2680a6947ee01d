package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
)

// OrgCopy copies every row of an organization to another database, in one transaction there. BeginCopy copies while
// the organization is in use and takes its time; Finish copies what changed since, while the organization is frozen.
type OrgCopy struct {
	from, to *DB
	org      ids.Org
	tables   []*copiedTable // parents first

	source  *pgxpool.Conn
	writing pgx.Tx
	release []func()
	// Every transaction with a lower id had ended before BeginCopy read the rows.
	since string
}

type copiedTable struct {
	name string
	// columns are all but the generated ones, key those of the primary key.
	columns, key []string
	// rows is how many were copied by BeginCopy.
	rows int64
	// kept is how many of these are unchanged, changed how many rows the source has that were written since.
	kept, changed int64
}

// sum is the number of rows that were read, and a checksum over them in the order of the primary key.
type sum struct {
	rows     int64
	checksum string
}

// BeginCopy copies every row, table by table, and reads it back: a table's checksum must be the same on both sides. The
// caller closes the copy. Tables are listed parents first; rows are copied in the order of their primary key.
func BeginCopy(ctx context.Context, from, to *DB, org ids.Org, tables []string) (_ *OrgCopy, err error) {
	c := &OrgCopy{from: from, to: to, org: org}
	ctx = c.marked(ctx)
	defer func() {
		if err != nil {
			c.Close(ctx)
		}
	}()
	source, release, err := from.acquire(ctx, ids.Org{})
	if err != nil {
		return nil, err
	}
	c.source, c.release = source, append(c.release, release)
	target, release, err := to.acquire(ctx, ids.Org{})
	if err != nil {
		return nil, err
	}
	c.release = append(c.release, release)
	reading, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = reading.Rollback(context.WithoutCancel(ctx)) }()
	if err := reading.QueryRow(ctx, `SELECT pg_snapshot_xmin(pg_current_snapshot())::xid::text`).Scan(&c.since); err != nil {
		return nil, err
	}
	if c.writing, err = target.Begin(ctx); err != nil {
		return nil, err
	}
	if _, err := c.writing.Exec(ctx, sqlNoTimeouts+`; SET LOCAL parley.purge = 'on'; `+sqlLinearJoins); err != nil {
		return nil, err
	}
	for _, name := range tables {
		table := &copiedTable{name: name}
		if err := c.copyTable(ctx, reading, table); err != nil {
			return nil, fmt.Errorf("copy %s: %w", name, err)
		}
		c.tables = append(c.tables, table)
	}
	return c, nil
}

func (c *OrgCopy) marked(ctx context.Context) context.Context {
	return c.from.marked(c.to.marked(ctx, mark{system: "copy"}), mark{system: "copy"})
}

// A connection waits idle while the other one reads, for longer than a request ever does.
const sqlNoTimeouts = `SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0`

// The statistics of the target do not have the rows that the copy has written, and may say that a table is empty. A nested
// loop over one expected row then compares all late rows with all rows of the table: minutes of pause.
const sqlLinearJoins = `SET LOCAL enable_nestloop = off`

// read begins a transaction that sees the rows of the source as they are now.
func (c *OrgCopy) read(ctx context.Context) (pgx.Tx, error) {
	reading, err := c.source.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, err
	}
	_, err = reading.Exec(ctx, sqlNoTimeouts)
	return reading, err
}

// Close ends the copy. Without Finish nothing of it stays. It may be called again.
func (c *OrgCopy) Close(ctx context.Context) {
	if c.writing != nil {
		_ = c.writing.Rollback(context.WithoutCancel(ctx))
	}
	for _, release := range c.release {
		release()
	}
	c.writing, c.release = nil, nil
}

// copyTable copies the rows of a table, then reads them back.
func (c *OrgCopy) copyTable(ctx context.Context, reading pgx.Tx, t *copiedTable) error {
	if err := t.describe(ctx, reading); err != nil {
		return err
	}
	rows := fmt.Sprintf(`SELECT %s FROM %s WHERE org_id = '%s' ORDER BY %s`, list(t.columns), t.name, c.org, list(t.key))
	sent, err := stream(ctx, reading, rows, c.writing, t.name, t.columns, easily())
	if err != nil {
		return err
	}
	arrived, err := read(ctx, c.writing, rows, io.Discard, easily())
	if err != nil {
		return err
	}
	if sent != arrived {
		return differ(sent, arrived)
	}
	t.rows = sent.rows
	return nil
}

func differ(sent, arrived sum) error {
	return fmt.Errorf("%d rows (%s) were sent and %d (%s) arrived", sent.rows, sent.checksum, arrived.rows, arrived.checksum)
}

// stream copies the rows of a query to a table of the target.
func stream(
	ctx context.Context, reading pgx.Tx, rows string, writing pgx.Tx, table string, columns []string, how pace,
) (sent sum, err error) {
	pipe, fill := io.Pipe()
	group, copying := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		sent, err = read(copying, reading, rows, fill, how)
		return fill.CloseWithError(err)
	})
	group.Go(func() error {
		in := fmt.Sprintf(`COPY %s (%s) FROM STDIN (FORMAT binary)`, table, list(columns))
		_, err := writing.Conn().PgConn().CopyFrom(copying, pipe, in)
		_ = pipe.CloseWithError(err)
		return err
	})
	err = group.Wait()
	return sent, err
}

// pace is how fast a copy or purge works: so many rows, then a pause so many times longer than they took, at most 50 ms.
type pace struct{ rows, rest int }

// longestRest bounds a pause, because on a busy machine a copy must be faster than the organization writes.
const longestRest = 50 * time.Millisecond

func (p pace) pause(took time.Duration) { time.Sleep(min(time.Duration(p.rest)*took, longestRest)) }

// easily is the pace while no request waits for the move. Requests of others that come during a portion are delayed by
// less than its time, so a portion is small.
func easily() pace { return pace{rows: 50, rest: 9} }

// atOnce is the pace while the organization is frozen.
func atOnce() pace { return pace{rows: 5_000} }

// read writes the rows of a query in the binary form of COPY, and computes their checksum. It reads them through a
// cursor: the server would fill megabytes of socket buffers with a COPY of its own at full speed.
func read(ctx context.Context, tx pgx.Tx, rows string, to io.Writer, how pace) (sum, error) {
	if _, err := tx.Exec(ctx, `DECLARE copied NO SCROLL CURSOR FOR `+rows); err != nil {
		return sum{}, err
	}
	digest := sha256.New()
	to = io.MultiWriter(to, digest)
	total, portion := int64(0), append([]byte("PGCOPY\n\xff\r\n\x00"), make([]byte, 8)...) // no flags, no header extension
	for count := how.rows; count == how.rows; total += int64(count) {
		watch := clock.StartWatch()
		var err error
		if portion, count, err = fetch(ctx, tx, how.rows, portion); err != nil {
			return sum{}, err
		}
		if count < how.rows {
			portion = binary.BigEndian.AppendUint16(portion, math.MaxUint16) // the end
		}
		if _, err := to.Write(portion); err != nil {
			return sum{}, err
		}
		portion = portion[:0]
		if count == how.rows {
			how.pause(watch.Elapsed())
		}
	}
	_, err := tx.Exec(ctx, `CLOSE copied`)
	return sum{rows: total, checksum: hex.EncodeToString(digest.Sum(nil))}, err
}

// fetch appends the next rows: for each the number of values, then the length and the bytes of each value.
func fetch(ctx context.Context, tx pgx.Tx, limit int, portion []byte) (_ []byte, count int, err error) {
	// The statement cannot be cached: it has other columns for the next table.
	rows, err := tx.Query(ctx, fmt.Sprintf(`FETCH %d FROM copied`, limit),
		pgx.QueryExecModeDescribeExec, pgx.QueryResultFormats{pgx.BinaryFormatCode})
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	for ; rows.Next(); count++ {
		values := rows.RawValues()
		portion = binary.BigEndian.AppendUint16(portion, uint16(len(values))) //nolint:gosec // at most 1,600 columns
		for _, value := range values {
			length := uint32(math.MaxUint32) // null
			if value != nil {
				length = uint32(len(value)) //nolint:gosec // at most 1 GiB
			}
			portion = append(binary.BigEndian.AppendUint32(portion, length), value...)
		}
	}
	return portion, count, rows.Err()
}

const sqlColumns = `
SELECT array_agg(quote_ident(attname) ORDER BY attnum)
FROM pg_attribute
WHERE attrelid = $1::regclass
  AND attnum > 0
  AND NOT attisdropped
  AND attgenerated = ''`

const sqlKey = `
SELECT array_agg(quote_ident(attname) ORDER BY position)
FROM pg_index
JOIN unnest(indkey) WITH ORDINALITY AS part (attnum, position) ON true
JOIN pg_attribute ON attrelid = indrelid AND pg_attribute.attnum = part.attnum
WHERE indrelid = $1::regclass
  AND indisprimary`

// describe reads the names of the table's columns.
func (t *copiedTable) describe(ctx context.Context, tx pgx.Tx) error {
	if err := tx.QueryRow(ctx, sqlColumns, t.name).Scan(&t.columns); err != nil {
		return err
	}
	if err := tx.QueryRow(ctx, sqlKey, t.name).Scan(&t.key); err != nil {
		return err
	}
	if len(t.key) == 0 {
		return errors.New("the table has no primary key")
	}
	return nil
}
