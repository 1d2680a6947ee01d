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
// returns ErrInUse when the organization is not frozen.
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

// purgeLeaf finds rows by their place in one table, because a join of the rows with their places in all partitions
// reads every row of the organization again for each portion.
func purgeLeaf(ctx context.Context, db *DB, org ids.Org, leaf string) error {
	how := easily()
	sql := fmt.Sprintf(`
		DELETE FROM %[1]s
		WHERE org_id = @org
		  AND ctid = ANY (ARRAY(SELECT ctid FROM %[1]s WHERE org_id = @org LIMIT %[2]d))`, leaf, how.rows)
	for {
		watch := clock.StartWatch()
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
		if err != nil || deleted < int64(how.rows) {
			return err
		}
		how.pause(watch.Elapsed())
	}
}
