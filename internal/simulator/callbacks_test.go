package simulator_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/simulator"
	"github.com/parley-chat/parley/internal/testkit/canary"
)

func TestCallbacks_AreRedeliveredLessAndLessOften(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		began := time.Now()
		s.status = func(post) int {
			if time.Since(began) < 10*time.Second {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		}
		s.sim1("inbound", object{"from": ada})
		s.pass(time.Minute)
		posts := s.taken()
		var after []time.Duration
		for _, p := range posts {
			require.Equal(t, posts[0].raw, p.raw, "the same bytes each time")
			require.Equal(t, posts[0].signature, p.signature)
			after = append(after, p.at.Sub(began))
		}
		require.Equal(t, []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second}, after)
	})
}

func TestCallbacks_AreGivenUpInTheEnd(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		s.status = func(post) int { return http.StatusNotFound }
		s.sim1("inbound", object{"from": ada})
		s.pass(8 * 24 * time.Hour)
		require.InDelta(t, 12+7*24, len(s.taken()), 3, "hourly in the end, for seven days")
		_, stats := s.call(http.MethodGet, "/sim/stats", "", nil)
		require.InDelta(t, 1, stats["given_up"], 0)
		require.InDelta(t, 0, stats["scheduled"], 0)
	})
}

func TestCallbacks_InAnyOrder(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		seen := map[string]bool{}
		for range 40 {
			s.accepted(template(ada, "hello_world"))
			s.pass(6 * time.Second)
			statuses := s.statuses()
			require.Len(t, statuses, 3)
			var last float64
			for _, one := range statuses {
				last = max(last, rankOf(one))
			}
			require.InDelta(t, 3, last, 0)
			seen[names(statuses)] = true
		}
		require.Len(t, seen, 6, "all orders come up: %v", seen)
	}, object{"shuffle": true})
}

func rankOf(status object) float64 {
	return map[string]float64{"sent": 1, "delivered": 2, "read": 3}[status["status"].(string)]
}

func TestCallbacks_TwiceOrNever(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		s.accepted(message(ada))
		s.pass(5 * time.Second)
		require.Len(t, s.statuses(), 6)
	}, object{"duplicate": 1})
	play(t, func(s *scene) {
		s.accepted(message(ada))
		s.pass(5 * time.Second)
		require.Empty(t, s.statuses())
	}, object{"drop": 1})
	play(t, func(s *scene) {
		s.accepted(message(ada))
		s.sim1("inbound", object{"from": ada})
		s.pass(5 * time.Second)
		require.Len(t, s.changes(), 1, "silent is about statuses alone")
	}, object{"silent": true})
}

func TestCallbacks_InBatches(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		s.status = func(post) int { time.Sleep(time.Second); return http.StatusOK }
		for range 16 { // each of the couriers is out with one
			s.sim1("inbound", object{"from": ada})
			s.pass(0)
		}
		for range 25 { // and these wait for one to come back
			s.sim1("inbound", object{"from": ada})
		}
		s.pass(10 * time.Second)
		sizes := map[int]int{}
		for _, p := range s.taken() {
			require.Len(t, p.body["entry"], 1, "one account, one entry")
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

func TestCallbacks_GoToTheNearestOverride(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("hub.verify_token") != "right" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			_, _ = w.Write([]byte(r.URL.Query().Get("hub.challenge")))
		})
		where := func() string {
			s.sim1("inbound", object{"from": ada})
			s.pass(0)
			return s.taken()[0].url
		}
		require.Equal(t, callbackURL, where())
		override := func(path string, body object) int {
			s.hosts["account.test"], s.hosts["number.test"] = echo, echo
			status, _ := s.graph(http.MethodPost, path, body)
			clear(s.hosts)
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
		status, _ := s.graph(http.MethodDelete, "400000000000001/subscribed_apps", nil)
		require.Equal(t, http.StatusOK, status)
		s.sim1("inbound", object{"from": ada})
		s.pass(0)
		require.Empty(t, s.taken(), "nobody is subscribed")
	})
}

func TestCallbacks_GoToEverySubscribedApp(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		second := s.sim1("apps", object{"callback_url": "http://second.test/", "app_secret": "second", "fields": []string{"messages"}})
		s.sim1("accounts", object{"id": simulator.DefaultAccountID, "subscribed": []any{second["id"]}})
		s.sim1("inbound", object{"from": ada})
		s.pass(0)
		posts := s.taken()
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
		s.sim1("notify", object{"field": "security"})
		s.pass(0)
		require.Len(t, s.taken(), 1, "the second app wants messages alone")
		s.sim.SetCallbackURL("http://moved.test/")
		s.sim1("reset", nil)
		s.sim1("inbound", object{"from": ada})
		s.pass(0)
		require.Equal(t, "http://moved.test/", s.taken()[0].url)
	})
}

func TestRead_MarksAllBefore(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		var ids []any
		for range 3 {
			ids = append(ids, s.sim1("inbound", object{"from": ada})["id"])
			s.pass(time.Second)
		}
		read := func(id any) int {
			status, _ := s.graph(http.MethodPost, simulator.DefaultPhoneNumberID+"/messages", object{
				"messaging_product": "whatsapp", "status": "read", "message_id": id, "typing_indicator": object{"type": "text"},
			})
			return status
		}
		require.Equal(t, http.StatusOK, read(ids[1]))
		_, thread := s.call(http.MethodGet, "/sim/thread?phone_number_id=100000000000001&user="+ada, "", nil)
		for i, want := range []string{"read", "read", "sent"} {
			require.Equal(t, want, dig(thread, "data", i, "status"))
		}
		require.Equal(t, http.StatusBadRequest, read("wamid.nonsense"))
		require.Equal(t, http.StatusBadRequest, read(s.accepted(message(ada))), "one that was sent, not received")
	})
}
