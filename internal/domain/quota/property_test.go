package quota_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/parley-chat/parley/internal/domain/quota"
	"github.com/parley-chat/parley/internal/fault"
)

// run is one history of the property test.
type run struct {
	fixture

	limit  int64
	living []*quota.Service
	// steps are the kinds of step that this history has.
	steps []string
	// accepted is the number of messages that were reserved and not given back.
	accepted int64
	kept     []kept
	kills    int64
	// lost is the number of messages that killed processes were given back and did not flush.
	lost int64
	// back is what each process was given back since its last flush.
	back map[*quota.Service]int64
}

type kept struct {
	*quota.Reservation

	by *quota.Service
	n  int64
}

func (r *run) reserve(t *rapid.T, p *quota.Service, n int) {
	reserved, err := p.Reserve(t.Context(), r.org, r.limit, n)
	switch fault.Of(err) {
	case fault.QuotaExceeded, fault.ServiceUnavailable:
	default:
		require.NoError(t, err)
		r.accepted += int64(n)
		r.kept = append(r.kept, kept{reserved, p, int64(n)})
	}
}

func (r *run) step(t *rapid.T) {
	p := r.living[rapid.IntRange(0, len(r.living)-1).Draw(t, "process")]
	size := int(r.limit / 200)
	switch rapid.SampledFrom(r.steps).Draw(t, "what") {
	case "many":
		for range rapid.IntRange(1, 2*size+2).Draw(t, "times") {
			r.reserve(t, p, 1)
		}
	case "one":
		r.reserve(t, p, rapid.IntRange(1, size+1).Draw(t, "n"))
	case "large":
		r.reserve(t, p, rapid.IntRange(1, int(r.limit)/10).Draw(t, "n"))
	case "back":
		if len(r.kept) > 0 {
			i := rapid.IntRange(0, len(r.kept)-1).Draw(t, "reservation")
			one := r.kept[i]
			one.GiveBack()
			r.accepted -= one.n
			r.back[one.by] += one.n
			r.kept = append(r.kept[:i:i], r.kept[i+1:]...)
		}
	case "flush":
		require.NoError(t, p.Flush(t.Context()))
		r.back[p] = 0
	case "second":
		r.pass(t, t.Context(), r.living)
		clear(r.back)
	case "kill":
		r.kill(t)
	}
	require.LessOrEqual(t, r.accepted, r.limit+r.kills*int64(size), "accepted at most the limit and 0.5 %% per kill")
}

// kill drops a process without a flush, and starts another. What is given back later for the dead
// process is lost as well, so its reservations stay.
func (r *run) kill(t *rapid.T) {
	i := rapid.IntRange(0, len(r.living)-1).Draw(t, "killed")
	dead := r.living[i]
	r.living[i] = r.process()
	r.kills++
	r.lost += r.back[dead]
	var others []kept
	for _, one := range r.kept {
		if one.by != dead {
			others = append(others, one)
		}
	}
	r.kept = others
}

func TestReserve_AnyHistory_NeverMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	world := newFixture(t)
	rapid.Check(t, func(rt *rapid.T) {
		r := &run{fixture: world, back: map[*quota.Service]int64{}}
		r.org, _ = world.Org(t)
		r.limit = int64(rapid.IntRange(100, 4000).Draw(rt, "limit"))
		used := int(r.limit) * rapid.IntRange(70, 100).Draw(rt, "percent") / 100
		r.seed(t, used)
		r.accepted = int64(used)
		for range rapid.IntRange(1, 4).Draw(rt, "processes") {
			r.living = append(r.living, r.process())
		}
		// Each kill allows 0.5 % more, so that it hides other mistakes: half of the histories have none.
		r.steps = []string{"many", "many", "many", "one", "large", "back", "flush", "second"}
		if rapid.Bool().Draw(rt, "kills") {
			r.steps = append(r.steps, "kill")
		}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			r.step(rt)
		}
		r.drain(rt)
	})
}

// drain reserves until the quota is exceeded for each process, and then flushes.
func (r *run) drain(t *rapid.T) {
	r.pass(t, t.Context(), r.living)
	for _, p := range r.living {
		for r.decided(t, t.Context(), p, r.limit, 1, r.living) != nil {
			r.accepted++
		}
	}
	size := r.limit / 200
	require.LessOrEqual(t, r.accepted, r.limit+r.kills*size)
	require.GreaterOrEqual(t, r.accepted, r.limit-r.lost, "all that the plan includes was accepted")
	for _, p := range r.living {
		require.NoError(t, p.Close(t.Context()))
	}
	used, allowed := r.shared(t, t.Context())
	require.Equal(t, r.limit, used)
	require.Zero(t, allowed, "the others are those of dead processes")
}

func TestReserve_FourProcessesInParallel_ExactlyTheLimit(t *testing.T) {
	t.Parallel()
	const limit, left, demand, workers = 20_000, 3_000, 6_000, 120
	f := newFixture(t)
	f.seed(t, limit-left)
	var living []*quota.Service
	for range 4 {
		living = append(living, f.process())
	}
	var accepted, refused atomic.Int64
	var group sync.WaitGroup
	reserve := func(p *quota.Service) {
		for {
			_, err := p.Reserve(t.Context(), f.org, limit, 1)
			switch fault.Of(err) {
			case "":
				if assert.NoError(t, err) {
					accepted.Add(1)
				}
				return
			case fault.QuotaExceeded:
				refused.Add(1)
				return
			default: // another process counted in memory and has no more demand: its ticker flushes
				for _, p := range living {
					assert.NoError(t, p.Flush(t.Context()))
				}
			}
		}
	}
	for worker := range workers {
		group.Go(func() {
			for range demand / workers {
				reserve(living[worker%len(living)])
			}
		})
	}
	group.Wait()
	require.EqualValues(t, left, accepted.Load())
	require.EqualValues(t, demand-left, refused.Load())
	for _, p := range living {
		require.NoError(t, p.Close(t.Context()))
	}
	f.requireUsed(t, limit)
}
