package webhooks

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/parley-chat/parley/internal/platform/safehttp"
)

// schedule lists the waits after the first, second, … attempt, as the specification does.
var schedule = []time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 10 * time.Hour,
}

// requireWithin checks a wait against its step: ten percent to both sides, times in whole milliseconds.
func requireWithin(t require.TestingT, step, wait time.Duration) {
	require.GreaterOrEqual(t, wait, step*9/10-time.Millisecond)
	require.LessOrEqual(t, wait, step*11/10)
	require.Zero(t, wait%time.Millisecond, "a printed time compares equal")
}

func TestNext_EveryStepWithinItsJitter(t *testing.T) {
	t.Parallel()
	for i, step := range schedule {
		least, most := time.Duration(1<<62), time.Duration(0)
		for range 2000 {
			at := next(noon, i+1, failedAt(noon), noon)
			require.NotNil(t, at)
			requireWithin(t, step, at.Sub(noon))
			least, most = min(least, at.Sub(noon)), max(most, at.Sub(noon))
		}
		require.Less(t, least, step*92/100, "attempt %d is spread over its jitter", i+1)
		require.Greater(t, most, step*108/100, "attempt %d is spread over its jitter", i+1)
	}
}

func TestNext_GivesUpAfterTheTenthOnceADayOld(t *testing.T) {
	t.Parallel()
	day := noon.Add(24 * time.Hour)
	for attempt := 1; attempt <= 40; attempt++ {
		old := next(noon, attempt, failedAt(day), day)
		require.Equal(t, attempt >= 10, old == nil, "attempt %d of one that is 24 hours old", attempt)
		young := next(noon, attempt, failedAt(day), day.Add(-time.Millisecond))
		require.NotNil(t, young, "attempt %d of one that is younger", attempt)
		if attempt >= 10 {
			requireWithin(t, 10*time.Hour, young.Sub(day.Add(-time.Millisecond)))
		}
	}
}

// TestNext_RetryAfter_WaitAtEachStep gives what the endpoint asked for and the wait it gets, at each step.
func TestNext_RetryAfter_WaitAtEachStep(t *testing.T) {
	t.Parallel()
	date := func(in time.Duration) string { return noon.Add(in).Format(http.TimeFormat) }
	for i, step := range schedule {
		seconds := int64(step / time.Second)
		for asked, want := range map[string]time.Duration{
			fmt.Sprint(seconds * 3 / 2):               time.Duration(seconds*3/2) * time.Second,
			fmt.Sprint(seconds * 2):                   2 * step,
			fmt.Sprint(seconds*2 + 1):                 2 * step,
			"2147483647":                              2 * step,
			"2147483648":                              2 * step,
			"99999999999":                             2 * step,
			"18446744073709551616":                    2 * step,
			"999999999999999999999999999999999":       2 * step,
			date(2 * step):                            2 * step,
			date(1000 * time.Hour):                    2 * step,
			"Fri, 31 Dec 9999 23:59:59 GMT":           2 * step,
			noon.Add(2 * step).Format(time.RFC850):    2 * step,
			noon.Add(2 * step).Format(time.ANSIC):     2 * step,
			fmt.Sprintf("000%d", seconds*2):           2 * step,
			date(step + max(3*time.Second, step/2)):   step + max(3*time.Second, step/2),
			fmt.Sprint(seconds + max(1, seconds*3/4)): step + time.Duration(max(1, seconds*3/4))*time.Second,
		} {
			at := next(noon, i+1, outcome{retryAfter: asked, code: "status", status: 429}, noon)
			got := at.Sub(noon)
			require.True(t, got == want || got > want && got <= step*11/10, "asked %q after attempt %d: got %s, want %s", asked, i+1, got, want)
		}
		for _, asked := range []string{
			"", "0", "1", "-1", "-99999999999", "soon", "1.5", "1e9", "0x10", "５", " 5", "5 s", date(-time.Hour), "Thu, 01 Jan 1970 00:00:00 GMT",
			"Sat, 32 Mar 2026 12:00:00 GMT", "2026-03-15T12:00:00Z", "+99999", "99999,99999", "\x00",
		} {
			at := next(noon, i+1, outcome{retryAfter: asked, code: "status", status: 503}, noon)
			requireWithin(t, step, at.Sub(noon))
		}
	}
}

func TestNext_AnyRetryAfterStaysBetweenTheStepAndItsDouble(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		asked := rapid.OneOf(rapid.String(), rapid.StringMatching(`-?[0-9]{0,25}`)).Draw(t, "Retry-After")
		attempt := rapid.IntRange(1, 9).Draw(t, "attempt")
		step := schedule[attempt-1]
		wait := next(noon, attempt, outcome{retryAfter: asked, code: "status"}, noon).Sub(noon)
		require.GreaterOrEqual(t, wait, step*9/10-time.Millisecond)
		require.LessOrEqual(t, wait, 2*step)
	})
}

// 2xx is success, 3xx a redirect.
func TestErrorCode_EachStatus(t *testing.T) {
	t.Parallel()
	for status := 100; status < 1000; status++ {
		want := "status"
		switch status / 100 {
		case 2:
			want = ""
		case 3:
			want = "redirect"
		}
		require.Equal(t, want, errorCode(safehttp.Answer{Status: status}, nil), "%d", status)
	}
}
