package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMeasure_RoundsOfTwoSides_MediansAndRatios(t *testing.T) {
	t.Parallel()
	var order []string
	next := func(name string, rates ...float64) side {
		return side{name, func(context.Context, *bench) sample {
			order = append(order, name)
			one := sample{rate: rates[0]}
			rates = rates[1:]
			return one
		}}
	}
	measure := func(ctx context.Context, b *bench) figures {
		shown := b.inTurn(ctx, "test", next(ours, 10, 40, 20), next("bare", 10, 10, 10))
		return figures{"rate": shown.median(ours, rate), "ratio": shown.ratio(ours, "bare", rate), "p99": shown.ratio(ours, "bare", p99)}
	}
	all, err := benchmark{parts: []part{{"one", measure}, {"other", nil}}}.measure(t.Context(), options{rounds: 3, only: "one"})
	require.NoError(t, err)
	require.Equal(t, figures{"rate": 20.0, "ratio": 2.0, "p99": 0.0}, all)
	require.Equal(t, []string{ours, "bare", ours, "bare", ours, "bare"}, order)
}

func TestMeasure_SideFails_UndoneAndNamed(t *testing.T) {
	t.Parallel()
	cause := errors.New("no")
	var undone []string
	measure := func(ctx context.Context, b *bench) figures {
		b.later(func() { undone = append(undone, "part") })
		b.inTurn(ctx, "test", side{ours, func(_ context.Context, b *bench) sample {
			b.later(func() { undone = append(undone, "first") })
			b.later(func() { undone = append(undone, "second") })
			check(cause)
			return sample{}
		}})
		return nil
	}
	_, err := benchmark{parts: []part{{"one", measure}}}.measure(t.Context(), options{rounds: 1})
	require.ErrorIs(t, err, cause)
	require.EqualError(t, err, "one: ours: no")
	require.Equal(t, []string{"second", "first", "part"}, undone)
}

func TestMeasure_UnknownPart_RefusedBeforeAnythingRuns(t *testing.T) {
	t.Parallel()
	_, err := benchmark{parts: []part{{"one", nil}}}.measure(t.Context(), options{only: "one,two"})
	require.EqualError(t, err, "--only: there is no part two; there are one")
}

func TestMeter_RowsNotReached_WaitUntilNow(t *testing.T) {
	t.Parallel()
	m, began := newMeter[int](0), time.Now().Add(-time.Minute)
	for i := range 4 {
		m.add(i, began)
		m.reach(i, began.Add(time.Duration(i)*time.Millisecond))
	}
	m.add(4, began)                     // never reached
	m.add(5, began.Add(-2*time.Second)) // added while things warmed up
	shown := m.shows(began, began.Add(time.Second))
	require.InDelta(t, 4, shown.rate, 0)
	require.InDelta(t, 2, shown.p50, 0)
	require.GreaterOrEqual(t, shown.p99, 60_000.0)
}
