package simulator_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/simulator"
	"github.com/parley-chat/parley/internal/testkit/canary"
)

func TestLimits_Throughput_Refuses130429(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		for i := range 80 {
			f.accepted(template(fmt.Sprintf("1555011%04d", i), "hello_world"))
		}
		code, _ := f.refused(template("15550119999", "hello_world"))
		require.Equal(t, 130429, code)
		f.advance(100 * time.Millisecond)
		for i := range 8 {
			f.accepted(template(fmt.Sprintf("1555012%04d", i), "hello_world"))
		}
		code, _ = f.refused(template("15550119999", "hello_world"))
		require.Equal(t, 130429, code, "a tenth of a second allows eight more")
		f.control("numbers", object{"id": simulator.DefaultPhoneNumberID, "throughput": "HIGH"})
		f.advance(time.Second)
		for i := range 1000 {
			f.accepted(template(fmt.Sprintf("1555013%04d", i), "hello_world"))
		}
		f.control("settings", object{"throughput_limit": false})
		for i := range 100 {
			f.accepted(template(fmt.Sprintf("1555014%04d", i), "hello_world"))
		}
	}, object{"silent": true})
}

func TestLimits_Pair_Refuses131056(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		for range 45 {
			f.accepted(message(ada))
		}
		code, _ := f.refused(message(ada))
		require.Equal(t, 131056, code)
		f.accepted(message("15550100002"))
		f.advance(6 * time.Second)
		f.accepted(message(ada))
		code, _ = f.refused(message(ada))
		require.Equal(t, 131056, code, "six seconds allow one more")
		f.advance(270 * time.Second)
		for range 45 {
			f.accepted(message(ada))
		}
	}, object{"silent": true})
}

func TestLimits_Management_Refuses80008(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		for i := range 5000 {
			status, answer := f.graph(http.MethodGet, simulator.DefaultAccountID+"/phone_numbers", nil)
			require.Equal(t, http.StatusOK, status, "call %d: %v", i, answer)
		}
		recorder := f.serve(http.MethodGet, "/v24.0/"+simulator.DefaultAccountID, canary.Token, nil)
		require.Equal(t, http.StatusOK, recorder.Code, "the quota is counted in whole percents")
		for range 50 {
			recorder = f.serve(http.MethodGet, "/v24.0/"+simulator.DefaultAccountID, canary.Token, nil)
		}
		require.Contains(t, recorder.Body.String(), `"code":80008`)
		require.Contains(t, recorder.Header().Get("X-Business-Use-Case-Usage"), `"call_count":100`)
		f.advance(time.Hour)
		status, _ := f.graph(http.MethodGet, simulator.DefaultAccountID, nil)
		require.Equal(t, http.StatusOK, status)
	})
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
