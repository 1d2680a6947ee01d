package main

import (
	"context"
	"errors"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	denseLanes   = 100
	denseRows    = 150_000
	denseJobs    = 60_000
	sparseLanes  = 10_000
	drainWorkers = 200
	// bareWorkers and the two times beside it are what lets bare River go fastest here.
	bareWorkers  = 500
	bareCooldown = 2 * time.Millisecond
	barePoll     = 20 * time.Millisecond
)

// tally counts what is done, from the first to the last.
type tally struct {
	want int64
	done atomic.Int64
	from time.Time
	once sync.Once
	all  chan struct{}
}

func newTally(want int) *tally { return &tally{want: int64(want), all: make(chan struct{})} }

func (t *tally) count() {
	t.once.Do(func() { t.from = time.Now() })
	if t.done.Add(1) == t.want {
		close(t.all)
	}
}

// counted is a kind that does nothing but count, and the tally of the leg under way.
func counted(name string, perRow bool) (lanes.Kind, *atomic.Pointer[tally]) {
	current := &atomic.Pointer[tally]{}
	work := lanes.Work{Do: func(context.Context, lanes.Row) lanes.Result {
		current.Load().count()
		return lanes.Result{}
	}}
	return lanes.Kind{
		Name: name, PerRow: perRow, Workers: drainWorkers, Least: 4, Most: 32,
		Open: func(context.Context, lanes.Lane) (lanes.Work, error) { return work, nil },
	}, current
}

// sqlBusy tells that something is still to be done or to be written down as done.
const sqlBusy = `
SELECT EXISTS (SELECT FROM lane_rows) OR EXISTS (SELECT FROM lanes WHERE armed)
    OR EXISTS (SELECT FROM ` + jobs.Table + ` WHERE state = 'available') OR EXISTS (SELECT FROM ` + jobs.Table + ` WHERE state = 'running')`

var errNotDrained = errors.New("not drained within its time")

// drained waits for the last and returns how many were done in a second.
func (s *stage) drained(ctx context.Context, t *tally) (pace, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	select {
	case <-t.all:
	case <-ctx.Done():
		return 0, errNotDrained
	}
	for busy := true; busy; {
		var err error
		if busy, err = postgres.One[bool](ctx, s.adding.System("whether all is done"), sqlBusy, nil); err != nil {
			return 0, err
		}
		time.Sleep(time.Millisecond)
	}
	return pace(float64(t.want) / time.Since(t.from).Seconds()), nil
}

// drain starts to work on what was filled in and returns how fast it went. In a profile it
// is labelled, because filling in may take longer.
func (s *stage) drain(ctx context.Context, t *tally) (rate pace, err error) {
	if err := s.settleDown(ctx); err != nil {
		return 0, err
	}
	pprof.Do(ctx, pprof.Labels("phase", "drain"), func(ctx context.Context) {
		var stop func()
		if stop, err = s.work(); err != nil {
			return
		}
		defer stop()
		rate, err = s.drained(ctx, t)
	})
	return rate, err
}

// benchDrainDense drains lanes full of rows beside bare River's jobs, both doing nothing.
func benchDrainDense(ctx context.Context, given lanesOptions, figures *lanesFigures) error {
	kind, current := counted(laneKind, false)
	s, err := newStage(ctx, given.server, nil, kind)
	if err != nil {
		return err
	}
	defer s.stop()
	beside, err := newStage(ctx, given.server, nil)
	if err != nil {
		return err
	}
	defer beside.stop()
	shown, err := inTurn(ctx, "drain_dense",
		leg[pace]{ours, func(ctx context.Context) (pace, error) {
			places, err := s.open(ctx, laneKind, denseLanes, 1)
			if err != nil {
				return 0, err
			}
			each := max(1, given.many(denseRows)/denseLanes)
			current.Store(newTally(each * denseLanes))
			for _, to := range places {
				if err := s.fill(ctx, laneKind, to, each); err != nil {
					return 0, err
				}
			}
			return s.drain(ctx, current.Load())
		}},
		leg[pace]{"river", func(ctx context.Context) (pace, error) { return beside.drainBare(ctx, given.many(denseJobs)) }},
	)
	if err == nil {
		figures.DrainDense = ratioOf(shown[0], shown[1], perSecond)
	}
	return err
}

func (s *stage) drainBare(ctx context.Context, count int) (pace, error) {
	if _, err := s.open(ctx, "", 0, 0); err != nil {
		return 0, err
	}
	t := newTally(count)
	client, err := bareRiver(s.worked.Pool(), bareWorkers, bareCooldown, barePoll, func(ids.Any) { t.count() })
	if err != nil {
		return 0, err
	}
	if err := bareFill(ctx, client, count); err != nil {
		return 0, err
	}
	if err := s.settleDown(ctx); err != nil {
		return 0, err
	}
	if err := client.Start(ctx); err != nil {
		return 0, err
	}
	rate, err := s.drained(ctx, t)
	return rate, errors.Join(err, client.Stop(context.WithoutCancel(ctx)))
}

// benchDrainSparse drains lanes of one row each, where a lane saves nothing, beside one
// job for each row in the same hands.
func benchDrainSparse(ctx context.Context, given lanesOptions, figures *lanesFigures) error {
	kind, ofLanes := counted(laneKind, false)
	naive, ofRows := counted(perRowKind, true)
	s, err := newStage(ctx, given.server, nil, kind, naive)
	if err != nil {
		return err
	}
	defer s.stop()
	side := func(name, kind string, current *atomic.Pointer[tally]) leg[pace] {
		return leg[pace]{name, func(ctx context.Context) (pace, error) {
			places, err := s.open(ctx, kind, 100, max(1, given.many(sparseLanes)/100))
			if err != nil {
				return 0, err
			}
			current.Store(newTally(len(places)))
			var next atomic.Int64
			err = clients(fillClients, func(int) (bool, error) {
				at := int(next.Add(1)) - 1
				if at >= len(places) {
					return false, nil
				}
				return true, s.fill(ctx, kind, places[at], 1)
			})
			if err != nil {
				return 0, err
			}
			return s.drain(ctx, current.Load())
		}}
	}
	shown, err := inTurn(ctx, "drain_sparse", side(ours, laneKind, ofLanes), side("per row", perRowKind, ofRows))
	if err == nil {
		figures.DrainSparse = ratioOf(shown[0], shown[1], perSecond)
	}
	return err
}
