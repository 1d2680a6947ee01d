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

// OpenTx makes a lane; its id is that of the thing it is for. A lane that exists stays as it is.
func (l *Lanes) OpenTx(ctx context.Context, tx *postgres.Tx, kind string, lane ids.Any) error {
	return l.OpenManyTx(ctx, tx, []Lane{{ID: lane, Org: tx.Org(), Kind: kind}})
}

// OpenManyTx makes lanes, which may belong to several organizations if the transaction crosses
// them.
func (l *Lanes) OpenManyTx(ctx context.Context, tx *postgres.Tx, lanes []Lane) error {
	if len(lanes) == 0 {
		return nil
	}
	rows, orgs, kinds := make([]ids.Any, len(lanes)), make([]ids.Org, len(lanes)), make([]string, len(lanes))
	for i, lane := range lanes {
		if l.kinds[lane.Kind] == nil {
			return fmt.Errorf("no lane kind is called %q", lane.Kind)
		}
		if !tx.Org().IsZero() && lane.Org != tx.Org() {
			return fmt.Errorf("lane %s does not belong to the organization of the transaction", lane.ID)
		}
		rows[i], orgs[i], kinds[i] = lane.ID, lane.Org, lane.Kind
	}
	_, err := tx.Exec(ctx, sqlOpen, postgres.Args{"lanes": rows, "orgs": orgs, "kinds": kinds})
	return err
}

// CloseTx removes a lane. Its drainer loses it; Sweep deletes what waited in it. Its id must not be used again.
func (l *Lanes) CloseTx(ctx context.Context, tx *postgres.Tx, lane ids.Any) error {
	_, err := tx.Exec(ctx, sqlClose, postgres.Args{"lane_id": lane, "org_id": tx.Org()})
	return err
}

// added is what a transaction has added to lanes. It is written at the end of the transaction,
// so that lanes are locked briefly.
type added struct {
	kinds map[ids.Any]string
	due   map[ids.Any]bool
	later map[ids.Any]bool
	rows  []laneRow
}

type laneRow struct {
	lane ids.Any
	row  Row
}

// AddTx adds rows to a lane. They are written at the end of the transaction, by one statement for
// all lanes. A lane that does not exist gets none.
func (l *Lanes) AddTx(_ context.Context, tx *postgres.Tx, kind string, lane ids.Any, rows ...Row) error {
	if l.kinds[kind] == nil {
		return fmt.Errorf("no lane kind is called %q", kind)
	}
	now, kept := l.clock.Now(), l.addedTx(tx)
	for _, row := range rows {
		if row.DueAt.IsZero() {
			row.DueAt = now
		}
		kept.rows = append(kept.rows, laneRow{lane: lane, row: row})
		kept.touch(kind, lane, !row.DueAt.After(now))
	}
	return nil
}

// touchTx has the lane armed before the commit if it is idle, as if due rows had been added.
func (l *Lanes) touchTx(tx *postgres.Tx, kind string, lane ids.Any) {
	l.addedTx(tx).touch(kind, lane, true)
}

func (a *added) touch(kind string, lane ids.Any, due bool) {
	a.kinds[lane] = kind
	if due {
		a.due[lane] = true
	} else {
		a.later[lane] = true
	}
}

func (l *Lanes) addedTx(tx *postgres.Tx) *added {
	return postgres.Keep(tx, l, func() *added {
		kept := &added{kinds: map[ids.Any]string{}, due: map[ids.Any]bool{}, later: map[ids.Any]bool{}}
		tx.BeforeCommit(func(ctx context.Context) error { return l.writeTx(ctx, tx, kept) })
		return kept
	})
}

// writeTx writes the rows and arms the lanes that are idle. If every lane was seen armed within
// busyFor, the insert is sent together with the commit, which saves a round trip. If a lane was
// disarmed in between, the look after the commit wakes it.
func (l *Lanes) writeTx(ctx context.Context, tx *postgres.Tx, kept *added) error {
	touched := slices.SortedFunc(maps.Keys(kept.kinds), ids.Any.Compare)
	sql, args := kept.statement(touched)
	if len(kept.rows) > 0 && len(kept.later) == 0 && l.busy.all(l.clock.Now(), tx.Org(), kept.kinds) {
		tx.Last(sql, args, func(rows pgx.Rows) error {
			states, err := pgx.CollectRows(rows, pgx.RowToStructByName[laneState])
			l.busy.learn(l.clock.Now(), states)
			return err
		})
		tx.AfterCommit(func() { l.committed(nil, touched, touched) })
		return nil
	}
	states, err := postgres.Many[laneState](ctx, tx, sql, args)
	if err != nil {
		return err
	}
	idle, err := kept.idle(states, tx.Org())
	if err != nil {
		return err
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

// idle are the lanes that must be armed. It refuses lanes of another kind or organization. A lane
// that was closed while the transaction ran gets no rows: what it was for is gone.
func (a *added) idle(states []laneState, org ids.Org) (idle []wake, err error) {
	for _, state := range states {
		if state.Kind != a.kinds[state.LaneID] || (!org.IsZero() && state.OrgID != org) {
			return nil, fmt.Errorf("lane %s is not a lane of kind %s of this organization", state.LaneID, a.kinds[state.LaneID])
		}
		if !state.Armed && a.due[state.LaneID] {
			idle = append(idle, state.wake())
		}
	}
	return idle, nil
}

// unsure are the lanes to look at after the commit: all except those that this transaction armed
// and that got only due rows.
func (a *added) unsure(touched []ids.Any, armed []wake) []ids.Any {
	return slices.DeleteFunc(slices.Clone(touched), func(lane ids.Any) bool {
		return !a.later[lane] && slices.ContainsFunc(armed, func(w wake) bool { return w.ID == lane })
	})
}

// committed offers lanes that were armed here to this process's engine, and looks at lanes that
// may have been disarmed meanwhile.
func (l *Lanes) committed(armed []wake, touched, unsure []ids.Any) {
	if engine := l.engine.Load(); engine != nil {
		engine.offer(armed, touched)
	}
	l.looker.later(unsure)
}

func (a *added) statement(touched []ids.Any) (string, postgres.Args) {
	if len(touched) == 1 && len(a.rows) == 1 {
		row := a.rows[0].row
		return sqlAddOne, postgres.Args{
			"lane_id": touched[0], "priority": row.Priority, "due_at": row.DueAt, "id": row.ID, "key": row.Key,
		}
	}
	args := columns("", a.rows)
	args["touched"] = touched
	return sqlAdd, args
}

// columns are rows as arrays, for unnest.
func columns(prefix string, rows []laneRow) postgres.Args {
	return postgres.Columns(rows,
		postgres.Col(prefix+"lanes", func(r laneRow) ids.Any { return r.lane }),
		postgres.Col(prefix+"priorities", func(r laneRow) int16 { return int16(r.row.Priority) }), //nolint:gosec // 0 or 1
		postgres.Col(prefix+"dues", func(r laneRow) time.Time { return r.row.DueAt }),
		postgres.Col(prefix+"ids", func(r laneRow) ids.Any { return r.row.ID }),
		postgres.Col(prefix+"keys", func(r laneRow) ids.Any { return r.row.Key }))
}

// rowID is the kind of a row's id, whatever the row is.
type rowID struct{}

func (rowID) Prefix() string { return "" }

const sqlOneWaits = `
SELECT EXISTS (SELECT FROM lane_rows WHERE lane_id = @lane_id AND id < @before)`

// WaitingTx tells whether a row whose id was made before a time is still in the lane. The id says more
// than the time at which the row is due, which a retry moves.
func (l *Lanes) WaitingTx(ctx context.Context, tx *postgres.Tx, lane ids.Any, before time.Time) (bool, error) {
	return postgres.One[bool](ctx, tx, sqlOneWaits, postgres.Args{"lane_id": lane, "before": ids.Floor[rowID](before)})
}
