package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// The limits of a connection. TLS ends in front of us, and HTTP/2 with it.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 60 * time.Second
	maxHeaderBytes    = 16 << 10
	// lameDuck is how long a stopping process still answers, so that who balances the load
	// sees in /readyz that it should go elsewhere.
	lameDuck = time.Second
	// stopTimeout is longer than a request with its commit may take.
	stopTimeout = 25 * time.Second
)

func (a *App) server(handler http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		Protocols:         protocols,
		ErrorLog:          slog.NewLogLogger(a.logger.Handler(), slog.LevelWarn),
		// OPTIONS * is a request like any other.
		DisableGeneralOptionsHandler: true,
	}
}

// Roles says what a process does.
type Roles struct {
	Serve bool
	Work  bool
	// Ready is called with the address of the API once it accepts requests.
	Ready func(address string)
}

// Run does what the roles say until ctx ends, then stops in order: readiness, new
// requests, requests in flight, background work, logs, the operator's listener, connections.
func (a *App) Run(ctx context.Context, roles Roles) error {
	defer a.Close()
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBackground()
	operator, stopOperator := context.WithCancel(background)
	defer stopOperator()
	// The operator's listener is open before the API is: who sees one may ask the other.
	health, err := a.open(ctx, a.config.OperatorListen)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.answer(operator, health, a.operator()) })
	group.Go(func() error {
		defer stopOperator()
		defer a.keepCells(background, stopBackground, roles.Work)()
		for _, finding := range unknownSettings(a.config.environment) {
			a.logger.WarnContext(ctx, "setting.unknown", "found", finding.Found)
		}
		a.logger.InfoContext(ctx, "process.started", "version", Version, "serve", roles.Serve, "work", roles.Work)
		if !roles.Serve {
			<-ctx.Done()
			return nil
		}
		public, err := a.open(ctx, a.config.Listen)
		if err != nil {
			return err
		}
		if roles.Ready != nil {
			roles.Ready(public.Addr().String())
		}
		return a.answer(a.lameDuck(ctx), public, a.Handler())
	})
	err = group.Wait()
	a.logger.InfoContext(context.WithoutCancel(ctx), "process.stopped")
	return err
}

// lameDuck ends a little after ctx does, and says meanwhile that it will.
func (a *App) lameDuck(ctx context.Context) context.Context {
	late, end := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		a.draining.Store(true)
		if !a.config.Dev {
			time.Sleep(lameDuck)
		}
		end()
	})
	return late
}

// keepCells starts what runs beside requests and returns how to stop it, logs last.
func (a *App) keepCells(ctx context.Context, cancel context.CancelFunc, work bool) (stop func()) {
	var tasks, logs sync.WaitGroup
	tasks.Go(func() { a.cells.keepTime(ctx, a.logger) })
	if work {
		tasks.Go(func() { a.cells.keepDirectory(ctx, a.logger) })
	}
	for _, c := range a.cells.all {
		tasks.Go(func() { c.keepTime(ctx, a.logger) })
		if work {
			tasks.Go(func() { a.cells.keepHouse(ctx, c, a.logger) })
			tasks.Go(func() { c.keepWorking(ctx, a.logger) })
		}
		logs.Go(c.Logs.Run)
	}
	return func() {
		cancel()
		tasks.Wait()
		for _, c := range a.cells.all {
			c.Logs.Close()
		}
		logs.Wait()
	}
}

func (a *App) open(ctx context.Context, address string) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	a.logger.InfoContext(ctx, "process.listening", "address", listener.Addr().String())
	return listener, nil
}

// answer serves until ctx ends and then lets requests in flight finish.
func (a *App) answer(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := a.server(handler)
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if err := server.Shutdown(grace); err != nil {
			_ = server.Close() // who is still there after the grace is cut off
			stopped <- err
			return
		}
		stopped <- nil
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}
