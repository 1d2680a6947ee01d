package simulator_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCallbacks_Delay_FirstPostIsLater(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		start := time.Now()
		f.control("inbound", object{"from": ada})
		f.advance(2999 * time.Millisecond)
		require.Empty(t, f.takePosts())
		status, _ := f.tick()
		require.Equal(t, "waiting", status)
		f.advance(3 * time.Second)
		posts := f.takePosts()
		require.Len(t, posts, 2, "the duplicate too")
		require.Equal(t, 3*time.Second, posts[0].at.Sub(start))
		require.Greater(t, posts[1].at.Sub(start), 3*time.Second)
		status, _ = f.tick()
		require.Equal(t, "delivered", status)
		code, _ := f.call(http.MethodPost, "/sim/settings", "", object{"callback_delay_ms": -1})
		require.Equal(t, http.StatusBadRequest, code)
	}, object{"callback_delay_ms": 3000, "duplicate": 1})
}

func TestCallbacks_Log_TellsTheFateOfEachPost(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		var answer atomic.Int64
		answer.Store(http.StatusInternalServerError)
		f.status = func(post) int { return int(answer.Load()) }
		f.control("inbound", object{"from": ada, "text": object{"body": "first"}})
		f.advance(1500 * time.Millisecond)
		answer.Store(http.StatusOK)
		f.advance(time.Minute)
		f.control("settings", object{"drop": 1})
		f.control("inbound", object{"from": ada, "text": object{"body": "second"}})
		list := func(query string) (lines []any) {
			_, answered := f.call(http.MethodGet, "/sim/callbacks"+query, "", nil)
			return answered["data"].([]any)
		}
		var told [][]any
		for _, line := range list("") {
			told = append(told, []any{dig(line, "attempt"), dig(line, "status"), dig(line, "fate")})
		}
		require.Equal(t, [][]any{{0.0, 0.0, "dropped"}, {3.0, 200.0, "answered"}, {2.0, 500.0, "retrying"}, {1.0, 500.0, "retrying"}}, told)
		first := list("?skip=3")[0]
		at, err := time.Parse(time.RFC3339, dig(first, "at").(string))
		require.NoError(t, err)
		require.Equal(t, at.Add(time.Second).Format(time.RFC3339), dig(first, "retry_at"))
		message := []any{"body", "entry", 0, "changes", 0, "value", "messages", 0, "text", "body"}
		latest := list("?latest=true")
		require.Len(t, latest, 2)
		require.Equal(t, []any{"second", "first"}, []any{dig(latest[0], message...), dig(latest[1], message...)})
		require.InDelta(t, 3, dig(latest[1], "attempt"), 0)
		require.Len(t, list("?latest=true&limit=1"), 1)
	})
}
