package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"
)

const (
	rounds      = 5
	connections = 32
	pageOf      = 25
	measured    = "/v1/labels"
)

// options are what the command line of a benchmark says.
type options struct {
	span          time.Duration
	server, redis string
	cells         int
	profile       string
}

var errCells = errors.New("--cells: only 2 are compared with one")

// pipeline measures GET /v1/labels through the whole pipeline: against a bare handler
// that runs the same statements on the same pool and encodes the same JSON, or, with
// --cells, in two cells against one.
func pipeline(ctx context.Context, args []string) (any, error) {
	flags, given := flag.NewFlagSet("pipeline", flag.ContinueOnError), options{}
	flags.DurationVar(&given.span, "span", 3*time.Second, "how long each side runs in each round")
	flags.StringVar(&given.server, "postgres", localServer, "a server on which scratch databases may be made")
	flags.StringVar(&given.redis, "redis", "redis://127.0.0.1:6379", "for the token buckets; empty keeps them in the process")
	flags.IntVar(&given.cells, "cells", 1, "2 compares a process with two cells to one with one")
	flags.StringVar(&given.profile, "profile", "", "write a CPU profile of the whole run to this file")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	stop, err := startProfile(given.profile)
	if err != nil {
		return nil, err
	}
	defer stop()
	switch given.cells {
	case 1:
		return againstBare(ctx, given)
	case 2:
		return twoCells(ctx, given)
	default:
		return nil, errCells
	}
}

func againstBare(ctx context.Context, given options) (any, error) {
	ours, err := start(ctx, given, 1, 1)
	if err != nil {
		return nil, err
	}
	defer ours.stop()
	cell, err := ours.process.Cells().ForNew(ctx)
	if err != nil {
		return nil, err
	}
	tenants, err := cell.Orgs.List(ctx)
	if err != nil {
		return nil, err
	}
	plain, stopBare, err := serve(ctx, bare(cell.DB.Pool(), tenants[0].OrgID))
	if err != nil {
		return nil, err
	}
	defer stopBare()
	o, b, ratio, err := compare(ctx, given.span,
		side{"ours", newLoad(ours.address, ours.keys)},
		side{"bare", newLoad(plain, ours.keys)})
	return struct {
		Name  string  `json:"name"`
		Ours  float64 `json:"ours"`
		Bare  float64 `json:"bare"`
		Ratio float64 `json:"ratio"`
	}{"pipeline", o, b, ratio}, err
}

// twoCells puts the same load on two organizations: of the only cell of a process, and of
// one cell each of a process that has two.
func twoCells(ctx context.Context, given options) (any, error) {
	one, err := start(ctx, given, 1, 2)
	if err != nil {
		return nil, err
	}
	defer one.stop()
	two, err := start(ctx, given, 2, 2)
	if err != nil {
		return nil, err
	}
	defer two.stop()
	t, o, ratio, err := compare(ctx, given.span,
		side{"two", newLoad(two.address, two.keys)},
		side{"one", newLoad(one.address, one.keys)})
	return struct {
		Name  string  `json:"name"`
		One   float64 `json:"one"`
		Two   float64 `json:"two"`
		Ratio float64 `json:"ratio"`
	}{"pipeline", o, t, ratio}, err
}

// side is one of two that are measured in turn.
type side struct {
	name string
	load load
}

// compare returns the medians of both sides and of their ratio in each round.
func compare(ctx context.Context, span time.Duration, a, b side) (medianA, medianB, ratio float64, err error) {
	for _, warm := range []side{a, b} {
		if _, err := warm.load.rate(ctx, span/3); err != nil {
			return 0, 0, 0, fmt.Errorf("%s: %w", warm.name, err)
		}
	}
	var ratesA, ratesB, ratios []float64
	for round := range rounds {
		ofA, err := a.load.rate(ctx, span)
		if err != nil {
			return 0, 0, 0, fmt.Errorf("%s: %w", a.name, err)
		}
		ofB, err := b.load.rate(ctx, span)
		if err != nil {
			return 0, 0, 0, fmt.Errorf("%s: %w", b.name, err)
		}
		fmt.Fprintf(os.Stdout, "round %d: %s %.0f/s, %s %.0f/s, ratio %.3f\n", round+1, a.name, ofA, b.name, ofB, ofA/ofB)
		ratesA, ratesB, ratios = append(ratesA, ofA), append(ratesB, ofB), append(ratios, ofA/ofB)
	}
	return median(ratesA), median(ratesB), median(ratios), nil
}
