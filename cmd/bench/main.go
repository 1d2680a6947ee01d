// Command bench measures the product beside the bare engine, both in one run on one
// machine: the ratio counts, the figures only explain it. The last line of standard
// output is one JSON object.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"

	"github.com/parley-chat/parley/internal/app"
)

// localServer is reached without TLS, which would be measured too.
const localServer = "postgres://127.0.0.1:5432/postgres?sslmode=disable"

type benchmark func(ctx context.Context, args []string) (any, error)

func main() { os.Exit(exitCode()) }

func exitCode() int {
	app.CollectLess()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, args []string) error {
	benchmarks := map[string]benchmark{"pipeline": pipeline, "lanes": benchLanes, "deliver": deliver, "callbacks": benchCallbacks}
	if len(args) == 0 || benchmarks[args[0]] == nil {
		return fmt.Errorf("usage: bench NAME, where NAME is pipeline, lanes, deliver or callbacks")
	}
	result, err := benchmarks[args[0]](ctx, args[1:])
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// startProfile records where the time goes, when a file is named.
func startProfile(file string) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	out, err := os.Create(file) //nolint:gosec // named on the command line
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(out); err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		_ = out.Close()
	}, nil
}
