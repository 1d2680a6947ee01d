package postgres

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// OrgCopied tells what a copy wrote.
type OrgCopied struct {
	// Rows is how many rows of each table the target has.
	Rows map[string]int64
	// Late is how many of all rows were copied by Finish.
	Late int64
}

// Finish copies the rows that were written since BeginCopy read them, deletes those that are gone, and commits. The
// organization must be frozen at the source. It commits only if every late row reads the same at the target, and each
// table has the same number of rows.
//
// A row that was written later has the id of a later transaction in xmin. A superset is cheap to find: every row
// whose transaction is not older than the oldest one that was open when BeginCopy looked. A transaction of any
// database of the server that stays open for long makes the pause longer.
//
// Rows that exchanged a unique value meanwhile (two labels that swapped names) cannot be written one by one. Finish
// then returns an error, and the caller begins again.
func (c *OrgCopy) Finish(ctx context.Context) (copied OrgCopied, err error) {
	ctx = c.marked(ctx)
	reading, err := c.read(ctx)
	if err != nil {
		return copied, err
	}
	defer func() { _ = reading.Rollback(context.WithoutCancel(ctx)) }()
	steps := []struct {
		name  string
		apply func(context.Context, pgx.Tx, *copiedTable) error
		order func([]*copiedTable) []*copiedTable
	}{
		{"count", c.count, parentsFirst},
		{"fetch the changes of", c.fetch, parentsFirst},
		{"delete from", c.deleteGone, childrenFirst},
		{"write to", c.write, parentsFirst},
		{"compare", c.compare, parentsFirst},
	}
	for _, step := range steps {
		for _, table := range step.order(c.tables) {
			if err := step.apply(ctx, reading, table); err != nil {
				return copied, fmt.Errorf("%s %s: %w", step.name, table.name, err)
			}
		}
	}
	copied.Rows = make(map[string]int64, len(c.tables))
	for _, table := range c.tables {
		copied.Rows[table.name] = table.kept + table.changed
		copied.Late += table.changed
	}
	return copied, c.writing.Commit(ctx)
}

func parentsFirst(tables []*copiedTable) []*copiedTable { return tables }

func childrenFirst(tables []*copiedTable) []*copiedTable {
	reversed := slices.Clone(tables)
	slices.Reverse(reversed)
	return reversed
}

// age counts transactions back from now, so that the comparison holds when ids wrap around.
func (c *OrgCopy) written() string { return fmt.Sprintf(`age(xmin) <= age('%s'::xid)`, c.since) }

// count counts the rows that were written since and the others.
func (c *OrgCopy) count(ctx context.Context, reading pgx.Tx, t *copiedTable) error {
	sql := fmt.Sprintf(`SELECT count(*) FILTER (WHERE NOT %[1]s), count(*) FILTER (WHERE %[1]s) FROM %[2]s WHERE org_id = '%[3]s'`,
		c.written(), t.name, c.org)
	return reading.QueryRow(ctx, sql).Scan(&t.kept, &t.changed)
}

// fetch copies the rows that were written since to a temporary table.
func (c *OrgCopy) fetch(ctx context.Context, reading pgx.Tx, t *copiedTable) error {
	if t.changed == 0 {
		return nil
	}
	create := fmt.Sprintf(`CREATE TEMPORARY TABLE %s ON COMMIT DROP AS SELECT %s FROM %s WITH NO DATA`, t.late(), list(t.columns), t.name)
	if _, err := c.writing.Exec(ctx, create); err != nil {
		return err
	}
	rows := fmt.Sprintf(`SELECT %s FROM %s WHERE org_id = '%s' AND %s`, list(t.columns), t.name, c.org, c.written())
	_, err := stream(ctx, reading, rows, c.writing, t.late(), t.columns, atOnce())
	return err
}

// deleteGone deletes the rows that the source no longer has. It compares all keys, and only when the numbers of rows
// show that some are gone.
func (c *OrgCopy) deleteGone(ctx context.Context, reading pgx.Tx, t *copiedTable) error {
	known := int64(0) // rows that were changed and not created
	if t.changed > 0 {
		sql := fmt.Sprintf(`SELECT count(*) FROM %s JOIN %s t USING (%s) WHERE t.org_id = '%s'`, t.late(), t.name, list(t.key), c.org)
		if err := c.writing.QueryRow(ctx, sql).Scan(&known); err != nil {
			return err
		}
	}
	if t.rows == t.kept+known {
		return nil
	}
	create := fmt.Sprintf(`CREATE TEMPORARY TABLE %s ON COMMIT DROP AS SELECT %s FROM %s WITH NO DATA`, t.there(), list(t.key), t.name)
	if _, err := c.writing.Exec(ctx, create); err != nil {
		return err
	}
	rows := fmt.Sprintf(`SELECT %s FROM %s WHERE org_id = '%s'`, list(t.key), t.name, c.org)
	if _, err := stream(ctx, reading, rows, c.writing, t.there(), t.key, atOnce()); err != nil {
		return err
	}
	_, err := c.writing.Exec(ctx, fmt.Sprintf(`-- locks: own rows
		DELETE FROM %[1]s t
		WHERE org_id = '%[2]s'
		  AND NOT EXISTS (SELECT FROM %[3]s WHERE (%[4]s) = (%[5]s))`,
		t.name, c.org, t.there(), list(t.key), list(prefixed("t.", t.key))))
	return err
}

// write inserts the late rows, and updates those that differ: audit_log refuses every update. The operator *<>
// compares the bytes of two rows.
func (c *OrgCopy) write(ctx context.Context, _ pgx.Tx, t *copiedTable) error {
	if t.changed == 0 {
		return nil
	}
	var sets []string
	for _, column := range t.columns {
		if !slices.Contains(t.key, column) {
			sets = append(sets, column+" = excluded."+column)
		}
	}
	action := "NOTHING"
	if len(sets) > 0 {
		action = fmt.Sprintf(`UPDATE SET %s WHERE ROW(%s)::record *<> ROW(%s)::record`,
			list(sets), list(prefixed("t.", t.columns)), list(prefixed("excluded.", t.columns)))
	}
	_, err := c.writing.Exec(ctx, fmt.Sprintf(`-- locks: own rows
		INSERT INTO %[1]s AS t (%[2]s) SELECT %[2]s FROM %[3]s ON CONFLICT (%[4]s) DO %[5]s`,
		t.name, list(t.columns), t.late(), list(t.key), action))
	return err
}

// compare checks the late rows by their bytes and the whole table by its number of rows.
func (c *OrgCopy) compare(ctx context.Context, _ pgx.Tx, t *copiedTable) error {
	var rows int64
	if err := c.writing.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM %s WHERE org_id = '%s'`, t.name, c.org)).Scan(&rows); err != nil {
		return err
	}
	if rows != t.kept+t.changed {
		return fmt.Errorf("the source has %d rows and the target %d", t.kept+t.changed, rows)
	}
	if t.changed == 0 {
		return nil
	}
	late := fmt.Sprintf(`SELECT %s FROM %s ORDER BY %s`, list(t.columns), t.late(), list(t.key))
	sent, err := read(ctx, c.writing, late, io.Discard, atOnce())
	if err != nil {
		return err
	}
	there := fmt.Sprintf(`SELECT %s FROM %s t JOIN (SELECT %s FROM %s) late USING (%s) WHERE t.org_id = '%s' ORDER BY %s`,
		list(prefixed("t.", t.columns)), t.name, list(t.key), t.late(), list(t.key), c.org, list(prefixed("t.", t.key)))
	arrived, err := read(ctx, c.writing, there, io.Discard, atOnce())
	if err != nil {
		return err
	}
	if sent != arrived {
		return differ(sent, arrived)
	}
	return nil
}

// late is the temporary table of rows that were written since; there has the keys of all rows of the source.
func (t *copiedTable) late() string { return "late_" + t.name }

func (t *copiedTable) there() string { return "there_" + t.name }

func list(names []string) string { return strings.Join(names, ", ") }

func prefixed(prefix string, names []string) []string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = prefix + name
	}
	return all
}
