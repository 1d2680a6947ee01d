// Command bench measures the product beside the bare engine, both in one run on one
// machine: the ratio counts, the figures only explain it. The last line of standard
// output is one JSON object.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/parley-chat/parley/internal/app"
)

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

func benchmarks() map[string]benchmark {
	return map[string]benchmark{
		"pipeline": {rounds: 5, parts: []part{{"pipeline", benchPipeline}}},
		"lanes": {rounds: 3, parts: []part{
			{"add", benchAdd},
			{"drain_dense", benchDrainDense},
			{"drain_sparse", benchDrainSparse},
			{"pickup", benchPickup},
			{"isolation", benchIsolation},
			{"blocked", benchBlocked},
			{"held", benchHeld},
		}},
		"deliver": {rounds: 3, parts: []part{
			{"dense", benchDense}, {"latency", benchLatency}, {"rates", benchRates}, {"trouble", benchTrouble},
		}},
		"accept": {rounds: 5, parts: []part{
			{"rate", benchAccept}, {"latency", benchAcceptLatency}, {"trips", benchAcceptTrips}, {"busy", benchAcceptBusy},
		}},
		"send": {rounds: 3, parts: []part{
			{"rate", benchSend}, {"simulator", benchSendSimulator}, {"latency", benchSendLatency}, {"isolation", benchSendIsolation},
		}},
		"callbacks": {rounds: 3, parts: []part{{"callbacks", benchCallbacks}}},
		"inbound":   {rounds: 3, parts: []part{{"inbound", benchInbound}}},
		"roundtrip": {rounds: 3, parts: []part{{"roundtrip", benchRoundTrip}}},
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 || benchmarks()[args[0]].rounds == 0 {
		return errors.New("usage: bench NAME, where NAME is pipeline, lanes, deliver, callbacks, accept, send, inbound or roundtrip")
	}
	chosen := benchmarks()[args[0]]
	given, flags := options{}, flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.DurationVar(&given.span, "span", usualSpan, "scales how long everything runs; the figures are meant for 3s and more")
	flags.Float64Var(&given.scale, "scale", 1, "scales how much there is of everything, and how long it runs")
	flags.IntVar(&given.rounds, "rounds", chosen.rounds, "how often each side is measured")
	flags.StringVar(&given.only, "only", "", "measure only these parts, separated by commas: "+chosen.names())
	// The server is reached without TLS, which would be measured too.
	flags.StringVar(&given.server, "postgres", "postgres://127.0.0.1:5432/postgres?sslmode=disable",
		"a server on which scratch databases may be made")
	flags.StringVar(&given.redis, "redis", "redis://127.0.0.1:6379", "for the token buckets; empty keeps them in the process")
	flags.StringVar(&given.profile, "profile", "", "write a CPU profile to this file; ours is labelled side:ours")
	flags.IntVar(&given.cells, "cells", 1, "of pipeline: 2 compares a process with two cells to one with one")
	flags.StringVar(&given.worker, "worker", "", "of lanes, for its own use: be the other process, on this database")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if given.worker != "" {
		chosen.parts = []part{{"worker", pickupWorker}}
	}
	result, err := chosen.measure(ctx, given)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// options are what the command line says.
type options struct {
	server, redis, profile, only, worker string
	span                                 time.Duration
	scale                                float64
	rounds, cells                        int
}

// usualSpan is the --span for which the durations and amounts of the parts are made.
const usualSpan = 3 * time.Second

func (o options) factor() float64 { return o.scale * float64(o.span) / float64(usualSpan) }

// lasting is a duration, scaled as the options ask for.
func (o options) lasting(usual time.Duration) time.Duration {
	return time.Duration(float64(usual) * o.factor())
}

// many is an amount, scaled as the options ask for.
func (o options) many(usual int) int { return max(1, int(float64(usual)*o.factor())) }
