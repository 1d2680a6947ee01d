package lanes_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

// settledWithin is how long after the last disaster everything is settled: the promise, or
// more on a machine that is busy with others.
func settledWithin() time.Duration { return sized(4*time.Minute, time.Minute) }

func busyPlan(name string) plan {
	return plan{Name: name, Workers: 16, Least: 4, Most: 16, Shortest: 2 * time.Millisecond, Longest: 20 * time.Millisecond}
}

// TestProcess_KilledWorkers kills worker after worker while they drain, and starts others.
func TestProcess_KilledWorkers(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	rows, kills := sized(10_000, 100_000), sized(3, 20)
	s := newSite(t, pgtest.URL(t), plan{}.kind(nil), 60)
	s.add(t, rows/2)
	var crew []*worker
	hire := func() *worker { return s.start(t, busyPlan(fmt.Sprintf("worker-%d", len(crew)))) }
	for range 3 {
		crew = append(crew, hire())
	}
	alive, died := []int{0, 1, 2}, map[string]time.Time{}
	began, last := time.Now(), time.Time{}
	for kill := range kills {
		s.awaitProgress(t, (kill+1)*rows*3/4/kills, settledWithin())
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		chosen := random.IntN(len(alive))
		victim := crew[alive[chosen]]
		last = victim.kill()
		died[victim.Name] = last
		crew, alive[chosen] = append(crew, hire()), len(crew)
		s.add(t, rows/2/kills)
	}
	s.add(t, rows-len(s.rows))
	took := s.awaitEnd(t, last)

	found := s.tally(t, func(before, again *call) bool {
		at, killed := died[before.by]
		return killed && again.started.After(at)
	})
	for name := range died {
		require.LessOrEqual(t, found.by[name], 2*16*(16+100), "%s had more in flight than its lanes may have", name)
	}
	t.Logf("%d rows, %d kills in %.0f s: 0 lost, %d repeated of those in flight at a kill (%d of them done and not yet settled)",
		rows, kills, last.Sub(began).Seconds(), found.all, found.done)
	t.Logf("all settled %.1f s after the last kill", took.Seconds())
}
