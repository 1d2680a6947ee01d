package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
)

const sqlIsOpen = `SELECT EXISTS (SELECT FROM organizations WHERE org_id = @org AND frozen_at IS NULL)`

// A table that is not partitioned is no part of a tree.
const sqlLeaves = `
SELECT relid::regclass::text FROM pg_partition_tree(@table::text::regclass) WHERE isleaf
UNION ALL
SELECT @table::text FROM pg_class WHERE oid = @table::text::regclass AND relkind = 'r'`

// ErrInUse means that an organization is not frozen in this database.
var ErrInUse = errors.New("the organization is open in this database: nothing of it is deleted")

// PurgeOrg deletes every row of an organization, children first, in small portions with pauses
// between. The organization must not be in use here, because readers would see a part of its rows: it
// returns ErrInUse when the organization is not frozen. Under WithBudget it returns a MoreError when its time is over; the
// next call goes on.
func PurgeOrg(ctx context.Context, db *DB, org ids.Org, tables []string) error {
	for _, table := range slices.Backward(tables) {
		leaves, err := Many[string](ctx, db.System("purge of an organization"), sqlLeaves, Args{"table": table})
		if err != nil {
			return err
		}
		for _, leaf := range leaves {
			if err := purgeLeaf(ctx, db, org, leaf); err != nil {
				return fmt.Errorf("purge %s: %w", leaf, err)
			}
		}
	}
	return nil
}

// purgeLeaf walks the rows of one table in the order of their primary key. Each portion begins after the last one:
// from the start of the key it would read every row deleted so far, because an index keeps them until a vacuum.
func purgeLeaf(ctx context.Context, db *DB, org ids.Org, leaf string) error {
	key, err := Many[keyColumn](ctx, db.System("purge of an organization"), sqlKeyTypes, Args{"table": leaf})
	if err != nil {
		return err
	}
	how, after := easily(), []string(nil)
	for {
		watch := clock.StartWatch()
		last, err := InSystemTx(ctx, db, "purge of organization "+org.String(), func(tx *Tx) ([][]string, error) {
			open, err := One[bool](ctx, tx, sqlIsOpen, Args{"org": org})
			if err == nil && open {
				err = ErrInUse
			}
			if err != nil {
				return nil, err
			}
			if _, err := tx.Exec(ctx, `SET LOCAL parley.purge = 'on'`, nil); err != nil {
				return nil, err
			}
			return Many[[]string](ctx, tx, sqlPurge(leaf, key, after != nil, how.rows), Args{"org": org, "after": after})
		})
		if err != nil || len(last) == 0 {
			return err
		}
		if OverBudget(ctx) {
			return &MoreError{}
		}
		after = last[0]
		how.pause(watch.Elapsed())
	}
}

// keyColumn is a column of a primary key.
type keyColumn struct{ Name, Type string }

const sqlKeyTypes = `
SELECT quote_ident(attname) AS name, format_type(atttypid, atttypmod) AS type
FROM pg_index
JOIN unnest(indkey) WITH ORDINALITY AS part (attnum, position) ON true
JOIN pg_attribute ON attrelid = indrelid AND pg_attribute.attnum = part.attnum
WHERE indrelid = @table::text::regclass
  AND indisprimary
ORDER BY position`

// sqlPurge deletes the next rows and returns the key of the last of them, or no row. The rows are found by their place
// alone: given org_id too, the planner may read all rows of the organization for it. Within a statement a place is that of
// one row.
func sqlPurge(leaf string, key []keyColumn, later bool, rows int) string {
	var names, backward, texts, values []string
	for i, one := range key {
		names, backward, texts = append(names, one.Name), append(backward, one.Name+" DESC"), append(texts, one.Name+"::text")
		values = append(values, fmt.Sprintf("(@after::text[])[%d]::%s", i+1, one.Type))
	}
	from := "@after::text[] IS NULL"
	if later {
		from = fmt.Sprintf("(%s) > (%s)", list(names), list(values))
	}
	return fmt.Sprintf(`
WITH portion AS MATERIALIZED (
    SELECT ctid AS row_ctid, %[2]s FROM %[1]s WHERE org_id = @org AND %[3]s ORDER BY %[2]s LIMIT %[4]d
), gone AS (
    DELETE FROM %[1]s WHERE ctid = ANY (ARRAY(SELECT row_ctid FROM portion))
)
SELECT ARRAY[%[5]s] FROM portion ORDER BY %[6]s LIMIT 1`, leaf, list(names), from, rows, list(texts), list(backward))
}
