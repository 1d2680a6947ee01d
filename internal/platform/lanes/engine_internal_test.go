package lanes

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/together"
)

// Two may ask for the same wake-up, who armed the lane and who fetched its job. The one that
// comes too late must not take the other's name off the list: it would learn of new rows
// only when it looks for itself.
func TestADrainerIsToldOfRowsAfterAnotherCameTooLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clock.NewSynced(), doing(nil))
	engine := NewEngine(w.lanes, w.db)
	lane := wake{Lane: Lane{ID: newID(), Org: w.org, Kind: "test"}, token: 1}
	crew := engine.crews[crewOf{"test", false}]
	enter := func() *drain {
		crew.busy <- struct{}{}
		return engine.enter(w.lanes.kinds["test"], lane, crew)
	}
	owner, late := enter(), enter()
	engine.leave(late)
	engine.offer(nil, []ids.Any{lane.ID})
	require.Len(t, owner.nudged, 1)
	engine.leave(owner)
	require.Empty(t, engine.byLane)
	require.Empty(t, engine.byOrg)
}

// Whoever comes too late may be answered by the same statement as the owner, who must not
// lose the lane by it: nobody would have it then.
func TestAnOwnerKeepsItsLaneWhenAnotherComesTooLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clock.NewSynced(), doing(nil))
	engine := NewEngine(w.lanes, w.db)
	lane := w.open(t, "test")
	w.add(t, "test", lane, rows(1)...)
	token, err := postgres.One[int64](t.Context(), w.db.System("test"), `SELECT token FROM lanes WHERE lane_id = @lane`, postgres.Args{"lane": lane})
	require.NoError(t, err)
	ask := func(claims ...claim) (owned []bool) {
		questions := make([]takeQuestion, len(claims))
		for i, how := range claims {
			questions[i] = takeQuestion{lane: lane, token: token, claim: how, limit: 1, priorities: 1}
		}
		answers, err := engine.take(t.Context(), questions)
		require.NoError(t, err)
		for _, answer := range answers {
			owned = append(owned, answer.owned)
		}
		return owned
	}
	require.Equal(t, []bool{true, false}, ask(unfetched, unfetched), "one of them gets it")
	for _, late := range []claim{unfetched, fetched} {
		require.Equal(t, []bool{true, false}, ask(owned, late))
		require.Equal(t, []bool{false, true}, ask(late, owned))
		require.Equal(t, []bool{false}, ask(late))
	}
}

// A process that stops waits also for who has entered and has not begun yet; whoever comes
// after that is sent away.
func TestTheEngineWaitsForWhoHasEntered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clock.NewSynced(), doing(nil))
	engine := NewEngine(w.lanes, w.db)
	crew := engine.crews[crewOf{"test", false}]
	enter := func() *drain {
		crew.busy <- struct{}{}
		return engine.enter(w.lanes.kinds["test"], wake{Lane: Lane{ID: newID(), Org: w.org, Kind: "test"}, token: 1}, crew)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		engine.Run(ctx)
		close(ended)
	}()
	entered := enter()
	stop()
	<-engine.stopping
	require.Nil(t, enter())
	select {
	case <-ended:
		t.Fatal("it did not wait")
	case <-time.After(200 * time.Millisecond):
	}
	engine.leave(entered)
	<-ended
}

// A job is over only when its lane has an owner: if the database is away just then it comes
// back, or the lane would rest until the watchdog finds it.
func TestAJobWhoseLaneCannotBeClaimedComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clock.NewSynced(), doing(nil))
	engine := NewEngine(w.lanes, w.db)
	engine.takes = together.New(1, 1, func(context.Context, []takeQuestion) ([]taken, error) { return nil, errPlanned })
	d, err := engine.woken(t.Context(), 1, wakeArgs{Lane: newID(), Org: w.org, Of: "test"})
	require.Nil(t, d)
	require.Equal(t, jobs.Later(lanePoll), err)
	require.Empty(t, engine.crews[crewOf{"test", false}].busy)
	engine.takes = together.New(1, 1, engine.take)
	d, err = engine.woken(t.Context(), 1, wakeArgs{Lane: newID(), Org: w.org, Of: "test"})
	require.Nil(t, d)
	require.NoError(t, err, "somebody else has it")
}

func TestABusyLaneIsOpenedAgainByTheSameDrainer(t *testing.T) {
	t.Parallel()
	var opened atomic.Int64
	kind := Kind{Name: "test", Workers: 4, Least: 4, Most: 8, Open: func(context.Context, Lane) (Work, error) {
		mine := opened.Add(1)
		return Work{
			Do: func(context.Context, Row) Result { return Result{Value: mine} },
			Settle: func(_ context.Context, _ *postgres.Tx, batch *Batch) error {
				for _, result := range batch.Results {
					assert.Equal(t, mine, result.Value, "rows are settled by the work that did them")
				}
				return nil
			},
		}, nil
	}}
	w := newWorld(t, clock.NewSynced(), kind)
	w.work(t)
	lane := w.open(t, "test")
	w.add(t, "test", lane, rows(2*openFor*sliceRows+sliceRows)...)
	eventually(t, "all rows", func() bool { return w.idle(t) })
	assert.GreaterOrEqual(t, opened.Load(), int64(3), "what a busy lane works by does not age for ever")
	woken, err := postgres.One[int64](t.Context(), w.db.System("test"), `SELECT pg_sequence_last_value('river.river_job_id_seq')`, nil)
	require.NoError(t, err)
	assert.Less(t, woken, opened.Load(), "nobody else waits: it needs no new wake-up")
}

func TestALaneThatCannotBeOpenedAgainIsTriedLater(t *testing.T) {
	t.Parallel()
	var opened, done atomic.Int64
	w := newWorld(t, clock.NewSynced(), Kind{Name: "test", Workers: 4, Least: 4, Most: 8, Open: func(context.Context, Lane) (Work, error) {
		if opened.Add(1) == 2 {
			return Work{}, errPlanned
		}
		return Work{Do: func(context.Context, Row) Result {
			done.Add(1)
			return Result{}
		}}, nil
	}})
	w.work(t)
	all := rows((openFor + 1) * sliceRows)
	w.add(t, "test", w.open(t, "test"), all...)
	eventually(t, "all rows", func() bool { return w.idle(t) })
	assert.Equal(t, int64(len(all)), done.Load())
	assert.GreaterOrEqual(t, opened.Load(), int64(3))
}

func TestPace_OutlivesOpening(t *testing.T) {
	t.Parallel()
	var d drain
	d.setPace(1)
	require.Zero(t, d.pace())
	d.setPace(2)
	require.Positive(t, d.pace(), "what was started before still counts")
	d.setPace(0)
	require.Nil(t, d.limiter)
}
