package simulator_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/simulator"
)

func TestMedia_LinksAreFetchedOnceAndCanFail(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		asked := 0
		s.hosts["files.test"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch asked++; r.URL.Path {
			case "/a.png":
				w.Header().Set("Content-Type", "image/png")
			case "/a.gif":
				w.Header().Set("Content-Type", "image/gif")
			default:
				w.WriteHeader(http.StatusNotFound)
			}
		})
		send := func(path string) (string, any) {
			s.accepted(message(ada, object{"type": "image", "image": object{"link": "https://files.test" + path}}))
			s.pass(3 * time.Second)
			told := s.statuses()
			return names(told), dig(told[0], "errors", 0, "code")
		}
		for range 3 {
			told, _ := send("/a.png")
			require.Equal(t, "sent delivered read", told)
		}
		require.Equal(t, 1, asked, "cached")
		s.pass(10 * time.Minute)
		_, _ = send("/a.png")
		require.Equal(t, 2, asked, "for ten minutes")
		for _, path := range []string{"/a.gif", "/missing"} {
			told, code := send(path)
			require.Equal(t, "failed", told)
			require.InDelta(t, 131053, code, 0)
		}
	}, object{"pair_limit": false})
}

func TestTemplates_AreReviewed(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		create := func(name string) string {
			status, answer := s.graph(http.MethodPost, simulator.DefaultAccountID+"/message_templates", object{
				"name": name, "language": "en_US", "category": "utility", "components": []any{object{"type": "BODY", "text": "Good day."}},
			})
			require.Equal(t, http.StatusOK, status, answer)
			return answer["id"].(string)
		}
		status := func(id string) any {
			_, answer := s.graph(http.MethodGet, id+"?fields=status", nil)
			return answer["status"]
		}
		fine, bad, slow := create("good_day"), create("please_reject_me"), create("stay_pending")
		code, _ := s.refused(template(ada, "good_day"))
		require.Equal(t, 132001, code, "not before the review")
		s.pass(time.Hour)
		require.Equal(t, []any{"APPROVED", "REJECTED", "PENDING"}, []any{status(fine), status(bad), status(slow)})
		require.Len(t, s.changes(), 2)
		s.accepted(template(ada, "good_day"))
		for event, code := range map[string]int{"PAUSED": 132015, "DISABLED": 132016, "REJECTED": 132001} {
			s.sim1("templates/"+fine+"/review", object{"event": event})
			got, _ := s.refused(template(ada, "good_day"))
			require.Equal(t, code, got)
		}
		s.sim1("templates/"+fine+"/review", object{"event": "REINSTATED"})
		s.accepted(template(ada, "good_day"))
	})
}

func TestRegister_BlocksWhoGuesses(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		id := s.sim1("numbers", object{"status": "PENDING", "pin": "424242"})["id"].(string)
		register := func(pin string) any {
			_, answer := s.graph(http.MethodPost, id+"/register", object{"messaging_product": "whatsapp", "pin": pin})
			return dig(answer, "error", "code")
		}
		for range 5 {
			require.InDelta(t, 133005, register("111111"), 0)
		}
		require.InDelta(t, 133008, register("424242"), 0, "even the right one, for an hour")
		s.pass(time.Hour)
		require.Nil(t, register("424242"))
		for range 3 {
			require.Nil(t, register("424242"))
		}
		require.InDelta(t, 133016, register("424242"), 0, "ten in 72 hours")
		s.pass(72 * time.Hour)
		require.Nil(t, register("424242"))
	})
}

func TestAccount_RestrictionsHoldForSends(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		s.sim1("account-update", object{"event": "ACCOUNT_RESTRICTION"})
		code, _ := s.refused(template(ada, "hello_world"))
		require.Equal(t, 368, code)
		s.accepted(message(ada))
		s.sim1("account-update", object{"event": "DISABLED_UPDATE"})
		code, _ = s.refused(message(ada))
		require.Equal(t, 131031, code)
		s.sim1("account-update", object{"event": "DISABLED_UPDATE", "ban_info": object{"waba_ban_state": "REINSTATE"}})
		s.accepted(template(ada, "hello_world"))
	})
}

func TestControl_TellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		for path, body := range map[string]object{
			"settings": {"silnet": true}, "script": {"outcome": object{"sync": 1}}, "inbound": {"type": "text"}, "users": {"phone": "x"},
			"preferences": {"from": ada, "value": "maybe"}, "system": {"from": ada, "type": "x"}, "notify": {"field": "x"},
			"templates/1/review": {}, "account-update": {}, "tokens": {"app_id": "1"}, "signup": {"waba_id": "1"}, "nothing": {},
			"echo": {"to": ada, "type": "revoke"}, "numbers": {"waba_id": "1"},
		} {
			status, answer := s.call(http.MethodPost, "/sim/"+path, "", body)
			require.GreaterOrEqual(t, status, 400, path)
			require.NotEmpty(t, dig(answer, "error", "message"), path)
		}
		s.accepted(message(ada))
		s.sim1("reset", nil)
		s.pass(time.Minute)
		require.Empty(t, s.taken(), "what was on its way is forgotten")
		_, listed := s.call(http.MethodGet, "/sim/sent", "", nil)
		require.Empty(t, listed["data"])
	})
}
