package lanes

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// fill adds count rows to a lane by one statement, made a minute before the fixture's time.
func (f *fixture) fill(t testing.TB, lane ids.Any, count int) {
	t.Helper()
	f.in(t, f.org, func(tx *postgres.Tx) error {
		_, err := tx.Exec(t.Context(), `
INSERT INTO lane_rows (lane_id, priority, due_at, id)
SELECT @lane_id, 0, @now::timestamptz - interval '1 minute', ulid(@now::timestamptz - interval '1 minute')
FROM generate_series(1, @count)`, postgres.Args{"lane_id": lane, "now": f.clock.Now(), "count": count})
		return err
	})
}

func TestCloseTx_ManyRows_DeletedInPortions(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clock.NewSynced(), noted(&callLog{}))
	open, closed := f.open(t, "noted"), f.open(t, "noted")
	f.fill(t, open, 10)
	f.fill(t, closed, 2*clearAtOnce+10)
	f.in(t, f.org, func(tx *postgres.Tx) error {
		_, err := tx.Exec(t.Context(), `INSERT INTO lane_keys (lane_id, key, holder, until) VALUES (@lane_id, @key, @key, @now)`,
			postgres.Args{"lane_id": closed, "key": newID(), "now": f.clock.Now()})
		return err
	})
	f.in(t, f.org, func(tx *postgres.Tx) error { return f.lanes.CloseTx(t.Context(), tx, closed) })
	require.Equal(t, 2*clearAtOnce+20, f.waiting(t), "closing itself deletes no row")
	require.NoError(t, f.lanes.Sweep(t.Context()))
	require.Equal(t, 10, f.waiting(t))
	keys, err := postgres.One[int](t.Context(), f.db.System("test"), `SELECT count(*) FROM lane_keys`, nil)
	require.NoError(t, err)
	require.Zero(t, keys)
}

// Old rows leave a lane that is blocked; what waited behind them for its key is called when the lane goes on.
func TestExpire_BlockedLane_OldRowsLeaveAndKeysGoOn(t *testing.T) {
	t.Parallel()
	now := clock.NewManual(time.Now())
	seen := &callLog{}
	held := newID()
	fails := true
	kind := testKind{Name: "keyed", Workers: 4, Most: 4, Retries: Hold, Open: func(context.Context, Lane) (testWork, error) {
		return testWork{Call: calling(func(_ context.Context, row Row) testAnswer {
			if seen.record(row.ID); fails {
				return testAnswer{RetryAt: now.Now().Add(time.Hour)}
			}
			return testAnswer{}
		})}, nil
	}}
	f := newFixture(t, now, kind)
	lane := f.open(t, "keyed")
	engine := NewEngine(f.lanes, f.db)
	at := func(key ids.Any) Row {
		now.Move(time.Millisecond)
		return Row{ID: ids.NewOrg(now.Now()).Any(), Key: key}
	}
	holder, parked, plain := at(held), at(held), at(ids.Any{})
	f.add(t, "keyed", lane, holder, parked)
	f.drainDue(t, engine)
	require.Equal(t, []ids.Any{holder.ID}, seen.all(), "the second of the key waits for the first")
	f.in(t, f.org, func(tx *postgres.Tx) error { return f.lanes.BlockTx(t.Context(), tx, lane, Forever()) })
	f.add(t, "keyed", lane, plain)
	f.drainDue(t, engine)

	now.Move(2 * time.Hour)
	young, last := at(held), at(ids.Any{})
	f.add(t, "keyed", lane, young, last)
	f.drainDue(t, engine)
	for range 2 {
		expired, err := f.lanes.Expire(t.Context(), "keyed", now.Now().Add(-3*time.Hour))
		require.NoError(t, err)
		require.Zero(t, expired, "nothing is old")
	}
	expired, err := f.lanes.Expire(t.Context(), "keyed", now.Now().Add(-30*time.Minute))
	require.NoError(t, err)
	require.Equal(t, 3, expired)
	require.Equal(t, 2, f.waiting(t))

	fails = false
	f.in(t, f.org, func(tx *postgres.Tx) error { return f.lanes.UnblockTx(t.Context(), tx, "keyed", lane) })
	f.drainDue(t, engine)
	require.ElementsMatch(t, []ids.Any{holder.ID, young.ID, last.ID}, seen.all())
	require.Zero(t, f.waiting(t))
}

// A row is discarded while it is being called and then fails: it does not come back, and the rows of its key go on.
func TestDiscard_RowInFlightFails_KeyGoesOn(t *testing.T) {
	t.Parallel()
	now := clock.NewManual(time.Now())
	seen := &callLog{}
	old := Row{ID: ids.NewOrg(now.Now()).Any(), Key: newID()}
	now.Move(time.Millisecond)
	limit := ids.NewOrg(now.Now()).Any()
	now.Move(time.Millisecond)
	young := Row{ID: ids.NewOrg(now.Now()).Any(), Key: old.Key}
	discard := func() error { return nil }
	f := newFixture(t, now, testKind{Name: "keyed", Workers: 4, Most: 4, Retries: Hold, Open: func(context.Context, Lane) (testWork, error) {
		return testWork{Call: func(_ context.Context, row Row, _ string) testAnswer {
			if seen.record(row.ID); row.ID != old.ID {
				return testAnswer{}
			}
			if err := discard(); err != nil {
				return testAnswer{}
			}
			return testAnswer{RetryAt: now.Now().Add(time.Hour)}
		}}, nil
	}})
	lane := f.open(t, "keyed")
	f.add(t, "keyed", lane, old, young)
	var discarded error
	discard = func() error {
		discarded = f.lanes.Discard(t.Context(), Lane{ID: lane, Org: f.org, Kind: "keyed"}, limit)
		return discarded
	}
	f.drainDue(t, NewEngine(f.lanes, f.db))
	require.NoError(t, discarded)
	require.Equal(t, []ids.Any{old.ID, young.ID}, seen.all())
	require.Zero(t, f.waiting(t))
	keys, err := postgres.One[int](t.Context(), f.db.System("test"), `SELECT count(*) FROM lane_keys`, nil)
	require.NoError(t, err)
	require.Zero(t, keys)
}

func TestExpire_LaneThatIsNotBlocked_KeepsItsRows(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clock.NewSynced(), noted(&callLog{}))
	f.fill(t, f.open(t, "noted"), 3)
	expired, err := f.lanes.Expire(t.Context(), "noted", f.clock.Now())
	require.NoError(t, err)
	require.Zero(t, expired)
	require.Equal(t, 3, f.waiting(t))
}
