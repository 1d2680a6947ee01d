package simulator_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/simulator"
)

func TestMedia_Links_AreCachedAndCanFail(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		downloads := 0
		f.hosts["files.test"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch downloads++; r.URL.Path {
			case "/a.png":
				w.Header().Set("Content-Type", "image/png")
			case "/a.gif":
				w.Header().Set("Content-Type", "image/gif")
			default:
				w.WriteHeader(http.StatusNotFound)
			}
		})
		send := func(path string) (string, any) {
			f.accepted(message(ada, object{"type": "image", "image": object{"link": "https://files.test" + path}}))
			f.advance(3 * time.Second)
			reported := f.statuses()
			return names(reported), dig(reported[0], "errors", 0, "code")
		}
		for range 3 {
			reported, _ := send("/a.png")
			require.Equal(t, "sent delivered read", reported)
		}
		require.Equal(t, 1, downloads, "cached")
		f.advance(10 * time.Minute)
		_, _ = send("/a.png")
		require.Equal(t, 2, downloads, "the cache lasts ten minutes")
		for _, path := range []string{"/a.gif", "/missing"} {
			reported, code := send(path)
			require.Equal(t, "failed", reported)
			require.InDelta(t, 131053, code, 0)
		}
	}, object{"pair_limit": false})
}

func TestTemplates_Review_DecidesWhetherTheyCanBeSent(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		create := func(name string) string {
			status, answer := f.graph(http.MethodPost, simulator.DefaultAccountID+"/message_templates", object{
				"name": name, "language": "en_US", "category": "utility", "components": []any{object{"type": "BODY", "text": "Good day."}},
			})
			require.Equal(t, http.StatusOK, status, answer)
			return answer["id"].(string)
		}
		status := func(id string) any {
			_, answer := f.graph(http.MethodGet, id+"?fields=status", nil)
			return answer["status"]
		}
		fine, bad, slow := create("good_day"), create("please_reject_me"), create("stay_pending")
		code, _ := f.refused(template(ada, "good_day"))
		require.Equal(t, 132001, code, "not sendable before the review")
		f.advance(time.Hour)
		require.Equal(t, []any{"APPROVED", "REJECTED", "PENDING"}, []any{status(fine), status(bad), status(slow)})
		require.Len(t, f.changes(), 2)
		f.accepted(template(ada, "good_day"))
		for event, code := range map[string]int{"PAUSED": 132015, "DISABLED": 132016, "REJECTED": 132001} {
			f.control("templates/"+fine+"/review", object{"event": event})
			got, _ := f.refused(template(ada, "good_day"))
			require.Equal(t, code, got)
		}
		f.control("templates/"+fine+"/review", object{"event": "REINSTATED"})
		f.accepted(template(ada, "good_day"))
	})
}

func TestRegister_WrongPINs_BlockForAnHour(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		id := f.control("numbers", object{"status": "PENDING", "pin": "424242"})["id"].(string)
		register := func(pin string) any {
			_, answer := f.graph(http.MethodPost, id+"/register", object{"messaging_product": "whatsapp", "pin": pin})
			return dig(answer, "error", "code")
		}
		for range 5 {
			require.InDelta(t, 133005, register("111111"), 0)
		}
		require.InDelta(t, 133008, register("424242"), 0, "the right PIN is refused too, for an hour")
		f.advance(time.Hour)
		require.Nil(t, register("424242"))
		for range 3 {
			require.Nil(t, register("424242"))
		}
		require.InDelta(t, 133016, register("424242"), 0, "ten in 72 hours")
		f.advance(72 * time.Hour)
		require.Nil(t, register("424242"))
	})
}

func TestAccount_Restricted_SendsAreRefused(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.control("account-update", object{"event": "ACCOUNT_RESTRICTION"})
		code, _ := f.refused(template(ada, "hello_world"))
		require.Equal(t, 368, code)
		f.accepted(message(ada))
		f.control("account-update", object{"event": "DISABLED_UPDATE"})
		code, _ = f.refused(message(ada))
		require.Equal(t, 131031, code)
		f.control("account-update", object{"event": "DISABLED_UPDATE", "ban_info": object{"waba_ban_state": "REINSTATE"}})
		f.accepted(template(ada, "hello_world"))
	})
}

func TestControl_InvalidBodies_AnswerAMessage(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		for path, body := range map[string]object{
			"settings": {"silnet": true}, "script": {"outcome": object{"sync": 1}}, "inbound": {"type": "text"}, "users": {"phone": "x"},
			"preferences": {"from": ada, "value": "maybe"}, "system": {"from": ada, "type": "x"}, "notify": {"field": "x"},
			"templates/1/review": {}, "account-update": {}, "tokens": {"app_id": "1"}, "signup": {"waba_id": "1"}, "nothing": {},
			"echo": {"to": ada, "type": "revoke"}, "numbers": {"waba_id": "1"},
		} {
			status, answer := f.call(http.MethodPost, "/sim/"+path, "", body)
			require.GreaterOrEqual(t, status, 400, path)
			require.NotEmpty(t, dig(answer, "error", "message"), path)
		}
		f.accepted(message(ada))
		f.control("reset", nil)
		f.advance(time.Minute)
		require.Empty(t, f.takePosts(), "a reset removes scheduled statuses")
		_, listed := f.call(http.MethodGet, "/sim/sent", "", nil)
		require.Empty(t, listed["data"])
	})
}
