// Package app is the composition root: it imports every other part of the product, and only cmd
// imports it. It builds all services by hand, top to bottom.
package app

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/edge/api"
	"github.com/parley-chat/parley/internal/edge/callbacks"
	"github.com/parley-chat/parley/internal/edge/onboarding"
	"github.com/parley-chat/parley/internal/edge/reference"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/ratelimit"
	"github.com/parley-chat/parley/internal/platform/sealed"
	"github.com/parley-chat/parley/internal/platform/telemetry"
	"github.com/parley-chat/parley/openapi"
)

// Version is the version of the program. The contract has a version of its own.
const Version = "0.1.0"

// App is a process: its cells, the API and the callback ingress that it serves.
type App struct {
	config   Config
	logger   *slog.Logger
	metrics  *telemetry.Metrics
	cells    *Cells
	redis    redis.UniversalClient
	limiter  *ratelimit.Limiter
	api      http.Handler
	ingress  http.Handler
	setup    http.Handler
	docs     http.Handler
	public   net.Listener
	media    net.Listener
	draining atomic.Bool

	stopTracing func(context.Context) error
}

// Options are what is no setting.
type Options struct {
	// Tracers see every SQL statement; only tests use them.
	Tracers []pgx.QueryTracer
	// Public is where the API listens; nil listens on PARLEY_LISTEN.
	Public net.Listener
	// Media is where the media host listens; nil listens on PARLEY_MEDIA_LISTEN.
	Media net.Listener
	// Patience multiplies the waits for connections and the deadlines of requests. Default: 1.
	Patience int
}

const (
	// requestsPerConnection is how many requests may wait for each database connection.
	requestsPerConnection = 64
	// connectionsPerList is how many connections there are for each list that an organization may run at once: worst
	// lists keep a core of the database busy.
	connectionsPerList = 16
	redisBudget        = 50 * time.Millisecond
	traceFlush         = 5 * time.Second
)

// guessLimit is how many bad keys one address may try.
var guessLimit = ratelimit.Limit{PerSecond: 1, Burst: 60} //nolint:gochecknoglobals // a constant

// New builds the process. It does not wait for databases: a process starts while they are down.
func New(ctx context.Context, config Config, logger *slog.Logger, options Options) (*App, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	ring, err := config.Keyring()
	if err != nil {
		return nil, err
	}
	a := &App{config: config, logger: logger, metrics: telemetry.NewMetrics(Version), public: options.Public, media: options.Media}
	tracer, tracers, err := a.startTracing(ctx, options.Tracers)
	if err != nil {
		return nil, err
	}
	a.cells, err = OpenCells(ctx, config, CellsConfig{
		Conns: config.DatabaseConns, AcquireWait: time.Duration(options.Patience) * time.Second, KeyFirst: true, Logger: logger, Tracers: tracers,
	})
	if err != nil {
		return nil, err
	}
	served := map[string]*cell.Cell{}
	for name, open := range a.cells.all {
		open.register(a.metrics.Registerer())
		served[name] = open.Cell
	}
	if config.RedisURL != "" {
		if a.redis, err = ratelimit.Connect(config.RedisURL.Reveal(), redisBudget); err != nil {
			return nil, err
		}
	}
	a.limiter = ratelimit.New(ratelimit.Options{
		Redis: a.redis, Clock: a.cells.clock, Budget: redisBudget, Logger: logger, Registerer: a.metrics.Registerer(),
	})
	cursors, err := paging.NewCursors(ring)
	if err != nil {
		return nil, err
	}
	contract, err := openapi.Load()
	if err != nil {
		return nil, err
	}
	a.api, err = api.New(api.Deps{
		Cells: served, Directory: a.cells.Directory, Contract: contract, Clock: a.cells.clock, Cursors: cursors,
		Limiter: a.limiter, Guesses: ratelimit.NewLocal(guessLimit, a.cells.clock),
		Metrics: a.metrics, Logger: logger, Tracer: tracer, TrustedProxies: config.TrustedProxies, PublicURL: config.PublicURL, Version: Version,
		MaxInFlight: int(config.DatabaseConns) * requestsPerConnection,
		ListsPerOrg: int(config.DatabaseConns) / connectionsPerList,
		Patience:    options.Patience,
	})
	if err != nil {
		return nil, err
	}
	if err := a.buildPages(served, ring); err != nil {
		return nil, err
	}
	ingress := a.cells.Ingress(logger, config.TrustedProxies...)
	a.metrics.Registerer().MustRegister(ingress)
	a.ingress = ingress
	if config.LogTraffic {
		a.ingress = logCallbacks(ingress, a.cells.Provider, logger)
	}
	return a, nil
}

// buildPages builds what people open in a browser: the pages behind setup links, and the reference.
func (a *App) buildPages(served map[string]*cell.Cell, ring *sealed.Keyring) (err error) {
	a.setup, err = onboarding.New(onboarding.Deps{
		Cells: served, Directory: a.cells.Directory, Clock: a.cells.clock, Ring: ring, Guesses: ratelimit.NewLocal(guessLimit, a.cells.clock),
		Logger: a.logger, PublicURL: a.config.PublicURL, TrustedProxies: a.config.TrustedProxies,
	})
	if err != nil {
		return err
	}
	a.docs, err = reference.New()
	return err
}

// Cells are the cells of this process.
func (a *App) Cells() *Cells { return a.cells }

// Handler serves the public API and its reference, the provider's callbacks and the pages behind setup links.
func (a *App) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == callbacks.Path:
			a.ingress.ServeHTTP(w, r)
		case strings.HasPrefix(r.URL.Path, onboarding.Prefix):
			a.setup.ServeHTTP(w, r)
		case r.URL.Path == reference.Path || strings.HasPrefix(r.URL.Path, reference.Path+"/"):
			a.docs.ServeHTTP(w, r)
		default:
			a.api.ServeHTTP(w, r)
		}
	})
}

// Close closes every connection.
func (a *App) Close() {
	a.limiter.Close()
	if a.redis != nil {
		_ = a.redis.Close()
	}
	a.cells.Close()
	ctx, cancel := context.WithTimeout(context.Background(), traceFlush)
	defer cancel()
	if err := a.stopTracing(ctx); err != nil {
		a.logger.ErrorContext(ctx, "traces.lost", "error", err)
	}
}
