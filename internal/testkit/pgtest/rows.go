package pgtest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/canary"
)

// Row is a row of any table.
type Row struct {
	// Table is the name of the table, also for rows of its partitions.
	Table string
	// Org is the org_id; empty when the table has none.
	Org string
	// ID is the id, printed as a UUID; empty when the table has none.
	ID string
	// Text has all columns, separated by zero bytes. Text, bytea and JSON are not escaped.
	Text []byte
}

// All tables with rows; partitions have the name of their table.
const sqlTables = `
SELECT c.oid::regclass::text AS part, coalesce(pg_partition_root(c.oid), c.oid)::regclass::text AS name
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r'
  AND n.nspname NOT LIKE 'pg\_%'
  AND n.nspname <> 'information_schema'
  AND pg_relation_size(c.oid) > 0
ORDER BY 2, 1`

// EachRow calls look with every row of a database. It reads the tables directly, without the
// product's code.
func EachRow(ctx context.Context, conn *pgx.Conn, look func(Row)) error {
	rows, err := conn.Query(ctx, sqlTables)
	if err != nil {
		return err
	}
	tables, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Part, Name string }])
	if err != nil {
		return err
	}
	for _, table := range tables {
		part := conn.PgConn().ExecParams(ctx, "TABLE "+table.Part, nil, nil, nil, []int16{pgx.BinaryFormatCode})
		owner, id := uuidColumn(part, "org_id"), uuidColumn(part, "id")
		for part.NextRow() {
			values := part.Values()
			look(Row{Table: table.Name, Org: uuidAt(values, owner), ID: uuidAt(values, id), Text: bytes.Join(values, []byte{0})})
		}
		if _, err := part.Close(); err != nil {
			return fmt.Errorf("%s: %w", table.Part, err)
		}
	}
	return nil
}

// uuidColumn returns the index of a uuid column, or -1.
func uuidColumn(part *pgconn.ResultReader, name string) int {
	return slices.IndexFunc(part.FieldDescriptions(), func(column pgconn.FieldDescription) bool {
		return column.Name == name && column.DataTypeOID == pgtype.UUIDOID
	})
}

func uuidAt(values [][]byte, column int) string {
	if column < 0 || len(values[column]) != 16 {
		return ""
	}
	return pgtype.UUID{Bytes: [16]byte(values[column]), Valid: true}.String()
}

// watch fails the test when its database contains a secret in clear text at the end.
func watch(t testing.TB, databaseURL string) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute) //nolint:usetesting // the test's own is over
		defer cancel()
		conn, err := pgx.Connect(ctx, databaseURL)
		require.NoError(t, err)
		defer func() { _ = conn.Close(ctx) }()
		require.NoError(t, EachRow(ctx, conn, func(row Row) { canary.Check(t, "the table "+row.Table, row.Text) }))
	})
}
