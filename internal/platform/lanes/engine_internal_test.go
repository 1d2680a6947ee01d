package lanes

import (
	"context"
	"fmt"
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
func TestEngine_LateClaim_OwnerIsStillNudged(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clock.NewSynced(), doing(nil))
	engine := NewEngine(f.lanes, f.db)
	lane := wake{Lane: Lane{ID: newID(), Org: f.org, Kind: "test"}, token: 1}
	crew := engine.crews[crewOf{"test", false}]
	enter := func() *session {
		crew.busy <- struct{}{}
		return engine.enter(f.lanes.kinds["test"], lane, crew)
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
func TestTake_LateClaimInSameStatement_OwnerKeepsLane(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clock.NewSynced(), doing(nil))
	engine := NewEngine(f.lanes, f.db)
	lane := f.open(t, "test")
	f.add(t, "test", lane, rows(1)...)
	token, err := postgres.One[int64](t.Context(), f.db.System("test"), `SELECT token FROM lanes WHERE lane_id = @lane`, postgres.Args{"lane": lane})
	require.NoError(t, err)
	ask := func(claims ...claim) (owned []bool) {
		requests := make([]takeRequest, len(claims))
		for i, how := range claims {
			requests[i] = takeRequest{lane: lane, token: token, claim: how, limit: 1, priorities: priorities}
		}
		answers, err := engine.take(t.Context(), requests)
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
func TestEngine_Stop_WaitsForEnteredSessions(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clock.NewSynced(), doing(nil))
	engine := NewEngine(f.lanes, f.db)
	crew := engine.crews[crewOf{"test", false}]
	enter := func() *session {
		crew.busy <- struct{}{}
		return engine.enter(f.lanes.kinds["test"], wake{Lane: Lane{ID: newID(), Org: f.org, Kind: "test"}, token: 1}, crew)
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

// Lanes of an organization that is over its share wait although workers are free. A lane of another organization need not end
// its turn for them.
func TestEngine_LanesOverTheirShareWait_OthersGoOn(t *testing.T) {
	t.Parallel()
	kind := doing(nil)
	kind.Workers = 16
	f := newFixture(t, clock.NewSynced(), kind)
	engine := NewEngine(f.lanes, f.db)
	crew := engine.crews[crewOf{"test", false}]
	enter := func(org ids.Org) *session {
		crew.busy <- struct{}{}
		s := engine.enter(f.lanes.kinds["test"], wake{Lane: Lane{ID: newID(), Org: org, Kind: "test"}, token: 1}, crew)
		require.NotNil(t, s)
		return s
	}
	var large *session
	for range 8 {
		large = enter(f.org)
	}
	small := enter(ids.NewOrg(time.Now()))
	require.False(t, engine.awaited(large), "no lane waits")
	crew.waiting.Add(1)
	require.True(t, engine.awaited(large))
	require.False(t, engine.awaited(small))
	for range 7 {
		enter(ids.NewOrg(time.Now()))
	}
	require.True(t, engine.awaited(small), "all workers are busy")
}

// A job is over only when its lane has an owner: if the database is away just then it comes
// back, or the lane would rest until the watchdog finds it.
func TestEngine_ClaimFails_JobComesBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t, clock.NewSynced(), doing(nil))
	engine := NewEngine(f.lanes, f.db)
	engine.takes = together.New(1, 1, func(context.Context, []takeRequest) ([]taken, error) { return nil, errPlanned })
	s, err := engine.woken(t.Context(), 1, wakeArgs{Lane: newID(), Org: f.org, Of: "test"})
	require.Nil(t, s)
	require.Equal(t, jobs.Later(lanePoll), err)
	require.Empty(t, engine.crews[crewOf{"test", false}].busy)
	engine.takes = together.New(1, 1, engine.take)
	s, err = engine.woken(t.Context(), 1, wakeArgs{Lane: newID(), Org: f.org, Of: "test"})
	require.Nil(t, s)
	require.NoError(t, err, "somebody else has it")
}

func TestOpen_BusyLane_OpenedAgainInPlace(t *testing.T) {
	t.Parallel()
	var opened atomic.Int64
	kind := testKind{Name: "test", Workers: 4, Least: 4, Most: 8, Open: func(context.Context, Lane) (testWork, error) {
		mine := fmt.Sprintf("%06d", opened.Add(1))
		return testWork{
			Call: calling(func(context.Context, Row) testAnswer { return testAnswer{Value: mine} }),
			Settle: func(_ context.Context, _ *postgres.Tx, batch *testBatch) error {
				for _, result := range batch.Results {
					assert.LessOrEqual(t, result.Value, mine, "functions that were replaced settle nothing that began later")
				}
				return nil
			},
		}, nil
	}}
	f := newFixture(t, clock.NewSynced(), kind)
	f.work(t)
	lane := f.open(t, "test")
	f.add(t, "test", lane, rows(3*openFor*sliceRows+sliceRows)...) // a turn on a slow machine takes more than sliceRows
	eventually(t, "all rows", func() bool { return f.idle(t) })
	assert.GreaterOrEqual(t, opened.Load(), int64(3), "what a busy lane works by does not age for ever")
	woken, err := postgres.One[int64](t.Context(), f.db.System("test"), `SELECT pg_sequence_last_value('river.river_job_id_seq')`, nil)
	require.NoError(t, err)
	assert.Less(t, woken, opened.Load(), "nobody else waits: it needs no new wake-up")
}

// With a provider that takes a second, each number would stand still for that long every few seconds.
func TestOpen_AgainWhileACallIsUnderWay_RowsGoOn(t *testing.T) {
	t.Parallel()
	var opened, settled atomic.Int64
	all := rows(3*openFor*sliceRows + sliceRows)
	f := newFixture(t, clock.NewSynced(), testKind{Name: "test", Least: 4, Most: 8, Timeout: time.Hour, Open: func(context.Context, Lane) (testWork, error) {
		opened.Add(1)
		return testWork{
			Call: calling(func(_ context.Context, row Row) testAnswer {
				for row.ID == all[0].ID && opened.Load() < 3 {
					time.Sleep(time.Millisecond)
				}
				return testAnswer{}
			}),
			Settle: func(_ context.Context, _ *postgres.Tx, batch *testBatch) error {
				settled.Add(int64(len(batch.Results)))
				return nil
			},
		}, nil
	}})
	f.work(t)
	f.add(t, "test", f.open(t, "test"), all...)
	eventually(t, "all rows, the first of which waits until the lane was opened again twice", func() bool { return f.idle(t) })
	assert.Equal(t, int64(len(all)), settled.Load())
}

// A kind whose row is gone has no functions: what was begun before is settled nevertheless.
func TestOpen_AgainAndGone_BegunRowsAreSettled(t *testing.T) {
	t.Parallel()
	var opened, settled, begun atomic.Int64
	f := newFixture(t, clock.NewSynced(), testKind{Name: "test", Least: 4, Most: 8, Open: func(context.Context, Lane) (testWork, error) {
		if opened.Add(1) > 1 {
			return testWork{}, nil
		}
		return testWork{
			Begin: func(_ context.Context, tx *postgres.Tx, tasks []*testTask) error {
				tx.AfterCommit(func() { begun.Add(int64(len(tasks))) })
				return nil
			},
			Call: calling(func(context.Context, Row) testAnswer { return testAnswer{} }),
			Settle: func(_ context.Context, tx *postgres.Tx, batch *testBatch) error {
				tx.AfterCommit(func() { settled.Add(int64(len(batch.Results))) })
				return nil
			},
		}, nil
	}})
	f.work(t)
	f.add(t, "test", f.open(t, "test"), rows(2*openFor*sliceRows)...)
	eventually(t, "all rows", func() bool { return f.idle(t) })
	assert.Greater(t, opened.Load(), int64(1))
	assert.Equal(t, begun.Load(), settled.Load())
}

func TestOpen_Fails_TriedLater(t *testing.T) {
	t.Parallel()
	var opened, done atomic.Int64
	f := newFixture(t, clock.NewSynced(), testKind{Name: "test", Workers: 4, Least: 4, Most: 8, Open: func(context.Context, Lane) (testWork, error) {
		if tries := opened.Add(1); tries == 1 || tries == 3 {
			return testWork{}, errPlanned
		}
		return testWork{Call: calling(func(context.Context, Row) testAnswer {
			done.Add(1)
			return testAnswer{}
		})}, nil
	}})
	f.work(t)
	all := rows(3*openFor*sliceRows + sliceRows)
	f.add(t, "test", f.open(t, "test"), all...)
	eventually(t, "all rows", func() bool { return f.idle(t) })
	assert.Equal(t, int64(len(all)), done.Load())
	assert.GreaterOrEqual(t, opened.Load(), int64(4))
}
