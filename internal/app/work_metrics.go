package app

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/telemetry"
)

// workMetrics are the metrics of a cell's background work. All are nil in a process that does none.
type workMetrics struct {
	runner  atomic.Pointer[jobs.Runner]
	engine  atomic.Pointer[lanes.Engine]
	backlog atomic.Pointer[backlog]
}

// backlog is the standing of jobs and lanes at a time.
type backlog struct {
	jobs  jobs.Standing
	lanes []lanes.Standing
	at    time.Time
}

const backlogEvery = 10 * time.Second

// work drains lanes and works jobs until ctx ends, then waits for those that are running. On hold it drains only the
// lanes that neither send nor deliver, and works no job. watch runs beside it.
func (c *Cell) work(ctx context.Context, held bool, watch func(), logger *slog.Logger) error {
	set := jobs.NewSet()
	engine, lookAfter := lanes.NewEngine(c.Lanes, c.workDB), c.LookAfter
	if held {
		engine, lookAfter = lanes.NewEngineOnHold(c.Lanes, c.workDB), c.LookAfterOnHold
		set.Leave(jobs.Maintenance)
	}
	engine.Handle(set)
	c.Handle(set)
	runner, err := jobs.NewRunner(c.workDB, c.clock, logger, set)
	if err != nil {
		return err
	}
	c.runner.Store(runner)
	c.engine.Store(engine)
	var tasks sync.WaitGroup
	tasks.Go(watch)
	tasks.Go(func() { engine.Run(ctx) })
	tasks.Go(func() { c.keepChecking(ctx, lookAfter, logger) })
	repeating := telemetry.Repeating(logger)
	tasks.Go(func() { every(ctx, backlogEvery, func() { c.readBacklog(ctx, repeating) }) })
	if err := runner.Run(ctx); err != nil {
		logger.ErrorContext(ctx, "jobs.not_stopped", "cell", c.Name, "error", err)
	}
	tasks.Wait()
	return nil
}

// readBacklog reads for the metrics how long jobs and rows have waited, how many lanes have waiting rows,
// and how many jobs and rows were set aside.
func (c *Cell) readBacklog(ctx context.Context, logger *slog.Logger) {
	now := c.clock.Now()
	queued, err := c.Jobs.Standing(ctx, now)
	if err != nil {
		logger.WarnContext(ctx, "jobs.unknown_standing", "cell", c.Name, "error", err)
		return
	}
	waiting, err := c.Lanes.Standing(ctx)
	if err != nil {
		logger.WarnContext(ctx, "lanes.unknown_standing", "cell", c.Name, "error", err)
		return
	}
	c.backlog.Store(&backlog{jobs: queued, lanes: waiting, at: now})
}

// Describe describes nothing: Prometheus then takes any metrics that Collect returns.
func (m *workMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect returns the metrics of the work in this process, and of the backlog as last read.
func (m *workMetrics) Collect(metrics chan<- prometheus.Metric) {
	tell := func(kind prometheus.ValueType, name, help string, value float64, label ...string) {
		names := []string{"kind"}[:len(label)]
		metrics <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, nil), kind, value, label...)
	}
	if runner := m.runner.Load(); runner != nil {
		tell(prometheus.GaugeValue, "parley_jobs_busy", "Jobs being worked.", float64(runner.Busy()))
		tell(prometheus.CounterValue, "parley_jobs_rescued_total", "Jobs begun again after their process died.", float64(runner.Rescued()))
	}
	if engine := m.engine.Load(); engine != nil {
		counts := engine.Counts()
		tell(prometheus.GaugeValue, "parley_lanes_busy", "Lanes being drained.", float64(counts.Busy))
		tell(prometheus.CounterValue, "parley_lane_rows_total", "Rows settled.", float64(counts.Rows))
		tell(prometheus.CounterValue, "parley_lanes_taken_over_total", "Lanes taken from a drainer that died.", float64(counts.TakenOver))
		tell(prometheus.CounterValue, "parley_lane_hand_overs_failed_total", "Failures to hand rows that were set aside to their kind.",
			float64(counts.Unhanded))
	}
	waiting := m.backlog.Load()
	if waiting == nil {
		return
	}
	tell(prometheus.GaugeValue, "parley_jobs_oldest_due_seconds", "How long the oldest due job has waited.",
		age(waiting.jobs.OldestDue, waiting.at))
	tell(prometheus.GaugeValue, "parley_jobs_set_aside", "Jobs set aside until an operator retries them.", float64(waiting.jobs.Aside))
	for _, kind := range waiting.lanes {
		tell(prometheus.GaugeValue, "parley_lanes_oldest_due_seconds", "How long the oldest due row has waited in a lane that is not blocked.",
			age(kind.OldestDue, waiting.at), kind.Kind)
		tell(prometheus.GaugeValue, "parley_lanes_waiting", "Lanes with waiting rows.", float64(kind.LanesWaiting), kind.Kind)
		tell(prometheus.GaugeValue, "parley_lane_rows_set_aside", "Rows set aside until an operator retries them.",
			float64(kind.Aside), kind.Kind)
	}
}

func age(since *time.Time, now time.Time) float64 {
	if since == nil {
		return 0
	}
	return max(0, now.Sub(*since).Seconds())
}
