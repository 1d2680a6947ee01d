package app

import (
	"context"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/parley-chat/parley/internal/platform/telemetry"
)

// startTracing traces requests and statements when the environment names an exporter. Otherwise it
// returns a nil tracer.
func (a *App) startTracing(ctx context.Context, tracers []pgx.QueryTracer) (trace.Tracer, []pgx.QueryTracer, error) {
	provider, stop, err := telemetry.StartTracing(ctx, a.config.getenv, "parley", Version)
	if err != nil {
		return nil, nil, err
	}
	a.stopTracing = stop
	if _, off := provider.(noop.TracerProvider); off {
		return nil, tracers, nil
	}
	statements := otelpgx.NewTracer(otelpgx.WithTracerProvider(provider))
	return provider.Tracer("parley"), append(tracers, statements), nil
}

// register registers the metrics of the cell's pool, API log and background work.
func (c *Cell) register(registerer prometheus.Registerer) {
	factory := promauto.With(prometheus.WrapRegistererWith(prometheus.Labels{"cell": c.Name}, registerer))
	gauge := func(name, help string, value func() float64) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	counter := func(name, help string, value func() float64) {
		factory.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value)
	}
	gauge("parley_database_connections_in_use", "Connections that a request or a job holds.",
		func() float64 { return float64(c.DB.Stat().AcquiredConns()) })
	gauge("parley_database_connections", "Connections open.",
		func() float64 { return float64(c.DB.Stat().TotalConns()) })
	counter("parley_database_acquire_waits_total", "Times that no connection was free at once.",
		func() float64 { return float64(c.DB.Stat().EmptyAcquireCount()) })
	counter("parley_database_acquire_wait_seconds_total", "Time spent waiting for a connection.",
		func() float64 { return c.DB.Stat().EmptyAcquireWaitTime().Seconds() })
	gauge("parley_expiry_halted", "1 while nothing expires because the clock is ahead.", func() float64 {
		if c.expiry.Halted() {
			return 1
		}
		return 0
	})
	counter("parley_apilog_dropped_total", "API log entries lost because the database was down.",
		func() float64 { return float64(c.Logs.Dropped()) })
	prometheus.WrapRegistererWith(prometheus.Labels{"cell": c.Name}, registerer).MustRegister(&c.workMetrics)
}
