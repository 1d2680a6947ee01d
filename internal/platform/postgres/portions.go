package postgres

import (
	"bytes"
	"context"
	"maps"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/parley-chat/parley/internal/platform/ids"
)

// Portion is the largest number of rows that one statement of DeleteInPortions deletes.
const Portion = 500

// DeleteInPortions deletes rows of an organization until none is left, each portion in a
// transaction of its own, so that no other transaction waits long. The statement deletes at most
// @limit rows and returns their ids. A statement whose filter has no index can also use
// `id > @after`, the greatest id so far, so that it does not read the same rows again.
func DeleteInPortions(ctx context.Context, db *DB, org ids.Org, sql string, args Args) error {
	args = maps.Clone(args)
	last := pgtype.UUID{Valid: true}
	for {
		args["limit"], args["after"] = Portion, last
		gone, err := InTx(ctx, db, org, func(tx *Tx) ([]pgtype.UUID, error) { return Many[pgtype.UUID](ctx, tx, sql, args) })
		if err != nil || len(gone) == 0 {
			return err
		}
		for _, id := range gone {
			if bytes.Compare(id.Bytes[:], last.Bytes[:]) > 0 {
				last = id
			}
		}
	}
}
