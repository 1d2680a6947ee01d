package callbacks

import (
	"context"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	laneKind = "callbacks"
	// workers is how many numbers a process works for at once, leastAtOnce and mostAtOnce how many
	// callbacks of one of them.
	workers                 = 32
	leastAtOnce, mostAtOnce = 32, 128
)

// none is the empty result type: callbacks have no Call, the settlement does all the work.
type none struct{}

// kind describes the lanes of the callbacks: one for each number, and one for each business
// account for what concerns no number. A batch of callbacks is applied in one transaction. If
// that fails, lanes settle each callback alone, then each of its items, and hand over the item
// that cannot be applied.
func (s *Service) kind() lanes.Kind[received, none] {
	return lanes.Kind[received, none]{
		Name: laneKind, Open: s.open, SetAside: s.setAside, Least: leastAtOnce, Most: mostAtOnce, Workers: workers, OnHold: true,
	}
}

func (s *Service) open(_ context.Context, lane lanes.Lane) (lanes.Work[received, none], error) {
	return lanes.Work[received, none]{
		Read: func(ctx context.Context, tasks []*lanes.Task[received, none]) error {
			return s.readTasks(ctx, lane.Org, tasks)
		},
		Settle: func(ctx context.Context, tx *postgres.Tx, batch *lanes.Batch[received, none]) error {
			return s.settleTx(ctx, tx, postgres.Each(batch.Results, func(r lanes.Result[received, none]) received { return r.Task }))
		},
		Split: received.split,
	}, nil
}

// readTasks reads and parses the callbacks of rows. A body that does not exist has no items.
func (s *Service) readTasks(ctx context.Context, org orgs.ID, tasks []*lanes.Task[received, none]) error {
	asked := lanes.RowIDs(tasks)
	least, greatest := lanes.Span(asked)
	found, err := s.read(ctx, org, asked, least, greatest)
	if err != nil {
		return err
	}
	for _, task := range tasks {
		one, there := found[task.Row.ID]
		if !there {
			one.id = ids.From[Kind](task.Row.ID)
		}
		task.Value = one
	}
	return nil
}

// setAside makes dead letters of items that cannot be applied, or of callbacks that cannot be read.
func (s *Service) setAside(ctx context.Context, tx *postgres.Tx, lane lanes.Lane, rows []lanes.Aside[received]) error {
	for _, row := range rows {
		one := row.Task
		if one.id.IsZero() {
			one.id = ids.From[Kind](row.Row.ID) // never read
		}
		if err := s.setAsideTx(ctx, tx, one, row.Reason); err != nil {
			return err
		}
		s.logger.WarnContext(ctx, "callback.item_dead", "org", lane.Org, "callback", one.id, "reason", row.Reason)
	}
	return nil
}
