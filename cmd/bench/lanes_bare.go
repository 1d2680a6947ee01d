package main

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/parley-chat/parley/internal/platform/ids"
)

// bareArgs are about as large as those of one job for each row.
type bareArgs struct {
	Row  ids.Any `json:"row"`
	Note string  `json:"note"`
}

func (bareArgs) Kind() string { return "bare" }

func newBareArgs(row ids.Any) bareArgs { return bareArgs{Row: row, Note: strings.Repeat("n", 48)} }

type bareWorker struct {
	river.WorkerDefaults[bareArgs]

	work func(row ids.Any)
}

func (w *bareWorker) Work(_ context.Context, job *river.Job[bareArgs]) error {
	w.work(job.Args.Row)
	return nil
}

// bareRiver is River as its own documentation sets it up, on the tables of jobs.Migrate.
func bareRiver(pool *pgxpool.Pool, workers int, cooldown, poll time.Duration, work func(row ids.Any)) *river.Client[pgx.Tx] {
	known := river.NewWorkers()
	river.AddWorker(known, &bareWorker{work: work})
	return must(river.NewClient(riverpgxv5.New(pool), &river.Config{
		Schema: "river", Workers: known, Logger: slog.New(slog.DiscardHandler),
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
		FetchCooldown: cooldown, FetchPollInterval: poll,
	}))
}

// bareFill adds jobs by statements of many.
func bareFill(ctx context.Context, client *river.Client[pgx.Tx], count int) {
	for count > 0 {
		many := make([]river.InsertManyParams, min(count, 5000))
		for i := range many {
			many[i].Args = newBareArgs(newRow().ID)
		}
		count -= len(many)
		must(client.InsertManyFast(ctx, many))
	}
}

// bareAdd commits one job.
func bareAdd(ctx context.Context, pool *pgxpool.Pool, client *river.Client[pgx.Tx], row ids.Any) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := client.InsertTx(ctx, tx, newBareArgs(row), nil)
		return err
	})
}
