package simulator_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/simulator"
	"github.com/parley-chat/parley/internal/testkit/canary"
)

// operation is one that changes something, and how to tell whether it did.
type operation struct {
	method, path string
	body         object
	done         func() bool
}

// operations returns one operation for each edge that changes something; all of them can be done once.
func (f *fixture) operations() map[string]operation {
	pending := f.control("numbers", object{"status": "PENDING"})["id"].(string)
	connected := f.control("numbers", object{})["id"].(string)
	unverified := f.control("numbers", object{"status": "UNVERIFIED", "verified": false})["id"].(string)
	read := func(id, field string) any {
		_, answer := f.graph(http.MethodGet, id+"?fields="+field, nil)
		return answer[field]
	}
	status, answer := f.graph(http.MethodPost, unverified+"/request_code", object{"code_method": "SMS", "language": "en"})
	require.Equal(f.t, http.StatusOK, status, answer)
	return map[string]operation{
		"register": {http.MethodPost, pending + "/register", object{"messaging_product": "whatsapp", "pin": "424242"}, func() bool {
			return read(pending, "status") == "CONNECTED"
		}},
		"deregister": {http.MethodPost, connected + "/deregister", nil, func() bool { return read(connected, "status") == "DISCONNECTED" }},
		"verify_code": {http.MethodPost, unverified + "/verify_code", object{"code": "123456"}, func() bool {
			return read(unverified, "code_verification_status") == "VERIFIED"
		}},
		"username": {http.MethodPost, pending + "/username", object{"username": "corner.shop"}, func() bool {
			_, answer := f.graph(http.MethodGet, pending+"/username", nil)
			return answer["username"] == "corner.shop"
		}},
		"message_templates": {http.MethodPost, simulator.DefaultAccountID + "/message_templates", object{
			"name": "scripted", "language": "en_US", "category": "UTILITY", "components": []any{object{"type": "BODY", "text": "Good day."}},
		}, func() bool {
			_, answer := f.graph(http.MethodGet, simulator.DefaultAccountID+"/message_templates?name=scripted", nil)
			return len(answer["data"].([]any)) > 0
		}},
		"subscribed_apps": {http.MethodDelete, simulator.DefaultAccountID + "/subscribed_apps", nil, func() bool {
			_, answer := f.graph(http.MethodGet, simulator.DefaultAccountID+"/subscribed_apps", nil)
			return len(answer["data"].([]any)) == 0
		}},
	}
}

func (f *fixture) operate(o operation) (status int, body []byte) {
	recorder := f.serve(o.method, "/v24.0/"+o.path, canary.Token, o.body)
	return recorder.Code, recorder.Body.Bytes()
}

func TestScript_AnswerDisturbed_OperationTakesEffect(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		for edge, o := range f.operations() {
			f.script(object{"edge": edge}, object{"drop_answer": true})
			require.PanicsWithValue(t, http.ErrAbortHandler, func() { f.operate(o) }, edge)
			require.True(t, o.done(), "%s took effect, though its answer was lost", edge)
		}
	})
	run(t, func(f *fixture) {
		for edge, o := range f.operations() {
			f.script(object{"edge": edge}, object{"garbage": true, "http_status": 502})
			status, body := f.operate(o)
			require.Equal(t, http.StatusBadGateway, status, edge)
			require.False(t, json.Valid(body), edge)
			require.True(t, o.done(), edge)
		}
	})
	run(t, func(f *fixture) {
		for edge, o := range f.operations() {
			f.script(object{"edge": edge}, object{"latency_ms": 1500})
			start := time.Now()
			status, body := f.operate(o)
			require.Equal(t, http.StatusOK, status, "%s: %s", edge, body)
			require.Equal(t, 1500*time.Millisecond, time.Since(start), edge)
			require.True(t, o.done(), edge)
			if edge == "message_templates" {
				require.Contains(t, string(body), `"id"`, "the operation's own answer")
			}
		}
	})
}

func TestScript_OperationRefused_HasNoEffect(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		for edge, o := range f.operations() {
			for _, outcome := range []object{{"sync_code": 131000}, {"http_status": 503}, {"latency_ms": 10, "http_status": 500}} {
				f.script(object{"edge": edge}, outcome)
				status, _ := f.operate(o)
				require.GreaterOrEqual(t, status, 500, edge)
				require.False(t, o.done(), "%s %v", edge, outcome)
			}
			f.script(object{"edge": edge}, object{"drop_request": true})
			require.PanicsWithValue(t, http.ErrAbortHandler, func() { f.operate(o) }, edge)
			require.False(t, o.done(), "%s: the request was lost", edge)
			status, body := f.operate(o)
			require.Equal(t, http.StatusOK, status, "%s: %s", edge, body)
			require.True(t, o.done(), edge)
		}
	})
}

func TestScript_OperationFailsByItself_AnswersItsOwnError(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		id := f.control("numbers", object{"status": "PENDING", "pin": "424242"})["id"].(string)
		f.script(object{"edge": "register"}, object{"drop_answer": true})
		status, answer := f.graph(http.MethodPost, id+"/register", object{"messaging_product": "whatsapp", "pin": "111111"})
		require.Equal(t, http.StatusBadRequest, status)
		require.InDelta(t, 133005, dig(answer, "error", "code"), 0)
	})
}

func TestScript_StatusesOfAnOperation_AreRefused(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		for _, outcome := range []object{{"async_code": 131026}, {"held": true}, {"no_status": true}, {"twice": true}, {"last_status": "sent"}} {
			status, answer := f.call(http.MethodPost, "/sim/script", "", object{"match": object{"edge": "register"}, "outcome": outcome})
			require.Equal(t, http.StatusBadRequest, status, outcome)
			require.Contains(t, dig(answer, "error", "message"), "match.edge", outcome)
		}
		status, answer := f.call(http.MethodPost, "/sim/script", "", object{"outcome": object{"last_status": "red"}})
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, dig(answer, "error", "message"), `"red"`)
	})
}
