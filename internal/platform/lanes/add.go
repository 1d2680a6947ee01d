package lanes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// OpenTx makes a lane; its id is that of the thing it is for.
func (l *Lanes) OpenTx(ctx context.Context, tx *postgres.Tx, kind string, lane ids.Any) error {
	if l.kinds[kind] == nil {
		return fmt.Errorf("no lane kind is called %q", kind)
	}
	_, err := tx.Exec(ctx, sqlOpen, postgres.Args{"lane_id": lane, "org_id": tx.Org(), "kind": kind})
	return err
}

// CloseTx removes a lane and what waits in it. Its drainer notices.
func (l *Lanes) CloseTx(ctx context.Context, tx *postgres.Tx, lane ids.Any) error {
	_, err := tx.Exec(ctx, sqlClose, postgres.Args{"lane_id": lane, "org_id": tx.Org()})
	return err
}

// added is what a transaction leaves for its commit.
type added struct {
	kinds map[ids.Any]string
	due   map[ids.Any]bool
	later map[ids.Any]bool
	rows  []laneRow
	// known are lanes whose rows were added by a statement of the caller's own.
	known map[ids.Any]laneState
}

type laneRow struct {
	lane ids.Any
	row  Row
}

// AddTx has rows wait in a lane once tx is committed.
func (l *Lanes) AddTx(ctx context.Context, tx *postgres.Tx, kind string, lane ids.Any, rows ...Row) error {
	known := l.kinds[kind]
	if known == nil {
		return fmt.Errorf("no lane kind is called %q", kind)
	}
	now := l.clock.Now()
	for i := range rows {
		if rows[i].DueAt.IsZero() {
			rows[i].DueAt = now
		}
	}
	if known.PerRow {
		return l.addJobsTx(ctx, tx, known, lane, rows)
	}
	kept := l.keptTx(tx)
	for _, row := range rows {
		kept.rows = append(kept.rows, laneRow{lane: lane, row: row})
		kept.touch(kind, lane, !row.DueAt.After(now))
	}
	return nil
}

// TouchTx has a lane looked at that has due rows.
func (l *Lanes) TouchTx(tx *postgres.Tx, kind string, lane ids.Any) {
	l.keptTx(tx).touch(kind, lane, true)
}

// Adding is for a statement that adds rows itself: an INSERT whose columns are lane_id,
// priority, due_at, id, key. It must return the lanes as Touched selects them, or have each
// of them touched by TouchTx. Opening makes lanes: lane_id, org_id, kind.
const (
	Opening = `INSERT INTO lanes (lane_id, org_id, kind)`
	Adding  = `INSERT INTO lane_rows (lane_id, priority, due_at, id, key)`
	Touched = `SELECT lane_id, org_id, kind, armed, slow FROM lanes`
)

// AddedTx wakes the lanes to which a statement of the caller's own, made of Adding and
// Touched, has just added due rows.
func (l *Lanes) AddedTx(ctx context.Context, tx *postgres.Tx, kind, sql string, args postgres.Args) error {
	states, err := postgres.Many[laneState](ctx, tx, sql, args)
	if err != nil || len(states) == 0 {
		return err
	}
	kept := l.keptTx(tx)
	for _, state := range states {
		kept.touch(kind, state.LaneID, true)
		kept.known[state.LaneID] = state
	}
	return nil
}

// AddLastTx is AddedTx for a statement that may go with the commit: it does where the lanes
// of the organization were just seen busy.
func (l *Lanes) AddLastTx(ctx context.Context, tx *postgres.Tx, kind, sql string, args postgres.Args) error {
	of := orgKind{tx.Org(), kind}
	if !l.busy.org(l.clock.Now(), of) {
		if err := l.AddedTx(ctx, tx, kind, sql, args); err != nil {
			return err
		}
		known := slices.Collect(maps.Values(l.keptTx(tx).known))
		tx.AfterCommit(func() { l.busy.learnOrg(l.clock.Now(), of, known) })
		return nil
	}
	var states []laneState
	tx.Last(sql, args, func(rows pgx.Rows) (err error) {
		states, err = pgx.CollectRows(rows, pgx.RowToStructByName[laneState])
		return err
	})
	tx.AfterCommit(func() {
		l.busy.learnOrg(l.clock.Now(), of, states)
		touched := make([]ids.Any, len(states))
		for i, state := range states {
			touched[i] = state.LaneID
		}
		l.committed(nil, touched, touched)
	})
	return nil
}

func (k *added) touch(kind string, lane ids.Any, due bool) {
	k.kinds[lane] = kind
	if due {
		k.due[lane] = true
	} else {
		k.later[lane] = true
	}
}

func (l *Lanes) keptTx(tx *postgres.Tx) *added {
	return postgres.Keep(tx, l, func() *added {
		kept := &added{kinds: map[ids.Any]string{}, due: map[ids.Any]bool{}, later: map[ids.Any]bool{}, known: map[ids.Any]laneState{}}
		tx.BeforeCommit(func(ctx context.Context) error { return l.commitTx(ctx, tx, kept) })
		return kept
	})
}

// commitTx writes the rows, with the commit if all lanes are known to be busy.
func (l *Lanes) commitTx(ctx context.Context, tx *postgres.Tx, kept *added) error {
	touched := slices.SortedFunc(maps.Keys(kept.kinds), ids.Any.Compare)
	if len(kept.later) > 0 || len(kept.known) > 0 || !l.busy.all(l.clock.Now(), tx.Org(), kept.kinds) {
		return l.writeTx(ctx, tx, kept, touched)
	}
	if len(kept.rows) > 0 {
		sql, args := kept.statement(touched)
		tx.Last(sql, args, func(rows pgx.Rows) error {
			states, err := pgx.CollectRows(rows, pgx.RowToStructByName[laneState])
			l.busy.learn(l.clock.Now(), states)
			return err
		})
	}
	tx.AfterCommit(func() { l.committed(nil, touched, touched) })
	return nil
}

// writeTx writes the rows and arms the lanes that are idle, last of all in the
// transaction and in one order, so that lanes are locked briefly and without deadlocks.
func (l *Lanes) writeTx(ctx context.Context, tx *postgres.Tx, kept *added, touched []ids.Any) error {
	states, err := kept.statesTx(ctx, tx, touched)
	if err != nil {
		return err
	}
	if len(states) != len(touched) {
		return fmt.Errorf("%d of %d lanes were never opened", len(touched)-len(states), len(touched))
	}
	var idle []wake
	for _, state := range states {
		if state.Kind != kept.kinds[state.LaneID] || (!tx.Org().IsZero() && state.OrgID != tx.Org()) {
			return fmt.Errorf("lane %s is not a lane of kind %s of this organization", state.LaneID, kept.kinds[state.LaneID])
		}
		if !state.Armed && kept.due[state.LaneID] {
			idle = append(idle, state.wake())
		}
	}
	armed, err := l.armTx(ctx, tx, idle)
	if err != nil {
		return err
	}
	tx.AfterCommit(func() {
		l.busy.learn(l.clock.Now(), states)
		l.committed(armed, touched, kept.unsure(touched, armed))
	})
	return nil
}

// committed has lanes drained that were armed here, and looks at those that may have been
// disarmed meanwhile.
func (l *Lanes) committed(armed []wake, touched, unsure []ids.Any) {
	if engine := l.engine.Load(); engine != nil {
		engine.offer(armed, touched)
	}
	l.looker.later(unsure)
}

// unsure are the lanes to look at again: all but those that were armed here for the only
// rows they got.
func (k *added) unsure(touched []ids.Any, armed []wake) []ids.Any {
	return slices.DeleteFunc(slices.Clone(touched), func(lane ids.Any) bool {
		return !k.later[lane] && slices.ContainsFunc(armed, func(w wake) bool { return w.ID == lane })
	})
}

func (k *added) statesTx(ctx context.Context, tx *postgres.Tx, touched []ids.Any) ([]laneState, error) {
	if len(k.rows) == 0 && len(k.known) == len(touched) {
		return slices.SortedFunc(maps.Values(k.known), func(a, b laneState) int { return a.LaneID.Compare(b.LaneID) }), nil
	}
	sql, args := k.statement(touched)
	return postgres.Many[laneState](ctx, tx, sql, args)
}

func (k *added) statement(touched []ids.Any) (string, postgres.Args) {
	if len(touched) == 1 && len(k.rows) == 1 {
		row := k.rows[0].row
		return sqlAddOne, postgres.Args{
			"lane_id": touched[0], "priority": row.Priority, "due_at": row.DueAt, "id": row.ID, "key": row.Key,
		}
	}
	args := columns("", k.rows)
	args["touched"] = touched
	return sqlAdd, args
}

// columns are rows turned on their side, for unnest.
func columns(prefix string, rows []laneRow) postgres.Args {
	lanes, rowIDs, keys := make([]ids.Any, len(rows)), make([]ids.Any, len(rows)), make([]ids.Any, len(rows))
	priorities, dues := make([]int16, len(rows)), make([]time.Time, len(rows))
	for i, r := range rows {
		lanes[i], rowIDs[i], keys[i] = r.lane, r.row.ID, r.row.Key
		priorities[i], dues[i] = int16(r.row.Priority), r.row.DueAt //nolint:gosec // at most 3
	}
	return postgres.Args{
		prefix + "lanes": lanes, prefix + "priorities": priorities, prefix + "dues": dues, prefix + "ids": rowIDs, prefix + "keys": keys,
	}
}
