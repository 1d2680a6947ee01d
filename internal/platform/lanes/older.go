package lanes

import (
	"context"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	sqlLanesWithRows = sqlWaiting + `
SELECT l.lane_id AS id, l.org_id AS org, l.kind
FROM waiting w
JOIN lanes l USING (lane_id)
WHERE l.kind = @kind
ORDER BY l.lane_id`

	sqlOlder = `
SELECT id
FROM lane_rows
WHERE lane_id = @lane_id
  AND id < @before`
)

// EachOlder calls do with the rows of all lanes of a kind whose ids were made before a time: those of one lane, in the
// order of their ids, a portion at a time.
func (l *Lanes) EachOlder(ctx context.Context, kind string, before time.Time, do func(lane Lane, rows []ids.Any) error) error {
	lanes, err := postgres.Many[Lane](ctx, l.db.System("lanes with rows"), sqlLanesWithRows, postgres.Args{"kind": kind})
	if err != nil {
		return err
	}
	for _, lane := range lanes {
		rows, err := postgres.Many[ids.Any](ctx, l.db.System("older rows of a lane"), sqlOlder,
			postgres.Args{"lane_id": lane.ID, "before": ids.Floor[rowID](before)})
		if err != nil {
			return err
		}
		slices.SortFunc(rows, ids.Any.Compare)
		for portion := range slices.Chunk(rows, postgres.Portion) {
			if err := do(lane, portion); err != nil {
				return err
			}
		}
	}
	return nil
}
