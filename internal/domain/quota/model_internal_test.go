package quota

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/parley-chat/parley/internal/platform/postgres"
)

// model runs the rules of counters and months without a database, so that a flush can be
// interrupted at each of its steps.
type model struct {
	now      time.Time
	limit    int64
	month    month
	living   []*modelProcess
	started  int
	accepted int64
	// forgotten is the number of times that a process died or lost an answer.
	forgotten int64
	// steps are the kinds of step that this history has.
	steps []string
}

type modelProcess struct {
	counter

	name string
	mine int64
	// under is the flush under way; applied means that the row has it and the answer is on its way.
	under   flush
	applied bool
	result  result
}

func (m *model) start() *modelProcess {
	m.started++
	return &modelProcess{name: fmt.Sprint(m.started)}
}

func (m *model) reserve(p *modelProcess, n int64) {
	allowed, until := m.month.allowed()
	if until == nil || !until.After(m.now) {
		allowed = 0
	}
	if p.count(m.now, m.limit, n) {
		m.accepted, p.mine = m.accepted+n, p.mine+n
	} else if m.month.Used+n+allowed <= m.limit {
		m.month.Used += n
		m.accepted, p.mine = m.accepted+n, p.mine+n
	}
}

func (m *model) depart(p *modelProcess, size int64) {
	if p.flight == nil {
		p.counter.start(m.limit, size)
		p.under, p.applied = p.depart(m.now, p.name), false
	}
}

func (m *model) apply(p *modelProcess) {
	if p.flight != nil && !p.applied {
		p.result, p.applied = m.month.apply(p.under), true
	}
}

func (m *model) arrive(p *modelProcess, err error) {
	if p.flight == nil {
		return
	}
	switch {
	case err != nil:
		m.forgotten++
	case !p.applied:
		err = errors.New("rolled back")
	}
	p.arrive(p.under, p.result, err)
	p.flight = nil
}

// second lets each process finish its flush and flush once more, as its ticker does.
func (m *model) second() {
	m.now = m.now.Add(FlushEvery)
	for _, p := range m.living {
		for range 2 {
			size := int64(0)
			if m.now.Before(p.countUntil) {
				size = sizeOf(m.limit)
			}
			m.depart(p, size)
			m.apply(p)
			m.arrive(p, nil)
		}
	}
}

func (m *model) step(t *rapid.T) {
	i := rapid.IntRange(0, len(m.living)-1).Draw(t, "process")
	p := m.living[i]
	switch rapid.SampledFrom(m.steps).Draw(t, "what") {
	case "reserve":
		m.reserve(p, int64(rapid.IntRange(1, 30).Draw(t, "n")))
	case "many":
		for range rapid.IntRange(1, 200).Draw(t, "times") {
			m.reserve(p, 1)
		}
	case "take all":
		for before := int64(-1); before != m.accepted; {
			before = m.accepted
			m.reserve(p, 1)
		}
	case "flush":
		m.depart(p, sizeOf(m.limit))
		m.apply(p)
		m.arrive(p, nil)
	case "depart":
		m.depart(p, sizeOf(m.limit))
	case "apply":
		m.apply(p)
	case "arrive":
		m.arrive(p, nil)
	case "back":
		n := rapid.Int64Range(0, p.mine).Draw(t, "n")
		p.pending, p.mine, m.accepted = p.pending-n, p.mine-n, m.accepted-n
	case "second":
		m.second()
	case "lost":
		m.arrive(p, postgres.ErrUnanswered)
	case "kill":
		m.living[i] = m.start()
		m.forgotten++
	case "exact":
		until := m.now.Add(exactFor)
		m.month.ExactUntil = &until
	}
}

func TestModel_FlushesInterrupted_NeverMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &model{
			now:   time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC),
			limit: int64(rapid.IntRange(150, 2000).Draw(t, "limit")),
			month: month{Allowances: map[string]allowance{}},
		}
		m.accepted = m.limit * int64(rapid.IntRange(80, 100).Draw(t, "percent")) / 100
		m.month.Used = m.accepted
		for range rapid.IntRange(1, 25).Draw(t, "processes") {
			m.living = append(m.living, m.start())
		}
		// Each kill allows 0.5 % more, so that it hides other mistakes: most histories have none.
		m.steps = []string{"reserve", "many", "many", "take all", "depart", "apply", "arrive", "flush", "flush"}
		for _, rare := range []string{"back", "second", "lost", "kill", "exact"} {
			if rapid.IntRange(0, 3).Draw(t, rare) == 0 {
				m.steps = append(m.steps, rare)
			}
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			m.step(t)
			require.LessOrEqual(t, m.accepted, m.limit+m.forgotten*sizeOf(m.limit))
		}
		m.second()
		m.second()
		if m.forgotten == 0 {
			require.Equal(t, m.accepted, m.month.Used)
		}
	})
}

func TestCounter_GivenBackDuringAFlush_AllowanceNotExceeded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)
	c := counter{limit: 200, allowance: 1, countUntil: now.Add(countFor), pending: -5}
	c.start(200, 1)
	require.Equal(t, flush{process: "p", now: now, limit: 200, add: -5, size: 1, keep: 1}, c.depart(now, "p"))
	require.True(t, c.count(now, 200, 1))
	require.False(t, c.count(now, 200, 1), "other processes may have the five already")
}

func TestCounter_AnswerLost_AddsNothingTwiceAndStopsCounting(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)
	c := counter{limit: 2000, allowance: 10, countUntil: now.Add(countFor), pending: 4}
	c.start(2000, 10)
	f := c.depart(now, "p")
	require.True(t, c.count(now, 2000, 1))
	require.EqualValues(t, 4, c.arrive(f, result{}, postgres.ErrUnanswered))
	require.EqualValues(t, 1, c.pending)
	require.False(t, c.count(now, 2000, 1), "the row may have denied an allowance")
	require.True(t, c.needsFlush(now, 2000, 1))
}
