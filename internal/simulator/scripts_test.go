package simulator_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/simulator"
	"github.com/parley-chat/parley/internal/testkit/canary"
)

// script adds a script that is used once.
func (f *fixture) script(match, outcome object) {
	f.t.Helper()
	f.control("script", object{"match": match, "outcome": outcome, "times": 1})
}

// sent returns the log of accepted sends, newest first.
func (f *fixture) sent(query string) []any {
	f.t.Helper()
	status, answer := f.call(http.MethodGet, "/sim/sent"+query, "", nil)
	require.Equal(f.t, http.StatusOK, status, answer)
	return answer["data"].([]any)
}

// sendUnanswered sends, and the connection must be closed without an answer.
func (f *fixture) sendUnanswered(m object) {
	f.t.Helper()
	require.PanicsWithValue(f.t, http.ErrAbortHandler, func() { f.send(m) })
}

func TestScript_SeveralMatch_FirstIsUsedItsNumberOfTimes(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.control("script", object{"match": object{"to": "+" + ada}, "outcome": object{"sync_code": 131000}, "times": 2})
		f.control("script", object{"match": object{"template": "hello_world"}, "outcome": object{"async_code": 131049}, "times": 1})
		f.control("script", object{"match": object{"edge": "register"}, "outcome": object{"http_status": 503}, "times": 1})
		for range 2 {
			code, status := f.refused(message(ada))
			require.Equal(t, []int{131000, 500}, []int{code, status})
		}
		f.accepted(message(ada))
		f.accepted(template(ada, "hello_world"))
		f.advance(3 * time.Second)
		require.ElementsMatch(t, []string{"sent", "delivered", "read", "failed"}, statusNames(f.statuses()))
		status, _ := f.graph(http.MethodPost, simulator.DefaultPhoneNumberID+"/register", object{"messaging_product": "whatsapp", "pin": "123456"})
		require.Equal(t, http.StatusServiceUnavailable, status)
		status, _ = f.graph(http.MethodPost, simulator.DefaultPhoneNumberID+"/register", object{"messaging_product": "whatsapp", "pin": "123456"})
		require.Equal(t, http.StatusOK, status)
		_, left := f.call(http.MethodGet, "/sim/script", "", nil)
		require.Empty(t, left["data"])
	})
}

func TestScript_SyncCode_RefusedWithTheProvidersErrorBody(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]struct {
		status  int
		message string
	}{
		4:      {400, "(#4) Application request limit reached"},
		190:    {401, "forced by the simulator"},
		80007:  {400, "(#80007) Rate limit issues"},
		130429: {400, "(#130429) Rate limit hit"},
		131000: {500, "(#131000) Something went wrong"},
		131050: {400, "(#131050) User has stopped receiving marketing messages from this business"},
		131056: {400, "(#131056) (Business Account, Consumer Account) pair rate limit hit"},
		133010: {400, "(#133010) Phone number not registered"},
	} {
		run(t, func(f *fixture) {
			f.script(object{"to": ada}, object{"sync_code": code})
			recorder := f.serve(http.MethodPost, "/v24.0/"+simulator.DefaultPhoneNumberID+"/messages", canary.Token, message(ada))
			require.Equal(t, want.status, recorder.Code, code)
			answer := object{}
			require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &answer))
			problem := answer["error"].(object)
			require.Equal(t, want.message, problem["message"])
			require.Equal(t, "OAuthException", problem["type"])
			require.InDelta(t, code, problem["code"], 0)
			require.NotEmpty(t, problem["fbtrace_id"])
			if code == 190 {
				require.Contains(t, recorder.Header().Get("WWW-Authenticate"), "invalid_token")
			} else {
				require.Equal(t, object{"messaging_product": "whatsapp", "details": "forced by the simulator"}, problem["error_data"])
			}
			require.Equal(t, code == 131000, problem["is_transient"] == true)
			f.advance(time.Minute)
			require.Empty(t, f.sent(""), "not accepted")
			require.Empty(t, f.takePosts(), "no callbacks")
			f.accepted(message(ada)) // the script was used once
		})
	}
}

func TestScript_HTTPStatus_Refused(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		for status, code := range map[int]int{400: 1, 429: 4, 500: 2, 502: 2, 503: 2, 504: 2} {
			f.script(object{"to": ada}, object{"http_status": status})
			gotCode, gotStatus := f.refused(message(ada))
			require.Equal(t, []int{code, status}, []int{gotCode, gotStatus})
		}
		f.script(object{"to": ada}, object{"http_status": 429, "sync_code": 130429, "details": "Slow down."})
		status, answer := f.send(message(ada))
		require.Equal(t, http.StatusTooManyRequests, status)
		require.InDelta(t, 130429, dig(answer, "error", "code"), 0)
		require.Equal(t, "Slow down.", dig(answer, "error", "error_data", "details"))
		f.advance(time.Minute)
		require.Empty(t, f.sent(""))
		require.Empty(t, f.takePosts())
	})
}

func TestScript_AsyncCode_AcceptedThenFailed(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.script(object{"to": ada}, object{"async_code": 131049})
		id := f.accepted(message(ada, object{"biz_opaque_callback_data": "msg_1"}))
		f.advance(time.Minute)
		failed := f.statuses()
		require.Equal(t, "failed", names(failed), "neither sent nor delivered")
		require.Equal(t, []any{id, "msg_1"}, []any{failed[0]["id"], failed[0]["biz_opaque_callback_data"]})
		title := "This message was not delivered to maintain healthy ecosystem engagement"
		require.Equal(t, []any{object{
			"code": 131049.0, "title": title, "message": title, "error_data": object{"details": "forced by the simulator"},
			"href": dig(failed[0], "errors", 0, "href"),
		}}, failed[0]["errors"])
		require.Equal(t, id, dig(f.sent(""), 0, "id"))
	})
}

func TestScript_Latency_DelaysTheAnswerNotTheStatuses(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		start := time.Now()
		f.script(object{"to": ada}, object{"latency_ms": 1500})
		id := f.accepted(message(ada))
		require.Equal(t, 1500*time.Millisecond, time.Since(start))
		require.Equal(t, "sent delivered", names(f.statuses()), "before the answer")
		require.Equal(t, id, dig(f.sent(""), 0, "id"))
		f.script(object{"to": ada}, object{"latency_ms": 1500, "sync_code": 131000})
		start = time.Now()
		f.refused(message(ada))
		require.Equal(t, 1500*time.Millisecond, time.Since(start))
		f.script(object{"to": ada}, object{"latency_ms": 1500, "drop_answer": true})
		start = time.Now()
		f.sendUnanswered(message(ada))
		require.Equal(t, 1500*time.Millisecond, time.Since(start))
		require.Len(t, f.sent(""), 2)
	})
}

func TestScript_DropAnswer_AcceptedAndStatusesFollow(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.script(object{"to": ada}, object{"drop_answer": true})
		f.sendUnanswered(message(ada, object{"biz_opaque_callback_data": "msg_1"}))
		f.advance(3 * time.Second)
		statuses := f.statuses()
		require.Equal(t, "sent delivered read", names(statuses))
		require.Equal(t, "msg_1", statuses[0]["biz_opaque_callback_data"])
		require.Equal(t, statuses[0]["id"], dig(f.sent("?opaque=msg_1"), 0, "id"))

		f.script(object{"to": ada}, object{"drop_answer": true, "async_code": 131026})
		f.sendUnanswered(message(ada))
		f.advance(3 * time.Second)
		require.Equal(t, "failed", names(f.statuses()))

		f.script(object{"to": ada}, object{"drop_request": true})
		f.sendUnanswered(message(ada))
		f.advance(3 * time.Second)
		require.Empty(t, f.statuses())
		require.Len(t, f.sent(""), 2, "drop_request does not accept")
	})
}

func TestScript_Garbage_AcceptedWithAnAnswerThatIsNotJSON(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		for _, status := range []int{200, 502} {
			outcome := object{"garbage": true}
			if status != http.StatusOK {
				outcome["http_status"] = status
			}
			f.script(object{"to": ada}, outcome)
			recorder := f.serve(http.MethodPost, "/v24.0/"+simulator.DefaultPhoneNumberID+"/messages", canary.Token, message(ada))
			require.Equal(t, status, recorder.Code)
			require.False(t, json.Valid(recorder.Body.Bytes()))
			f.advance(3 * time.Second)
			require.Equal(t, "sent delivered read", names(f.statuses()))
		}
		require.Len(t, f.sent(""), 2)
	})
}

func TestScript_Match_AllGivenFieldsMustBeEqual(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		other := f.control("numbers", object{})["id"].(string)
		f.script(object{"to": "+1 555 010 0001", "phone_number_id": other, "template": "hello_world"}, object{"sync_code": 131000})
		f.accepted(template(ada, "hello_world"))                               // another number
		_, answer := f.graph(http.MethodPost, other+"/messages", message(ada)) // not a template
		require.NotEmpty(t, answer["messages"])
		_, answer = f.graph(http.MethodPost, other+"/messages", template(stranger, "hello_world")) // another recipient
		require.NotEmpty(t, answer["messages"])
		status, _ := f.graph(http.MethodPost, other+"/messages", template(ada, "hello_world"))
		require.Equal(t, http.StatusInternalServerError, status)
		require.Len(t, f.sent("?phone_number_id="+other), 2)
		require.Len(t, f.sent("?phone_number_id="+other+"&to="+ada), 1)
	})
}

func TestScript_Contradictions_AreRefused(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		for _, outcome := range []object{
			{"http_status": 200},
			{"http_status": 600},
			{"latency_ms": -1},
			{"drop_answer": true, "sync_code": 1},
			{"garbage": true, "sync_code": 0},
			{"async_code": 131026, "http_status": 500},
			{"drop_answer": true, "drop_request": true},
		} {
			status, answer := f.call(http.MethodPost, "/sim/script", "", object{"outcome": outcome})
			require.Equal(t, http.StatusBadRequest, status, outcome)
			require.NotEmpty(t, dig(answer, "error", "message"))
		}
	})
}

// TestScript_OverTCP checks what a client sees: the fixture of the other tests has no connections.
func TestScript_OverTCP(t *testing.T) {
	t.Parallel()
	sim := simulator.New(simulator.Config{Token: canary.Token, Logger: canary.Logger(t)})
	server := httptest.NewServer(sim.Handler())
	defer server.Close()
	client := server.Client()
	post := func(path string, what object) (int, error) {
		body, err := json.Marshal(what)
		require.NoError(t, err)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, bytes.NewReader(body))
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+canary.Token)
		response, err := client.Do(request)
		if err != nil {
			return 0, err
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode, nil
	}
	const messages = "/v24.0/" + simulator.DefaultPhoneNumberID + "/messages"
	accepted := func() int {
		response, err := client.Get(server.URL + "/sim/sent")
		require.NoError(t, err)
		defer response.Body.Close()
		var listed struct{ Data []object }
		require.NoError(t, json.NewDecoder(response.Body).Decode(&listed))
		return len(listed.Data)
	}
	for i, outcome := range []object{{"drop_answer": true}, {"latency_ms": 60_000}} {
		status, err := post("/sim/script", object{"outcome": outcome, "times": 1})
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
		if client.Timeout = 0; outcome["latency_ms"] != nil {
			client.Timeout = 200 * time.Millisecond
		}
		_, err = post(messages, message(ada))
		require.Error(t, err)
		if client.Timeout == 0 {
			require.ErrorIs(t, err, io.EOF, "the connection is closed without an answer")
		}
		client.Timeout = 0
		require.Equal(t, i+1, accepted(), "%v accepts once, also when the client gives up", outcome)
	}
	status, err := post(messages, message(ada))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
}
