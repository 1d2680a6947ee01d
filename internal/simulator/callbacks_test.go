package simulator_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/simulator"
	"github.com/parley-chat/parley/internal/testkit/canary"
)

func TestCallbacks_NotAnsweredWith200_RedeliveredWithBackoff(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		start := time.Now()
		f.status = func(post) int {
			if time.Since(start) < 10*time.Second {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		}
		f.control("inbound", object{"from": ada})
		f.advance(time.Minute)
		posts := f.takePosts()
		var after []time.Duration
		for _, p := range posts {
			require.Equal(t, posts[0].raw, p.raw, "the same bytes each time")
			require.Equal(t, posts[0].signature, p.signature)
			after = append(after, p.at.Sub(start))
		}
		require.Equal(t, []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second}, after)
	})
}

func TestCallbacks_NeverAccepted_GivenUpAfterSevenDays(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.status = func(post) int { return http.StatusNotFound }
		f.control("inbound", object{"from": ada})
		f.advance(8 * 24 * time.Hour)
		require.InDelta(t, 12+7*24, len(f.takePosts()), 3, "every hour after the backoff, for seven days")
		_, stats := f.call(http.MethodGet, "/sim/stats", "", nil)
		require.InDelta(t, 1, stats["given_up"], 0)
		require.InDelta(t, 0, stats["scheduled"], 0)
	})
}

func TestCallbacks_PostInFlight_CountsAsWaiting(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.status = func(post) int { time.Sleep(time.Second); return http.StatusOK }
		f.control("inbound", object{"from": ada})
		f.advance(time.Millisecond)
		_, stats := f.call(http.MethodGet, "/sim/stats", "", nil)
		require.InDelta(t, 1, stats["waiting"], 0)
		f.advance(time.Second)
		_, stats = f.call(http.MethodGet, "/sim/stats", "", nil)
		require.InDelta(t, 0, stats["waiting"], 0)
	})
}

func TestCallbacks_Shuffle_AllOrdersOccur(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		seen := map[string]bool{}
		for range 40 {
			f.accepted(template(ada, "hello_world"))
			f.advance(6 * time.Second)
			statuses := f.statuses()
			require.Len(t, statuses, 3)
			var last float64
			for _, status := range statuses {
				last = max(last, rankOf(status))
			}
			require.InDelta(t, 3, last, 0)
			seen[names(statuses)] = true
		}
		require.Len(t, seen, 6, "all orders occur: %v", seen)
	}, object{"shuffle": true})
}

func rankOf(status object) float64 {
	return map[string]float64{"sent": 1, "delivered": 2, "read": 3}[status["status"].(string)]
}

func TestCallbacks_DuplicateDropSilent_ChangeHowManyArrive(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.accepted(message(ada))
		f.advance(5 * time.Second)
		require.Len(t, f.statuses(), 6)
	}, object{"duplicate": 1})
	run(t, func(f *fixture) {
		f.accepted(message(ada))
		f.advance(5 * time.Second)
		require.Empty(t, f.statuses())
	}, object{"drop": 1})
	run(t, func(f *fixture) {
		f.accepted(message(ada))
		f.control("inbound", object{"from": ada})
		f.advance(5 * time.Second)
		require.Len(t, f.changes(), 1, "silent leaves out statuses only")
	}, object{"silent": true})
}

func TestCallbacks_DropMessages_NoStatusOfTheMessageEverComes(t *testing.T) {
	t.Parallel()
	const count = 400
	run(t, func(f *fixture) {
		var decisions [2][]bool
		for round := range decisions {
			f.control("reset", nil)
			f.control("settings", object{"drop_messages": 0.25, "duplicate": 0.5, "shuffle": true, "pair_limit": false, "throughput_limit": false, "window": "off"})
			var posted atomic.Int64
			f.status = func(post) int {
				if posted.Add(1)%2 == 0 { // is redelivered
					return http.StatusServiceUnavailable
				}
				return http.StatusOK
			}
			for i := range count {
				f.accepted(message(fmt.Sprintf("1555012%04d", i)))
				f.advance(time.Millisecond)
			}
			f.control("inbound", object{"from": ada})
			f.advance(time.Hour)
			reported, inbound := map[any]int{}, 0
			for _, c := range f.changes() {
				if list, ok := c.value["statuses"].([]any); ok {
					reported[dig(list, 0, "id")]++
				} else {
					inbound++
				}
			}
			require.Positive(t, inbound, "messages of users are not dropped")
			dropped := 0
			for _, entry := range f.sent("") {
				isDropped := dig(entry, "callbacks_dropped") == true
				decisions[round] = append(decisions[round], isDropped)
				if isDropped {
					dropped++
					require.Zero(t, reported[dig(entry, "id")])
				} else {
					require.Nil(t, dig(entry, "callbacks_dropped"))
					require.GreaterOrEqual(t, reported[dig(entry, "id")], 3)
				}
			}
			require.InDelta(t, count/4, dropped, count/10)
			_, stats := f.call(http.MethodGet, "/sim/stats", "", nil)
			require.InDelta(t, 3*dropped, stats["lost"], 0)
		}
		require.Equal(t, decisions[0], decisions[1], "the seed decides")
		_, thread := f.call(http.MethodGet, "/sim/thread?phone_number_id="+simulator.DefaultPhoneNumberID+"&user=15550120000", "", nil)
		require.Equal(t, "read", dig(thread, "data", 0, "status"), "the user read it all the same")
	})
	for _, settings := range []object{{"drop_messages": 1}, {"silent": true}} {
		run(t, func(f *fixture) {
			f.accepted(message(ada))
			f.script(object{"to": ada}, object{"async_code": 131049})
			f.accepted(message(ada))
			f.advance(time.Minute)
			require.Empty(t, f.takePosts())
			for _, entry := range f.sent("") {
				require.Equal(t, true, dig(entry, "callbacks_dropped"))
			}
		}, settings)
	}
	run(t, func(f *fixture) {
		for _, share := range []float64{-0.1, 1.1} {
			status, _ := f.call(http.MethodPost, "/sim/settings", "", object{"drop_messages": share})
			require.Equal(t, http.StatusBadRequest, status)
		}
	})
}

func TestCallbacks_ReceiverDown_RedeliveredUntilAnswered(t *testing.T) {
	t.Parallel()
	const sends, down = 100, 40 * time.Second
	run(t, func(f *fixture) {
		start := time.Now()
		f.down = func() bool { return time.Since(start) < down }
		for i := range sends {
			f.accepted(message(fmt.Sprintf("1555012%04d", i)))
		}
		f.advance(down - time.Millisecond)
		if received := len(f.takePosts()); received > 0 { // require.Empty would print the posts
			t.Fatalf("%d callbacks were received", received)
		}
		f.advance(time.Second)
		posts := f.takePosts()
		require.Len(t, posts, 3*sends, "each callback, once, within a second")
		bodies := map[string]bool{}
		for _, p := range posts {
			bodies[string(p.raw)] = true
		}
		require.Len(t, bodies, 3*sends)
		_, stats := f.call(http.MethodGet, "/sim/stats", "", nil)
		for name, want := range map[string]float64{"given_up": 0, "lost": 0, "waiting": 0, "scheduled": 0} {
			require.InDelta(t, want, stats[name], 0, name)
		}
	}, object{"redeliver_after_ms": 500, "redeliver_max_ms": 500, "window": "off", "throughput_limit": false})
}

func TestCallbacks_Reset_OldCallbacksAreNotRedelivered(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.status = func(post) int { time.Sleep(time.Second); return http.StatusServiceUnavailable }
		for range 100 {
			f.control("inbound", object{"from": ada})
		}
		f.advance(1500 * time.Millisecond)
		require.NotEmpty(t, f.takePosts())
		f.control("reset", nil)
		f.advance(time.Hour)
		require.Empty(t, f.takePosts())
	})
}

func TestCallbacks_BatchSize_WaitingUpdatesShareAPost(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.status = func(post) int { time.Sleep(time.Second); return http.StatusOK }
		for range 16 { // each worker waits for its answer
			f.control("inbound", object{"from": ada})
			f.advance(0)
		}
		for range 25 { // these are queued until a worker is free
			f.control("inbound", object{"from": ada})
		}
		f.advance(10 * time.Second)
		sizes := map[int]int{}
		for _, p := range f.takePosts() {
			require.Len(t, p.body["entry"], 1, "one entry per account")
			sizes[len(dig(p.body, "entry", 0, "changes").([]any))]++
		}
		total := 0
		for size, count := range sizes {
			require.LessOrEqual(t, size, 10)
			total += size * count
		}
		require.Equal(t, 41, total)
		require.Equal(t, 2, sizes[10])
	}, object{"batch_size": 10})
}

func TestCallbacks_Override_NumberBeforeAccountBeforeApp(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("hub.verify_token") != "right" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			_, _ = w.Write([]byte(r.URL.Query().Get("hub.challenge")))
		})
		where := func() string {
			f.control("inbound", object{"from": ada})
			f.advance(0)
			return f.takePosts()[0].url
		}
		require.Equal(t, callbackURL, where())
		override := func(path string, body object) int {
			f.hosts["account.test"], f.hosts["number.test"] = echo, echo
			status, _ := f.graph(http.MethodPost, path, body)
			clear(f.hosts)
			return status
		}
		require.Equal(t, http.StatusBadRequest, override("400000000000001/subscribed_apps", object{"override_callback_uri": "http://account.test/", "verify_token": "wrong"}))
		require.Equal(t, http.StatusOK, override("400000000000001/subscribed_apps", object{"override_callback_uri": "http://account.test/", "verify_token": "right"}))
		require.Equal(t, "http://account.test/", where())
		require.Equal(t, http.StatusOK, override("100000000000001", object{"webhook_configuration": object{"override_callback_uri": "http://number.test/", "verify_token": "right"}}))
		require.Equal(t, "http://number.test/", where())
		require.Equal(t, http.StatusOK, override("100000000000001", object{"webhook_configuration": object{"override_callback_uri": ""}}))
		require.Equal(t, http.StatusOK, override("400000000000001/subscribed_apps", object{}))
		require.Equal(t, callbackURL, where())
		status, _ := f.graph(http.MethodDelete, "400000000000001/subscribed_apps", nil)
		require.Equal(t, http.StatusOK, status)
		f.control("inbound", object{"from": ada})
		f.advance(0)
		require.Empty(t, f.takePosts(), "no app is subscribed")
	})
}

func TestCallbacks_TwoApps_EachGetsItsFieldsWithItsSignature(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		second := f.control("apps", object{"callback_url": "http://second.test/", "app_secret": "second", "fields": []string{"messages"}})
		f.control("accounts", object{"id": simulator.DefaultAccountID, "subscribed": []any{second["id"]}})
		f.control("inbound", object{"from": ada})
		f.advance(0)
		posts := f.takePosts()
		require.Len(t, posts, 2)
		for _, p := range posts {
			secret := canary.AppSecret
			if p.url != callbackURL {
				secret = "second"
			}
			mac := hmac.New(sha256.New, []byte(secret))
			mac.Write(p.raw)
			require.Equal(t, "sha256="+hex.EncodeToString(mac.Sum(nil)), p.signature)
		}
		f.control("notify", object{"field": "security"})
		f.advance(0)
		require.Len(t, f.takePosts(), 1, "the second app subscribed to messages only")
		f.sim.SetCallbackURL("http://moved.test/")
		f.control("reset", nil)
		f.control("inbound", object{"from": ada})
		f.advance(0)
		require.Equal(t, "http://moved.test/", f.takePosts()[0].url)
	})
}

func TestRead_OneMessage_MarksTheEarlierOnesToo(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		var ids []any
		for range 3 {
			ids = append(ids, f.control("inbound", object{"from": ada})["id"])
			f.advance(time.Second)
		}
		read := func(id any) int {
			status, _ := f.graph(http.MethodPost, simulator.DefaultPhoneNumberID+"/messages", object{
				"messaging_product": "whatsapp", "status": "read", "message_id": id, "typing_indicator": object{"type": "text"},
			})
			return status
		}
		require.Equal(t, http.StatusOK, read(ids[1]))
		_, thread := f.call(http.MethodGet, "/sim/thread?phone_number_id=100000000000001&user="+ada, "", nil)
		for i, want := range []string{"read", "read", "delivered"} {
			require.Equal(t, want, dig(thread, "data", i, "status"))
		}
		_, receipts := f.call(http.MethodGet, "/sim/receipts?phone_number_id="+simulator.DefaultPhoneNumberID, "", nil)
		require.Len(t, receipts["data"], 1, "one per request, not one per message")
		require.Equal(t, []any{ids[1], true}, []any{dig(receipts, "data", 0, "message_id"), dig(receipts, "data", 0, "typing")})
		require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, dig(receipts, "data", 0, "at"))
		_, receipts = f.call(http.MethodGet, "/sim/receipts?phone_number_id=1", "", nil)
		require.Empty(t, receipts["data"])

		f.script(object{"edge": "read", "to": ada}, object{"sync_code": 131000})
		require.Equal(t, http.StatusInternalServerError, read(ids[2]))
		_, receipts = f.call(http.MethodGet, "/sim/receipts?message_id="+ids[2].(string), "", nil)
		require.Empty(t, receipts["data"], "a refused one is not recorded")
		require.Equal(t, http.StatusOK, read(ids[2]))
		_, receipts = f.call(http.MethodGet, "/sim/receipts", "", nil)
		require.Equal(t, []any{ids[2], ids[1]}, []any{dig(receipts, "data", 0, "message_id"), dig(receipts, "data", 1, "message_id")}, "newest first")

		require.Equal(t, http.StatusBadRequest, read("wamid.nonsense"))
		require.Equal(t, http.StatusBadRequest, read(f.accepted(message(ada))), "a message that was sent, not received")
	})
}
