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

// bareArgs are about as large as what one job for each row carries.
type bareArgs struct {
	Row  ids.Any `json:"row"`
	Note string  `json:"note"`
}

func (bareArgs) Kind() string { return "bare" }

func newBareArgs(row ids.Any) bareArgs { return bareArgs{Row: row, Note: strings.Repeat("n", 48)} }

type bareWorker struct {
	river.WorkerDefaults[bareArgs]

	do func(row ids.Any)
}

func (w *bareWorker) Work(_ context.Context, job *river.Job[bareArgs]) error {
	w.do(job.Args.Row)
	return nil
}

// bareRiver is River as its own documentation sets it up, on the tables of jobs.Migrate.
func bareRiver(pool *pgxpool.Pool, workers int, cooldown, poll time.Duration, do func(row ids.Any)) (*river.Client[pgx.Tx], error) {
	known := river.NewWorkers()
	river.AddWorker(known, &bareWorker{do: do})
	return river.NewClient(riverpgxv5.New(pool), &river.Config{
		Schema: "river", Workers: known, Logger: slog.New(slog.DiscardHandler),
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
		FetchCooldown: cooldown, FetchPollInterval: poll,
	})
}

// bareFill has so many jobs wait.
func bareFill(ctx context.Context, client *river.Client[pgx.Tx], count int) error {
	for count > 0 {
		many := make([]river.InsertManyParams, min(count, 5000))
		for i := range many {
			many[i].Args = newBareArgs(newRow().ID)
		}
		count -= len(many)
		if _, err := client.InsertManyFast(ctx, many); err != nil {
			return err
		}
	}
	return nil
}

// bareAdd commits one job.
func bareAdd(ctx context.Context, pool *pgxpool.Pool, client *river.Client[pgx.Tx], row ids.Any) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := client.InsertTx(ctx, tx, newBareArgs(row), nil)
		return err
	})
}
