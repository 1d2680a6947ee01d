package webhooks

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

func failedAt(at time.Time) outcome { return outcome{at: at, status: 500, code: "status"} }

func wentWell(at time.Time) outcome { return outcome{at: at, status: 204} }

// model states the rules in another way: it keeps the whole streak of failures.
type model struct{ streak []time.Time }

func (m *model) take(one outcome) {
	if one.succeeded() {
		m.streak = nil
		return
	}
	m.streak = append(m.streak, one.at)
}

func (m *model) disables(now time.Time) bool {
	return len(m.streak) >= 30 && !now.Before(m.streak[0].Add(24*time.Hour))
}

// For any history of attempts, in batches of any size, the subscription is disabled exactly
// when the last 30 or more attempts failed and the first of these is 24 hours old.
func TestHealth_AnyHistory_DisablesByTheRule(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var h health
		var m model
		now := noon
		pace := rapid.SampledFrom([]time.Duration{time.Minute, 30 * time.Minute, 47 * time.Minute, 50 * time.Minute, 3 * time.Hour}).Draw(t, "pace")
		rarely := rapid.IntRange(2, 60).Draw(t, "one in so many goes well")
		for range rapid.IntRange(1, 80).Draw(t, "batches") {
			var batch []outcome
			for range rapid.IntRange(1, 4).Draw(t, "size") {
				now = now.Add(time.Duration(rapid.Int64Range(0, int64(pace)).Draw(t, "wait")))
				one := failedAt(now)
				if rapid.IntRange(1, rarely).Draw(t, "luck") == 1 {
					one = wentWell(now)
				}
				m.take(one)
				batch = append(batch, one)
			}
			v := h.learn(batch, now)
			require.Equal(t, m.disables(now), v.disable == ReasonFailures, "%d in a row: %+v", len(m.streak), h)
			require.Equal(t, len(m.streak), h.ConsecutiveFailures)
			require.Equal(t, len(m.streak) >= breakerAt && v.disable == "", v.blocked != nil)
			if v.disable != "" {
				return
			}
		}
	})
}

// One attempt in thirty succeeds, for ever.
func TestHealth_SporadicFailures_NeverDisable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var h health
		now, bad := noon, 0
		for range 500 {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(6*time.Hour)).Draw(t, "wait")))
			one := failedAt(now)
			if bad++; bad == 30 || rapid.IntRange(0, 9).Draw(t, "luck") == 0 {
				one, bad = wentWell(now), 0
			}
			require.Empty(t, h.learn([]outcome{one}, now).disable)
		}
	})
}

func TestHealth_DisablesAtThirtyAndAtADay(t *testing.T) {
	t.Parallel()
	day := noon.Add(24 * time.Hour)
	for name, test := range map[string]struct {
		failures int
		last     time.Time
		disables bool
	}{
		"29 over a day":                {29, day, false},
		"30 over a day":                {30, day, true},
		"30 a millisecond too early":   {30, day.Add(-time.Millisecond), false},
		"1000 a millisecond too early": {1000, day.Add(-time.Millisecond), false},
		"1000 over a month":            {1000, noon.AddDate(0, 1, 0), true},
		"3 over a month":               {3, noon.AddDate(0, 1, 0), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var h health
			for range test.failures - 1 {
				require.Empty(t, h.learn([]outcome{failedAt(noon)}, noon).disable)
			}
			v := h.learn([]outcome{failedAt(test.last)}, test.last)
			require.Equal(t, test.disables, v.disable == ReasonFailures)
			require.Equal(t, test.failures, h.ConsecutiveFailures)
		})
	}
}

func TestHealth_GoneDisablesAtOnce(t *testing.T) {
	t.Parallel()
	var h health
	gone := outcome{at: noon, status: http.StatusGone, code: "status"}
	require.Equal(t, ReasonGone, h.learn([]outcome{gone}, noon).disable)
	h = health{}
	require.Equal(t, ReasonGone, h.learn([]outcome{failedAt(noon), gone, failedAt(noon)}, noon).disable)
}

func TestHealth_BreakerDoublesUpToAnHour(t *testing.T) {
	t.Parallel()
	var h health
	now := noon
	for range breakerAt - 1 {
		require.Nil(t, h.learn([]outcome{failedAt(now)}, now).blocked, "four in a row are let be")
	}
	want := []int{5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600, 3600}
	for _, seconds := range want {
		v := h.learn([]outcome{failedAt(now)}, now)
		require.NotNil(t, v.blocked)
		require.Equal(t, time.Duration(seconds)*time.Second, v.blocked.Sub(now))
		now = *v.blocked // the probe
	}
	require.Equal(t, verdict{changed: true}, h.learn([]outcome{wentWell(now)}, now))
	require.Equal(t, health{}, h, "a probe that goes well forgets everything")
}

func TestHealth_StepsPastTheTenthStayAnHour(t *testing.T) {
	t.Parallel()
	for step := 10; step < 100; step++ {
		h := health{BreakerStep: step}
		h.open(noon)
		require.Equal(t, time.Hour, h.BreakerUntil.Sub(noon), "step %d", step)
	}
}

// Attempts that were under way when the breaker opened end later, in batches of any size.
func TestHealth_FailuresUnderWay_OpenTheBreakerNoFurther(t *testing.T) {
	t.Parallel()
	var h health
	first := h.learn([]outcome{failedAt(noon), failedAt(noon), failedAt(noon), failedAt(noon), failedAt(noon)}, noon)
	for i := range 27 {
		now := noon.Add(time.Duration(i) * 100 * time.Millisecond)
		v := h.learn([]outcome{failedAt(noon)}, now)
		require.Equal(t, *first.blocked, *v.blocked)
	}
	require.Equal(t, 1, h.BreakerStep)
	require.Equal(t, 32, h.ConsecutiveFailures)
}

func TestHealth_WarnsOnceAtEachStep(t *testing.T) {
	t.Parallel()
	var h health
	warned := map[int][2]int{} // the step: at which failure, after how many hours
	for i := range 60 {
		now := noon.Add(time.Duration(i) * 48 * time.Minute) // 30 a day
		v := h.learn([]outcome{failedAt(now)}, now)
		if v.warn != 0 {
			require.NotContains(t, warned, v.warn, "warned twice")
			warned[v.warn] = [2]int{i + 1, int(now.Sub(noon).Hours() * 10)}
		}
		if v.disable != "" {
			require.Equal(t, 31, i+1, "24 hours after the first")
			break
		}
	}
	require.Equal(t, map[int][2]int{50: {16, 120}, 70: {22, 168}, 90: {28, 216}}, warned)
}

func TestHealth_WarnsByTimeAndCountTogether(t *testing.T) {
	t.Parallel()
	var h health
	for range 1000 {
		require.Zero(t, h.learn([]outcome{failedAt(noon)}, noon).warn, "many, but in no time")
	}
	half := noon.Add(12 * time.Hour)
	require.Zero(t, h.learn([]outcome{failedAt(half)}, half.Add(-time.Millisecond)).warn)
	require.Equal(t, 50, h.learn([]outcome{failedAt(half)}, half).warn)
	require.Zero(t, h.learn([]outcome{failedAt(half)}, half).warn)
	require.Equal(t, 90, h.learn([]outcome{failedAt(half)}, noon.Add(22*time.Hour)).warn, "what was missed is not made up for")
	require.Zero(t, h.learn([]outcome{failedAt(half)}, noon.Add(23*time.Hour)).warn)

	h = health{}
	require.Zero(t, h.learn([]outcome{failedAt(noon)}, noon).warn)
	require.Zero(t, h.learn([]outcome{failedAt(half)}, noon.Add(23*time.Hour)).warn, "long, but few")
}

func TestHealth_SuccessStartsTheWarningsAnew(t *testing.T) {
	t.Parallel()
	var h health
	for range 2 {
		for range 15 {
			h.learn([]outcome{failedAt(noon)}, noon)
		}
		require.Equal(t, 50, h.learn([]outcome{failedAt(noon)}, noon.Add(12*time.Hour)).warn)
		h.learn([]outcome{wentWell(noon)}, noon.Add(12*time.Hour))
	}
}
