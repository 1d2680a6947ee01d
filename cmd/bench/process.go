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
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/apikeys"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/telemetry"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/simulator"
)

// poolConns is how many connections each side has. The cells of one process share them: all
// databases are on one server, so more would not be a fair comparison.
const poolConns = 16

var databases atomic.Int64 //nolint:gochecknoglobals // numbers the scratch databases of this run

// scratchDatabase makes a database that is dropped at the end, on a server that is durable.
func scratchDatabase(ctx context.Context, b *bench) (databaseURL string) {
	admin := must(pgx.Connect(ctx, b.server))
	outliving := context.WithoutCancel(ctx)
	b.later(func() { _ = admin.Close(outliving) })
	for _, setting := range []string{"fsync", "synchronous_commit"} {
		var value string
		check(admin.QueryRow(ctx, "SHOW "+setting).Scan(&value))
		if value != "on" {
			check(fmt.Errorf("%s is %s: figures without durability mean nothing", setting, value))
		}
	}
	name := fmt.Sprintf("parley_bench_%d_%d", os.Getpid(), databases.Add(1))
	must(admin.Exec(ctx, `CREATE DATABASE `+name))
	b.later(func() { _, _ = admin.Exec(outliving, `DROP DATABASE `+name+` WITH (FORCE)`) })
	target := must(url.Parse(b.server))
	target.Path = "/" + name
	return target.String()
}

// migrate makes the tables of all databases that the settings name.
func migrate(ctx context.Context, settings map[string]string) {
	cells := must(app.OpenCells(ctx, app.ReadConfig(settings), app.CellsConfig{Conns: 2, Logger: slog.New(slog.DiscardHandler)}))
	defer cells.Close()
	check(cells.Migrate(ctx, func(string, int) {}))
}

// process is the product as `parley serve` builds it, with organizations and an endpoint for
// their webhooks.
type process struct {
	app *app.App
	// cell is where the first organization lives.
	cell *app.Cell
	orgs []orgs.ID
	keys []string
	sink *sink
	// url is that of the API, once the process runs.
	url string
}

// setup is what differs between processes.
type setup struct {
	// cells is 1 or 2, each on a database of its own.
	cells int
	// organizations are spread over the cells.
	organizations int
	// provider is the address of the messaging network. Default: one where nothing answers.
	provider string
	// tracers see every SQL statement.
	tracers []pgx.QueryTracer
}

// newProcess builds a process without a messaging network.
func newProcess(ctx context.Context, b *bench, cells, organizations int) *process {
	return newProcessWith(ctx, b, setup{cells: cells, organizations: organizations})
}

// newProcessWith builds a process and its organizations.
func newProcessWith(ctx context.Context, b *bench, with setup) *process {
	p, cells := &process{sink: openSink(ctx, b)}, with.cells
	if with.provider == "" {
		with.provider = "http://127.0.0.1:9"
	}
	settings := map[string]string{
		"PARLEY_PROVIDER_BASE_URL": with.provider,
		"PARLEY_REDIS_URL":         b.redis, "PARLEY_MASTER_KEY": app.DevMasterKey(), "PARLEY_WEBHOOK_HOST_RATE": "1000000",
		"PARLEY_DATABASE_CONNS": strconv.Itoa(poolConns / cells),
		"PARLEY_LISTEN":         "127.0.0.1:0", "PARLEY_OPERATOR_LISTEN": "127.0.0.1:0",
		"PARLEY_PROVIDER_APP_ID": callbackAppID, "PARLEY_PROVIDER_APP_SECRET": callbackSecret, "PARLEY_PROVIDER_VERIFY_TOKEN": "bench",
		"PARLEY_WEBHOOK_ALLOW_NETWORKS": "127.0.0.0/8", "PARLEY_WEBHOOK_CA_FILE": p.sink.caFile,
	}
	for _, name := range []string{"PARLEY_DATABASE_URL", "PARLEY_CELL_SECOND_DATABASE_URL"}[:cells] {
		settings[name] = scratchDatabase(ctx, b)
	}
	migrate(ctx, settings)
	config := app.ReadConfig(settings)
	config.Dev = true
	null := must(os.OpenFile(os.DevNull, os.O_WRONLY, 0)) // log lines are written, as in production
	b.later(func() { _ = null.Close() })
	logger := must(telemetry.NewLogger(null, slog.LevelInfo.String(), config.LogFormat))
	p.app = must(app.New(ctx, config, logger, app.Options{Tracers: with.tracers}))
	check(p.app.Cells().CheckKeys(ctx, true))
	for range with.organizations {
		cell := must(p.app.Cells().ForNew(ctx))
		if p.cell == nil {
			p.cell = cell
		}
		org, key := newOrganization(ctx, cell)
		p.orgs, p.keys = append(p.orgs, org), append(p.keys, key)
	}
	return p
}

// pageOf is how many labels an organization has: one page of them.
const pageOf = 25

// newOrganization is on a plan whose bucket never empties, and has a page of labels.
func newOrganization(ctx context.Context, cell *app.Cell) (org orgs.ID, key string) {
	makePlan(ctx, cell)
	org, key, err := addOrganization(ctx, cell)
	check(err)
	for i := range pageOf {
		must(cell.Labels.Create(ctx, org, labels.Draft{Name: fmt.Sprintf("Label %d", i)}))
	}
	return org, key
}

func makePlan(ctx context.Context, cell *app.Cell) {
	must(postgres.InSystemTx(ctx, cell.DB, "the plan of the benchmarks", func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(ctx, `
			INSERT INTO plans (name, api_access, customers, messages_per_month, rate_per_second, rate_burst, history_days)
			VALUES ('bench', true, true, 1000000000000, 1000000, 1000000, 30)
			ON CONFLICT DO NOTHING`, nil)
	}))
}

// addOrganization makes an organization on the plan of the benchmarks, and an API key.
func addOrganization(ctx context.Context, cell *app.Cell) (org orgs.ID, key string, err error) {
	made, _, err := cell.Orgs.Create(ctx, audit.Operator(), orgs.Draft{Name: "Bench", Plan: "bench"})
	if err != nil {
		return org, "", err
	}
	_, key, err = cell.Keys.Issue(ctx, made.OrgID, audit.Operator(), apikeys.Draft{Name: "bench"})
	return made.OrgID, key, err
}

// benchBusiness is the business account of all numbers: the one that the simulator gives to new numbers.
const benchBusiness = simulator.DefaultAccountID

// attach connects a number of the highest throughput level to an organization.
func attach(ctx context.Context, cell *app.Cell, org orgs.ID, n int) (accounts.Account, error) {
	return cell.Accounts.Attach(ctx, org, audit.Operator(), accounts.Draft{
		BusinessAccountID: benchBusiness, PhoneNumberID: numberOf(n), Token: provider.NewToken(benchToken),
	}, provider.NumberState{
		Phone: fmt.Sprintf("+3512%08d", n), Status: provider.NumberConnected, Throughput: provider.ThroughputHigh,
	}, time.Now())
}

// benchToken is the access token of every number.
const benchToken = "bench-token"

// numberOf is the id of a number.
func numberOf(n int) string { return fmt.Sprintf("1%014d", n) }

// run has the process do what the roles say until the side is over.
func (p *process) run(ctx context.Context, b *bench, roles app.Roles) {
	ctx, cancel := context.WithCancel(ctx)
	ready, ended := make(chan string, 1), make(chan struct{})
	var failed error
	roles.Ready = func(address string) { ready <- address }
	go func() {
		defer close(ended)
		failed = p.app.Run(ctx, roles)
	}()
	b.later(func() {
		cancel()
		<-ended
		if failed != nil {
			fmt.Fprintln(os.Stderr, "bench:", failed)
		}
	})
	select {
	case address := <-ready:
		p.url = "http://" + address
	case <-ended:
		check(errors.Join(errors.New("the process did not get ready"), failed))
	}
}

// serve answers on a free port of this machine.
func serve(ctx context.Context, b *bench, handler http.Handler) (address string) {
	listener := must((&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"))
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }()
	b.later(func() { _ = server.Close() })
	return listener.Addr().String()
}
