package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"time"
)

// lanesOptions are what the command line of the lanes' benchmark says.
type lanesOptions struct {
	span            time.Duration
	server, profile string
	only            []string
	worker          string
}

// lanesFigures is the last line: each ratio is ours to what stands beside it.
type lanesFigures struct {
	Add                *float64          `json:"add,omitempty"`
	AddRiver           *float64          `json:"add_river,omitempty"`
	DrainDense         *float64          `json:"drain_dense,omitempty"`
	DrainSparse        *float64          `json:"drain_sparse,omitempty"`
	Pickup             *pickupFigures    `json:"pickup,omitempty"`
	Isolation          *isolationFigures `json:"isolation,omitempty"`
	Blocked            *float64          `json:"blocked,omitempty"`
	BlockedRowsUpdated *int64            `json:"blocked_rows_updated,omitempty"`
}

// part measures one thing and notes its figures.
type part struct {
	name    string
	measure func(ctx context.Context, given lanesOptions, figures *lanesFigures) error
}

func lanesParts() []part {
	return []part{
		{"add", benchAdd},
		{"drain_dense", benchDrainDense},
		{"drain_sparse", benchDrainSparse},
		{"pickup", benchPickup},
		{"isolation", benchIsolation},
		{"blocked", benchBlocked},
	}
}

// usualSpan is what the durations and amounts of the parts are made for.
const usualSpan = 3 * time.Second

// benchLanes measures the lanes beside bare River, beside transactions without them, and
// beside themselves with one job for each row.
func benchLanes(ctx context.Context, args []string) (any, error) {
	flags, given := flag.NewFlagSet("lanes", flag.ContinueOnError), lanesOptions{}
	only := flags.String("only", "", "measure only these parts, separated by commas")
	flags.DurationVar(&given.span, "span", usualSpan, "scales how long everything runs; the figures are meant for 3s and more")
	flags.StringVar(&given.server, "postgres", localServer, "a server on which scratch databases may be made")
	flags.StringVar(&given.profile, "profile", "", "write a CPU profile to this file; ours is what is labelled side:ours")
	flags.StringVar(&given.worker, "worker", "", "for the benchmark itself: be the other process, on this database")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if given.worker != "" {
		return nil, pickupWorker(ctx, given.worker)
	}
	if *only != "" {
		given.only = strings.Split(*only, ",")
	}
	stop, err := startProfile(given.profile)
	if err != nil {
		return nil, err
	}
	defer stop()
	return measureParts(ctx, given)
}

func measureParts(ctx context.Context, given lanesOptions) (*lanesFigures, error) {
	figures, unknown := &lanesFigures{}, slices.Clone(given.only)
	for _, p := range lanesParts() {
		if len(given.only) > 0 && !slices.Contains(given.only, p.name) {
			continue
		}
		unknown = slices.DeleteFunc(unknown, func(name string) bool { return name == p.name })
		if err := p.measure(ctx, given, figures); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	if len(unknown) > 0 {
		return nil, errors.New("--only: there is no part " + strings.Join(unknown, ", "))
	}
	return figures, nil
}

// lasting is a duration, scaled as --span asks for.
func (o lanesOptions) lasting(usual time.Duration) time.Duration {
	return time.Duration(float64(usual) * float64(o.span) / float64(usualSpan))
}

// many is an amount, scaled as --span asks for.
func (o lanesOptions) many(usual int) int {
	return max(1, int(float64(usual)*float64(o.span)/float64(usualSpan)))
}

const lanesRounds = 3

// ours is the side that a profile is read for.
const ours = "ours"

// leg is one of those that are measured in turn.
type leg[F fmt.Stringer] struct {
	name string
	run  func(ctx context.Context) (F, error)
}

// inTurn runs the legs one after the other, round by round, so that whatever else the
// machine does meets all of them, and returns what each of them showed.
func inTurn[F fmt.Stringer](ctx context.Context, name string, legs ...leg[F]) ([][]F, error) {
	shown := make([][]F, len(legs))
	for round := range lanesRounds {
		words := make([]string, len(legs))
		for i, one := range legs {
			var figure F
			var err error
			pprof.Do(ctx, pprof.Labels("side", one.name), func(ctx context.Context) { figure, err = one.run(ctx) })
			if err != nil {
				return nil, fmt.Errorf("%s: %w", one.name, err)
			}
			shown[i] = append(shown[i], figure)
			words[i] = one.name + " " + figure.String()
		}
		fmt.Fprintf(os.Stdout, "%s, round %d: %s\n", name, round+1, strings.Join(words, "; "))
	}
	return shown, nil
}

// pace is how many of something are done in a second.
type pace float64

func (p pace) String() string { return fmt.Sprintf("%.0f/s", float64(p)) }

// ratioOf is the median of the rounds' ratios. Where nothing stands beside it, it is zero:
// JSON knows no infinity.
func ratioOf[F any](a, b []F, value func(F) float64) *float64 {
	ratios := make([]float64, len(a))
	for i := range a {
		if beside := value(b[i]); beside > 0 {
			ratios[i] = value(a[i]) / beside
		}
	}
	ratio := rounded(median(ratios))
	return &ratio
}

func medianOf[F any](all []F, value func(F) float64) float64 {
	values := make([]float64, len(all))
	for i, one := range all {
		values[i] = value(one)
	}
	return rounded(median(values))
}

func perSecond(p pace) float64 { return float64(p) }

func rounded(value float64) float64 { return math.Round(value*1000) / 1000 }
