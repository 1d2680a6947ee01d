package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	healthyLanes    = 98
	healthyTakes    = 2 * time.Millisecond
	flatOut         = 1_000_000 // rows/s that nothing reaches
	isolationWarm   = 2 * time.Second
	isolationSpan   = 6 * time.Second
	capacitySpan    = 3 * time.Second
	deadRows        = 100_000
	deadTakes       = 10 * time.Second
	slowRows        = 300
	slowTakes       = 5 * time.Second
	isolationWorker = 100
	isolationSlow   = 20
)

type isolationFigures struct {
	Throughput      float64 `json:"throughput"`
	P99             float64 `json:"p99"`
	NaiveThroughput float64 `json:"naive_throughput"`
	NaiveP99        float64 `json:"naive_p99"`
}

// health is how the healthy lanes fare.
type health struct {
	throughput float64
	spread
}

func (h health) String() string { return fmt.Sprintf("%.0f/s, %s", h.throughput, h.spread) }

// isolation is the leg under way.
type isolation struct {
	dead, slow ids.Any
	seen       *meter
	over       chan struct{}
}

// benchIsolation measures what a dead and a slow lane do to healthy ones.
func benchIsolation(ctx context.Context, given lanesOptions, figures *lanesFigures) error {
	var current atomic.Pointer[isolation]
	s, err := newStage(ctx, given.server, nil, mixed(laneKind, false, &current), mixed(perRowKind, true, &current))
	if err != nil {
		return err
	}
	defer s.stop()
	rate := flatOut
	for _, kind := range []string{laneKind, perRowKind} {
		most, err := s.healthOf(ctx, healthyRun{kind: kind, rate: flatOut, span: given.lasting(capacitySpan)}, &current)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stdout, "isolation: healthy lanes reach %.0f/s by kind %s\n", most.throughput, kind)
		rate = min(rate, max(1, int(most.throughput/2)))
	}
	side := func(name, kind string, troubled bool) leg[health] {
		return leg[health]{name, func(ctx context.Context) (health, error) {
			run := healthyRun{kind: kind, troubled: troubled, rate: rate, span: given.lasting(isolationSpan)}
			return s.healthOf(ctx, run, &current)
		}}
	}
	shown, err := inTurn(ctx, "isolation",
		side(ours, laneKind, true), side("ours untroubled", laneKind, false),
		side("naive", perRowKind, true), side("naive untroubled", perRowKind, false))
	if err != nil {
		return err
	}
	throughput, p99 := func(h health) float64 { return h.throughput }, func(h health) float64 { return h.p99 }
	figures.Isolation = &isolationFigures{
		Throughput: *ratioOf(shown[0], shown[1], throughput), P99: *ratioOf(shown[0], shown[1], p99),
		NaiveThroughput: *ratioOf(shown[2], shown[3], throughput), NaiveP99: *ratioOf(shown[2], shown[3], p99),
	}
	return nil
}

// mixed is a kind whose lanes are healthy, dead or slow.
func mixed(name string, perRow bool, current *atomic.Pointer[isolation]) lanes.Kind {
	return lanes.Kind{
		Name: name, PerRow: perRow, Workers: isolationWorker, SlowWorkers: isolationSlow, Least: 4, Most: 32, Timeout: 12 * time.Second,
		Open: func(_ context.Context, lane lanes.Lane) (lanes.Work, error) {
			i := current.Load()
			switch lane.ID {
			case i.dead:
				return lanes.Work{Do: i.doDead}, nil
			case i.slow:
				return lanes.Work{Do: i.doSlow}, nil
			default:
				return lanes.Work{Do: i.doHealthy}, nil
			}
		},
	}
}

func (i *isolation) doHealthy(_ context.Context, row lanes.Row) lanes.Result {
	time.Sleep(healthyTakes)
	i.seen.reach(row.ID, time.Now())
	return lanes.Result{}
}

func (i *isolation) doDead(ctx context.Context, _ lanes.Row) lanes.Result {
	i.sleep(ctx, deadTakes)
	return lanes.Result{RetryAt: time.Now().Add(time.Hour), Overloaded: true}
}

func (i *isolation) doSlow(ctx context.Context, _ lanes.Row) lanes.Result {
	i.sleep(ctx, slowTakes)
	return lanes.Result{}
}

// sleep ends with the leg, so that the next need not wait.
func (i *isolation) sleep(ctx context.Context, takes time.Duration) {
	select {
	case <-time.After(takes):
	case <-ctx.Done():
	case <-i.over:
	}
}

// healthyRun is how healthy lanes are fed.
type healthyRun struct {
	kind     string
	troubled bool
	rate     int
	span     time.Duration
}

// healthOf runs healthy lanes for a while, beside a dead and a slow one if so asked.
func (s *stage) healthOf(ctx context.Context, run healthyRun, current *atomic.Pointer[isolation]) (health, error) {
	places, err := s.open(ctx, run.kind, healthyLanes+2, 1)
	if err != nil {
		return health{}, err
	}
	healthy, dead, slow := places[:healthyLanes], places[healthyLanes], places[healthyLanes+1]
	i := &isolation{dead: dead.lane, slow: slow.lane, seen: newMeter(), over: make(chan struct{})}
	current.Store(i)
	if run.troubled {
		if err := s.fill(ctx, run.kind, dead, deadRows); err != nil {
			return health{}, err
		}
		if err := s.fill(ctx, run.kind, slow, slowRows); err != nil {
			return health{}, err
		}
	}
	if err := s.settleDown(ctx); err != nil {
		return health{}, err
	}
	stop, err := s.work()
	if err != nil {
		return health{}, err
	}
	defer func() {
		close(i.over)
		stop()
	}()
	return s.feedHealthy(ctx, run, healthy, i)
}

func (s *stage) feedHealthy(ctx context.Context, run healthyRun, healthy []place, i *isolation) (health, error) {
	from := time.Now().Add(isolationWarm)
	err := feed(ctx, run.rate, isolationWarm+run.span, func() error {
		to, row := healthy[rand.IntN(len(healthy))], newRow() //nolint:gosec // only spreads
		return s.in(ctx, to.org, func(tx *postgres.Tx) error {
			tx.AfterCommit(func() { i.seen.add(row.ID, time.Now()) })
			return s.lanes.AddTx(ctx, tx, run.kind, to.lane, row)
		})
	})
	if err != nil {
		return health{}, err
	}
	until := time.Now()
	i.seen.wait(time.Second)
	shown, err := spreadOf(i.seen.delays(from, until))
	return health{throughput: float64(i.seen.reachedIn(from, until)) / until.Sub(from).Seconds(), spread: shown}, err
}
