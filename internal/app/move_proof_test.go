package app_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
)

// TestMove_LargeOrganization_NeighbourStaysFast moves an organization of many rows while another
// organization of the same cell sends requests at 30 % of the measured capacity. `make proof-move`
// runs it at full size; otherwise it is small and only checks that every request was answered. A move takes minutes, and
// quiet half minutes lie before, between and after the moves: each side's p99 is the median of the p99 of all its windows of
// five seconds, so that a second in which the machine is slow decides neither.
func TestMove_LargeOrganization_NeighbourStaysFast(t *testing.T) { //nolint:paralleltest // it measures
	rows, rounds, span, full := 5_000, 1, 500*time.Millisecond, false
	if asked, err := strconv.Atoi(os.Getenv("PARLEY_PROOF_ROWS")); err == nil {
		rows, rounds, span, full = asked, 3, 30*time.Second, true
	}
	f := newFixture(t)
	mover, _, neighbour := f.tenant(t), f.tenant(t), f.tenant(t)
	require.Equal(t, mover.cell, neighbour.cell)
	for cell := range f.urls {
		f.sql(t, cell, `UPDATE plans SET rate_per_second = 1000000, rate_burst = 1000000`)
	}
	mover.fill(t, rows)
	neighbour.fill(t, 100)
	refused := func(got answer) bool { return !full && got.status == http.StatusServiceUnavailable } // the machine may have stood still
	capacity := neighbour.load(t, 16, 0, min(span, time.Second), nil, refused).rate
	pace := 0.3 * capacity

	var quiets, durings []time.Duration
	var pauses []float64
	rest := func() measured {
		quiet := neighbour.load(t, 16, pace, span, nil, refused)
		quiets = append(quiets, quiet.windows...)
		return quiet
	}
	for range rounds {
		quiet := rest()
		during := neighbour.load(t, 16, pace, 0, func() {
			moved, err := f.cells.Move(t.Context(), mover.id, audit.Operator(), mover.elsewhere())
			require.NoError(t, err)
			require.EqualValues(t, rows, moved.Rows["labels"])
			mover.cell = moved.To
			pauses = append(pauses, moved.Paused.Seconds())
		}, refused)
		durings = append(durings, during.windows...)
		t.Logf("quiet %s; during the move %s; paused %.2f s", quiet, during, pauses[len(pauses)-1])
	}
	t.Logf("quiet %s", rest())
	slices.Sort(pauses)
	quiet, during := quantileOf(quiets, 0.5), quantileOf(durings, 0.5)
	ratio := during.Seconds() / quiet.Seconds()
	t.Logf("%d rows: p99 in the median of %d windows %s, of %d quiet ones %s (%.2f); pause median %.2f s",
		rows, len(durings), during, len(quiets), quiet, ratio, pauses[len(pauses)/2])
	if full {
		require.LessOrEqual(t, ratio, 1.5)
		require.LessOrEqual(t, pauses[len(pauses)/2], 5.0)
	}
}

// measured is what the answers to a load took. windows has the p99 of each window, p99 is their median, and whole is that of
// all answers together.
type measured struct {
	rate             float64
	windows          []time.Duration
	p99, whole, most time.Duration
}

func (m measured) String() string {
	return fmt.Sprintf("%.0f/s, p99 %s (of all %s, most %s)", m.rate, m.p99, m.whole, m.most)
}

// timed is an answer: when its request was due, since the load began, and how long it took.
type timed struct{ at, took time.Duration }

const loadWindow = 5 * time.Second

func measure(answers []timed, elapsed time.Duration) measured {
	byWindow := map[time.Duration][]time.Duration{}
	all := make([]time.Duration, len(answers))
	for i, one := range answers {
		all[i] = one.took
		window := one.at / loadWindow
		byWindow[window] = append(byWindow[window], one.took)
	}
	var windows []time.Duration
	for _, took := range byWindow {
		windows = append(windows, quantileOf(took, 0.99))
	}
	return measured{
		rate: float64(len(answers)) / elapsed.Seconds(), windows: windows,
		p99: quantileOf(windows, 0.5), whole: quantileOf(all, 0.99), most: quantileOf(all, 1),
	}
}

func quantileOf(took []time.Duration, q float64) time.Duration {
	slices.Sort(took)
	return took[min(int(float64(len(took))*q), len(took)-1)]
}

// load lists labels with several clients. pace is in requests per second; with 0 each client sends
// its next request at once. It runs for span, or until while returns when while is given. Every
// answer must be 200, except those for which refused returns true; they are not measured.
func (o *tenant) load(
	t *testing.T, clients int, pace float64, span time.Duration, while func(), refused func(answer) bool,
) measured {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var answers []timed
	var mu sync.Mutex
	var next atomic.Int64
	var running sync.WaitGroup
	began := time.Now()
	for range clients {
		running.Go(func() {
			for ctx.Err() == nil {
				due := time.Now()
				if pace > 0 {
					due = began.Add(time.Duration(float64(next.Add(1)) / pace * float64(time.Second)))
					time.Sleep(time.Until(due))
				}
				got, err := o.ask(t.Context(), http.MethodGet, "/labels?limit=25", "")
				if err == nil && refused(got) {
					continue
				}
				if err != nil || got.status != http.StatusOK {
					t.Errorf("neighbour: %v %v", got, err)
					return
				}
				mu.Lock()
				answers = append(answers, timed{due.Sub(began), time.Since(due)})
				mu.Unlock()
			}
		})
	}
	if while != nil {
		while()
	} else {
		time.Sleep(span)
	}
	stop()
	running.Wait()
	require.NotEmpty(t, answers)
	return measure(answers, time.Since(began))
}
