package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"time"
)

// benchmark is what one name on the command line measures.
type benchmark struct {
	rounds int
	parts  []part
}

// part measures one thing and returns its fields of the JSON object.
type part struct {
	name    string
	measure func(ctx context.Context, b *bench) figures
}

type figures map[string]any

// perSecond is the field of the main rate of a benchmark.
const perSecond = "per_second"

func (b benchmark) names() string {
	names := make([]string, len(b.parts))
	for i, p := range b.parts {
		names[i] = p.name
	}
	return strings.Join(names, ",")
}

// measure runs the parts that --only names, or all.
func (b benchmark) measure(ctx context.Context, given options) (figures, error) {
	asked := strings.Split(b.names(), ",")
	if given.only != "" {
		asked = strings.Split(given.only, ",")
	}
	for _, name := range asked {
		if !slices.ContainsFunc(b.parts, func(p part) bool { return p.name == name }) {
			return nil, fmt.Errorf("--only: there is no part %s; there are %s", name, b.names())
		}
	}
	stop, err := startProfile(given.profile)
	if err != nil {
		return nil, err
	}
	defer stop()
	all := figures{}
	for _, p := range b.parts {
		if !slices.Contains(asked, p.name) {
			continue
		}
		some, err := attempt(p.name, func() figures {
			return scope(given, func(b *bench) figures { return p.measure(ctx, b) })
		})
		if err != nil {
			return nil, err
		}
		maps.Copy(all, some)
	}
	return all, nil
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
	return func() {
		pprof.StopCPUProfile()
		_ = out.Close()
	}, pprof.StartCPUProfile(out)
}

// bench is handed to whatever measures. It fails as a test does: check and must end the part
// by a panic that the harness turns into an error. Only its own goroutine may call them.
type bench struct {
	options

	undo []func()
}

// later has something undone when the part, or the side of a round, is over.
func (b *bench) later(undo func()) { b.undo = append(b.undo, undo) }

// scope measures with a bench of its own and undoes what it left, the last first.
func scope[T any](given options, measure func(b *bench) T) T {
	b := &bench{options: given}
	defer func() {
		for _, undo := range slices.Backward(b.undo) {
			undo()
		}
	}()
	return measure(b)
}

type failure struct{ error }

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

// attempt returns the error with which check or must ended work.
func attempt[T any](what string, work func() T) (result T, err error) {
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case failure:
			err = fmt.Errorf("%s: %w", what, reason.error)
		default:
			panic(reason)
		}
	}()
	return work(), nil
}

// side is one of those that are measured in turn.
type side struct {
	name string
	run  func(ctx context.Context, b *bench) sample
}

// ours is the side that a profile is read for.
const ours = "ours"

// sample is what one side showed in one round. Fields that are zero were not measured.
type sample struct {
	// rate is per second, unless unit says otherwise.
	rate float64
	unit string
	// The delays that half and 99 of 100 did not exceed, in milliseconds.
	p50, p99 float64
}

func (s sample) String() string {
	var words []string
	if s.rate > 0 {
		unit := "/s"
		if s.unit != "" {
			unit = s.unit
		}
		words = append(words, fmt.Sprintf("%.0f%s", s.rate, unit))
	}
	if s.p99 > 0 {
		words = append(words, fmt.Sprintf("p50 %.1f ms, p99 %.1f ms", s.p50, s.p99))
	}
	return strings.Join(words, ", ")
}

func rate(s sample) float64 { return s.rate }
func p50(s sample) float64  { return s.p50 }
func p99(s sample) float64  { return s.p99 }

// withDelays adds the percentiles of delays to a sample.
func (s sample) withDelays(delays []time.Duration) sample {
	if len(delays) == 0 {
		check(errors.New("nothing was measured"))
	}
	slices.Sort(delays)
	at := func(share float64) float64 {
		return float64(delays[min(len(delays)-1, int(share*float64(len(delays))))]) / float64(time.Millisecond)
	}
	s.p50, s.p99 = at(0.50), at(0.99)
	return s
}

// shown are the samples of each side, round by round.
type shown map[string][]sample

// inTurn measures the sides one after the other, round by round, so that whatever else the
// machine does meets all of them. It prints the steal of each side's time, and the load.
func (b *bench) inTurn(ctx context.Context, name string, sides ...side) shown {
	all := shown{}
	for round := range b.rounds {
		words := make([]string, len(sides))
		for i, s := range sides {
			before := readMachine()
			one := b.once(ctx, s)
			all[s.name] = append(all[s.name], one)
			words[i] = fmt.Sprintf("%s %s (steal %.1f %%)", s.name, one, readMachine().steal(before))
		}
		fmt.Fprintf(os.Stdout, "%s, round %d: %s; load %s\n", name, round+1, strings.Join(words, "; "), load())
	}
	return all
}

// once measures a side once, labelled in the profile.
func (b *bench) once(ctx context.Context, s side) (one sample) {
	pprof.Do(ctx, pprof.Labels("side", s.name), func(ctx context.Context) {
		one = must(attempt(s.name, func() sample {
			return scope(b.options, func(b *bench) sample { return s.run(ctx, b) })
		}))
	})
	return one
}

// warm measures each side once and forgets it.
func (b *bench) warm(ctx context.Context, sides ...side) {
	for _, s := range sides {
		b.once(ctx, s)
	}
}

// median of one side's rounds.
func (s shown) median(side string, value func(sample) float64) float64 {
	return s.between(side, side, func(one, _ sample) float64 { return value(one) })
}

// ratio is the median of the rounds' ratios. Where nothing stands beside it, it is zero:
// JSON knows no infinity.
func (s shown) ratio(side, beside string, value func(sample) float64) float64 {
	return s.between(side, beside, func(one, other sample) float64 {
		if value(other) == 0 {
			return 0
		}
		return value(one) / value(other)
	})
}

// between is the median of what compare says of two sides in each round.
func (s shown) between(side, beside string, compare func(one, other sample) float64) float64 {
	values := make([]float64, len(s[side]))
	for i := range values {
		values[i] = compare(s[side][i], s[beside][i])
	}
	slices.Sort(values)
	return math.Round(values[len(values)/2]*1000) / 1000
}
