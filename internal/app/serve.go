package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parley-chat/parley/internal/edge/mediahost"
)

// The limits of a connection. A proxy in front of the process ends TLS and HTTP/2.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = 35 * time.Second
	idleTimeout       = 60 * time.Second
	// maxHeaderBytes is more than the API accepts, so that its own refusal is sent; beyond it the server refuses in plain text.
	maxHeaderBytes = 64 << 10
	// lameDuck is how long a stopping process still accepts requests, so that the load balancer
	// sees in /readyz that it should send them elsewhere.
	lameDuck = time.Second
	// stopTimeout is how long requests in flight may take to finish. It is longer than the timeout
	// of a request and of its commit. An upload that needs longer is cut off, and its caller repeats it.
	stopTimeout = 30 * time.Second
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
		// OPTIONS * goes through the API's pipeline like any other request.
		DisableGeneralOptionsHandler: true,
	}
}

// Roles are the tasks of a process: to serve the API, to do background work, or both.
type Roles struct {
	Serve bool
	Work  bool
	// Hold, unless empty, puts all cells on hold before anything is sent. It is the name of the operator.
	Hold string
	// Ready is called with the address of the API once it accepts requests.
	Ready func(address string)
}

// Run serves and works by its roles until ctx ends. It then stops in this order: readiness, new
// requests, requests in flight, background work, quotas and logs, the operator's listener, connections.
func (a *App) Run(ctx context.Context, roles Roles) error {
	defer a.Close()
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBackground()
	operator, stopOperator := context.WithCancel(background)
	defer stopOperator()
	// The operator's listener opens before the API, so that /readyz answers once the API does.
	health, err := a.open(ctx, "OPERATOR_LISTEN", a.config.operatorListen(roles))
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.answer(operator, health, a.operator()) })
	group.Go(func() error { return a.cells.awaitKeys(ctx, roles.Hold, a.logger) })
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
		if err := a.listen(ctx); err != nil {
			return err
		}
		if err := a.hostMedia(ctx, group); err != nil {
			return err
		}
		if roles.Ready != nil {
			roles.Ready(a.public.Addr().String())
		}
		return a.answer(a.lameDuck(ctx), a.public, a.Handler())
	})
	err = group.Wait()
	a.logger.InfoContext(context.WithoutCancel(ctx), "process.stopped")
	return err
}

// listen opens the listener of the API, unless the process was given one.
func (a *App) listen(ctx context.Context) (err error) {
	if a.public == nil {
		a.public, err = a.open(ctx, "LISTEN", a.config.Listen)
	}
	return err
}

// hostMedia serves files on an origin of their own, if there is a bucket.
func (a *App) hostMedia(ctx context.Context, group *errgroup.Group) (err error) {
	if a.cells.Bucket == nil {
		return nil
	}
	if a.media == nil {
		if a.media, err = a.open(ctx, "MEDIA_LISTEN", a.config.MediaListen); err != nil {
			return err
		}
	}
	group.Go(func() error {
		err := a.answer(a.lameDuck(ctx), a.media, mediahost.New(a.cells.Bucket, a.logger))
		if errors.Is(err, context.DeadlineExceeded) {
			return nil // a slow receiver was cut off; it can ask for the rest
		}
		return err
	})
	return nil
}

// lameDuck returns a context that ends a second after ctx does (in development, at once). In that
// second /readyz answers "stopping".
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

// keepCells starts clocks, quotas, upkeep, background work and API logs of all cells. The function
// that it returns stops them, quotas and logs last.
func (a *App) keepCells(ctx context.Context, cancel context.CancelFunc, work bool) (stop func()) {
	var tasks, logs sync.WaitGroup
	tasks.Go(func() { a.cells.keepTime(ctx, a.logger) })
	tasks.Go(func() { a.cells.keepWatch(ctx, work, a.logger) })
	if work {
		tasks.Go(func() { a.cells.keepDirectory(ctx, a.logger) })
	}
	for _, c := range a.cells.all {
		tasks.Go(func() { c.keepTime(ctx, a.logger) })
		tasks.Go(func() { c.keepQuota(ctx, a.logger) })
		if work {
			tasks.Go(func() { c.keepCounting(ctx, a.logger) })
			tasks.Go(func() {
				select {
				case <-ctx.Done():
					return
				case <-c.keyed:
				}
				tasks.Go(func() { c.keepTables(ctx, a.logger) })
				tasks.Go(func() { a.cells.keepPurging(ctx, c, a.logger) })
				tasks.Go(func() { a.cells.keepOpen(ctx, c, a.logger) })
				c.keepWorking(ctx, a.logger)
			})
		}
		logs.Go(c.Logs.Run)
	}
	return func() {
		cancel()
		tasks.Wait()
		for _, c := range a.cells.all {
			logs.Go(func() { c.closeQuota(ctx, a.logger) })
			c.Logs.Close()
		}
		logs.Wait()
	}
}

// open listens on the address of a setting.
func (a *App) open(ctx context.Context, setting, address string) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s%s: %w", Prefix, setting, err)
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
			_ = server.Close() // cuts off requests that take longer than stopTimeout
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
