package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/apikeys"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/telemetry"
)

// target is a process as `parley serve` builds it, with organizations to ask for.
type target struct {
	process *app.App
	address string
	keys    []string
	undo    []func()
}

// stop undoes what start did, the last first.
func (t *target) stop() {
	for _, undo := range slices.Backward(t.undo) {
		undo()
	}
}

// pooled is how many connections the cells of a process share: all databases are on one
// server, so that more of them would not be the same means.
const pooled = 16

// start serves so many cells, each on a scratch database, and so many organizations,
// spread over the cells.
func start(ctx context.Context, given options, cells, organizations int) (t *target, err error) {
	t = &target{}
	defer func() {
		if err != nil {
			t.stop()
		}
	}()
	settings := map[string]string{
		"PARLEY_REDIS_URL": given.redis, "PARLEY_MASTER_KEY": app.DevMasterKey(), "PARLEY_DATABASE_CONNS": strconv.Itoa(pooled / cells),
	}
	for _, name := range []string{"PARLEY_DATABASE_URL", "PARLEY_CELL_SECOND_DATABASE_URL"}[:cells] {
		database, drop, err := scratchDatabase(ctx, given.server)
		if err != nil {
			return t, err
		}
		t.undo = append(t.undo, drop)
		settings[name] = database
	}
	if t.process, err = newProcess(ctx, settings); err != nil {
		return t, err
	}
	t.undo = append(t.undo, t.process.Close)
	if err := t.fill(ctx, organizations); err != nil {
		return t, err
	}
	t.undo = append(t.undo, keepLogs(t.process.Cells()))
	address, stop, err := serve(ctx, t.process.Handler())
	if err != nil {
		return t, err
	}
	t.address, t.undo = address, append(t.undo, stop)
	return t, nil
}

var databases atomic.Int64 //nolint:gochecknoglobals // numbers the scratch databases of this run

// scratchDatabase makes a database that is dropped at the end.
func scratchDatabase(ctx context.Context, server string) (database string, drop func(), err error) {
	config, err := pgx.ParseConfig(server)
	if err != nil {
		return "", nil, err
	}
	target, err := url.Parse(server)
	if err != nil {
		return "", nil, err
	}
	name := fmt.Sprintf("parley_bench_%d_%d", os.Getpid(), databases.Add(1))
	target.Path = "/" + name
	admin, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return "", nil, err
	}
	if _, err := admin.Exec(ctx, `CREATE DATABASE `+name); err != nil {
		return "", nil, errors.Join(err, admin.Close(ctx))
	}
	return target.String(), func() {
		_, _ = admin.Exec(context.WithoutCancel(ctx), `DROP DATABASE `+name+` WITH (FORCE)`)
		_ = admin.Close(context.WithoutCancel(ctx))
	}, nil
}

// newProcess builds the process and migrates its databases.
func newProcess(ctx context.Context, settings map[string]string) (*app.App, error) {
	config := app.ReadConfig(settings)
	config.Dev = true
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	logger, err := telemetry.NewLogger(null, slog.LevelInfo.String(), config.LogFormat)
	if err != nil {
		return nil, err
	}
	process, err := app.New(ctx, config, logger, app.Options{})
	if err != nil {
		return nil, err
	}
	if err := process.Cells().Migrate(ctx, func(string, int) {}); err != nil {
		process.Close()
		return nil, err
	}
	return process, nil
}

// fill makes organizations whose bucket never empties, each with a page of labels.
func (t *target) fill(ctx context.Context, organizations int) error {
	for range organizations {
		cell, err := t.process.Cells().ForNew(ctx)
		if err != nil {
			return err
		}
		key, err := fillCell(ctx, cell)
		if err != nil {
			return err
		}
		t.keys = append(t.keys, key)
	}
	return nil
}

func fillCell(ctx context.Context, cell *app.Cell) (key string, err error) {
	_, err = postgres.InSystemTx(ctx, cell.DB, "the plan of the benchmarks", func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(ctx, `
			INSERT INTO plans (name, api_access, customers, messages_per_month, rate_per_second, rate_burst, history_days)
			VALUES ('bench', true, true, 1000000000000, 1000000, 1000000, 30)
			ON CONFLICT DO NOTHING`, nil)
	})
	if err != nil {
		return "", err
	}
	org, _, err := cell.Orgs.Create(ctx, audit.Operator(), orgs.Draft{Name: "Bench", Plan: "bench"})
	if err != nil {
		return "", err
	}
	for i := range pageOf {
		if _, err := cell.Labels.Create(ctx, org.OrgID, labels.Draft{Name: fmt.Sprintf("Label %d", i)}); err != nil {
			return "", err
		}
	}
	_, key, err = cell.Keys.Issue(ctx, org.OrgID, audit.Operator(), apikeys.Draft{Name: "bench"})
	return key, err
}

// keepLogs writes the API log of each cell until it is stopped.
func keepLogs(cells *app.Cells) (stop func()) {
	var running sync.WaitGroup
	_ = cells.Each(func(cell *app.Cell) error {
		running.Go(cell.Logs.Run)
		return nil
	})
	return func() {
		_ = cells.Each(func(cell *app.Cell) error {
			cell.Logs.Close()
			return nil
		})
		running.Wait()
	}
}

// serve answers on a free port of this machine.
func serve(ctx context.Context, handler http.Handler) (address string, stop func(), err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}()
	return listener.Addr().String(), func() { _ = server.Close() }, nil
}
