package simulator_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/simulator"
)

// tick returns the status of Ada's newest message, and the latest post of its callback.
func (f *fixture) tick() (status any, callback object) {
	f.t.Helper()
	_, thread := f.call(http.MethodGet, "/sim/thread?phone_number_id="+simulator.DefaultPhoneNumberID+"&user="+ada, "", nil)
	messages := thread["data"].([]any)
	last := messages[len(messages)-1].(object)
	callback, _ = last["callback"].(object)
	return last["status"], callback
}

func TestTicks_UsersMessage_FollowTheCallback(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		var answer atomic.Int64
		answer.Store(http.StatusServiceUnavailable)
		f.status = func(post) int { time.Sleep(100 * time.Millisecond); return int(answer.Load()) }
		id := f.control("inbound", object{"from": ada})["id"]
		status, callback := f.tick()
		require.Equal(t, "waiting", status, "the callback is not answered")
		require.Nil(t, callback)
		f.advance(200 * time.Millisecond)
		status, callback = f.tick()
		require.Equal(t, "retrying", status)
		require.Equal(t, object{"attempt": 1.0, "status": 503.0}, callback)
		f.advance(1200 * time.Millisecond)
		_, callback = f.tick()
		require.InDelta(t, 2, callback["attempt"], 0)
		answer.Store(http.StatusOK)
		f.advance(5 * time.Second)
		status, callback = f.tick()
		require.Equal(t, "delivered", status)
		require.Equal(t, object{"attempt": 3.0, "status": 200.0}, callback)
		read := object{"messaging_product": "whatsapp", "status": "read", "message_id": id}
		_, _ = f.graph(http.MethodPost, simulator.DefaultPhoneNumberID+"/messages", read)
		status, _ = f.tick()
		require.Equal(t, "read", status)
	})
}

func TestTicks_UsersMessageNeverDelivered_SaysSo(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.control("settings", object{"drop": 1})
		f.control("inbound", object{"from": ada})
		status, callback := f.tick()
		require.Equal(t, "dropped", status)
		require.Equal(t, object{"attempt": 0.0, "status": 0.0, "error": "dropped by the setting drop"}, callback)
		require.Empty(t, f.takePosts())

		f.control("settings", object{"drop": 0, "redeliver_for_seconds": 10})
		f.status = func(post) int { return http.StatusNotFound }
		f.control("inbound", object{"from": ada})
		f.advance(time.Minute)
		status, callback = f.tick()
		require.Equal(t, "dropped", status, "given up")
		require.Equal(t, object{"attempt": 4.0, "status": 404.0}, callback)

		f.control("apps", object{"id": simulator.DefaultAppID, "callback_url": ""})
		f.control("inbound", object{"from": ada})
		status, _ = f.tick()
		require.Equal(t, "sent", status, "no app has a callback URL")
	})
}

func TestTicks_SeveralApps_WaitForAllOfThem(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		second := f.control("apps", object{"callback_url": "http://second.test/"})
		f.control("accounts", object{"id": simulator.DefaultAccountID, "subscribed": []any{second["id"]}})
		f.status = func(p post) int {
			if p.url == "http://second.test/" {
				time.Sleep(time.Second)
			}
			return http.StatusOK
		}
		f.control("inbound", object{"from": ada})
		f.advance(500 * time.Millisecond)
		status, _ := f.tick()
		require.Equal(t, "waiting", status)
		f.advance(time.Second)
		status, _ = f.tick()
		require.Equal(t, "delivered", status)
	}, object{"duplicate": 1})
}
