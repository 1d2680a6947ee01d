package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/parley-chat/parley/internal/platform/ids"
)

// Sum is the number of rows of an organization in a table, and a checksum over them in the order
// of the primary key.
type Sum struct {
	Rows     int64
	Checksum string
}

// CopyOrg copies every row of an organization, table by table, to another database, in one
// transaction there. It compares the checksums of both sides and commits only when they are
// equal. The organization must be frozen at the source. Tables are listed parents first; the rows
// of a table are copied in the order of its primary key.
func CopyOrg(ctx context.Context, from, to *DB, org ids.Org, tables []string) (map[string]Sum, error) {
	ctx = from.marked(to.marked(ctx, mark{system: "copy"}), mark{system: "copy"})
	source, release, err := from.acquire(ctx, ids.Org{})
	if err != nil {
		return nil, err
	}
	defer release()
	target, release, err := to.acquire(ctx, ids.Org{})
	if err != nil {
		return nil, err
	}
	defer release()

	reading, err := source.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, err
	}
	defer func() { _ = reading.Rollback(context.WithoutCancel(ctx)) }()
	writing, err := target.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = writing.Rollback(context.WithoutCancel(ctx)) }()
	for _, tx := range []pgx.Tx{reading, writing} {
		// A connection waits idle while the other one reads, for longer than a request ever does.
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0`); err != nil {
			return nil, err
		}
	}
	sums := make(map[string]Sum, len(tables))
	for _, table := range tables {
		if sums[table], err = copyTable(ctx, reading, writing, org, table); err != nil {
			return nil, fmt.Errorf("copy %s: %w", table, err)
		}
	}
	return sums, writing.Commit(ctx)
}

// copyTable copies the rows of a table, then reads them back: both streams must be equal.
func copyTable(ctx context.Context, reading, writing pgx.Tx, org ids.Org, table string) (Sum, error) {
	columns, key, err := columnsOf(ctx, reading, table)
	if err != nil {
		return Sum{}, err
	}
	out := fmt.Sprintf(`COPY (SELECT %s FROM %s WHERE org_id = '%s' ORDER BY %s) TO STDOUT (FORMAT binary)`, columns, table, org, key)
	pipe, fill := io.Pipe()
	group, copying := errgroup.WithContext(ctx)
	var sent, arrived Sum
	group.Go(func() (err error) {
		sent, err = read(copying, reading, out, fill)
		return fill.CloseWithError(err)
	})
	group.Go(func() error {
		_, err := writing.Conn().PgConn().CopyFrom(copying, pipe, fmt.Sprintf(`COPY %s (%s) FROM STDIN (FORMAT binary)`, table, columns))
		_ = pipe.CloseWithError(err)
		return err
	})
	if err := group.Wait(); err != nil {
		return Sum{}, err
	}
	if arrived, err = read(ctx, writing, out, io.Discard); err != nil {
		return Sum{}, err
	}
	if sent != arrived {
		return arrived, fmt.Errorf("%d rows (%s) were sent and %d (%s) arrived", sent.Rows, sent.Checksum, arrived.Rows, arrived.Checksum)
	}
	return arrived, nil
}

// read copies rows out at a reduced pace and computes their checksum.
func read(ctx context.Context, tx pgx.Tx, out string, to io.Writer) (Sum, error) {
	digest := sha256.New()
	tag, err := tx.Conn().PgConn().CopyTo(ctx, &easy{to: io.MultiWriter(to, digest), rested: time.Now()}, out) //nolint:forbidigo // a duration
	return Sum{Rows: tag.RowsAffected(), Checksum: hex.EncodeToString(digest.Sum(nil))}, err
}

// easy is a writer that pauses three times as long as it writes, so that a move slows other work
// on the machine as little as possible.
type easy struct {
	to      io.Writer
	written int
	rested  time.Time
}

const (
	easyStretch = 64 << 10
	easyRest    = 3
)

func (e *easy) Write(rows []byte) (int, error) {
	n, err := e.to.Write(rows)
	if e.written += n; e.written >= easyStretch {
		time.Sleep(easyRest * time.Since(e.rested)) //nolint:forbidigo // a duration
		e.written, e.rested = 0, time.Now()         //nolint:forbidigo // a duration
	}
	return n, err
}

const sqlColumns = `
SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum)
FROM pg_attribute
WHERE attrelid = $1::regclass
  AND attnum > 0
  AND NOT attisdropped
  AND attgenerated = ''`

const sqlKey = `
SELECT string_agg(quote_ident(attname), ', ' ORDER BY position)
FROM pg_index
JOIN unnest(indkey) WITH ORDINALITY AS part (attnum, position) ON true
JOIN pg_attribute ON attrelid = indrelid AND pg_attribute.attnum = part.attnum
WHERE indrelid = $1::regclass
  AND indisprimary`

func columnsOf(ctx context.Context, tx pgx.Tx, table string) (columns, key string, err error) {
	if err := tx.QueryRow(ctx, sqlColumns, table).Scan(&columns); err != nil {
		return "", "", err
	}
	err = tx.QueryRow(ctx, sqlKey, table).Scan(&key)
	return columns, key, err
}

const purgeBatch = 500

const sqlIsOpen = `SELECT EXISTS (SELECT FROM organizations WHERE org_id = @org AND frozen_at IS NULL)`

// ErrInUse means that an organization is not frozen in this database.
var ErrInUse = errors.New("the organization is open in this database: nothing of it is deleted")

// PurgeOrg deletes every row of an organization, children first, in small portions with pauses
// between. The organization must not be in use here, because readers would see a part of its rows: it
// returns ErrInUse when the organization is not frozen.
func PurgeOrg(ctx context.Context, db *DB, org ids.Org, tables []string) error {
	for _, table := range slices.Backward(tables) {
		sql := fmt.Sprintf(`
			DELETE FROM %[1]s
			WHERE org_id = @org
			  AND (tableoid, ctid) IN (SELECT tableoid, ctid FROM %[1]s WHERE org_id = @org LIMIT %[2]d)`,
			pgx.Identifier{table}.Sanitize(), purgeBatch)
		for {
			began := time.Now() //nolint:forbidigo // a duration
			deleted, err := InSystemTx(ctx, db, "purge of organization "+org.String(), func(tx *Tx) (int64, error) {
				open, err := One[bool](ctx, tx, sqlIsOpen, Args{"org": org})
				if err == nil && open {
					err = ErrInUse
				}
				if err != nil {
					return 0, err
				}
				if _, err := tx.Exec(ctx, `SET LOCAL parley.purge = 'on'`, nil); err != nil {
					return 0, err
				}
				return tx.Exec(ctx, sql, Args{"org": org})
			})
			if err != nil {
				return fmt.Errorf("purge %s: %w", table, err)
			}
			if deleted < purgeBatch {
				break
			}
			time.Sleep(easyRest * time.Since(began)) //nolint:forbidigo // a duration
		}
	}
	return nil
}
