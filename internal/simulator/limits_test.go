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

func TestLimits_Throughput(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		for i := range 80 {
			s.accepted(template(fmt.Sprintf("1555011%04d", i), "hello_world"))
		}
		code, _ := s.refused(template("15550119999", "hello_world"))
		require.Equal(t, 130429, code)
		s.pass(100 * time.Millisecond)
		for i := range 8 {
			s.accepted(template(fmt.Sprintf("1555012%04d", i), "hello_world"))
		}
		code, _ = s.refused(template("15550119999", "hello_world"))
		require.Equal(t, 130429, code, "a tenth of a second earns eight")
		s.sim1("numbers", object{"id": simulator.DefaultPhoneNumberID, "throughput": "HIGH"})
		s.pass(time.Second)
		for i := range 1000 {
			s.accepted(template(fmt.Sprintf("1555013%04d", i), "hello_world"))
		}
		s.sim1("settings", object{"throughput_limit": false})
		for i := range 100 {
			s.accepted(template(fmt.Sprintf("1555014%04d", i), "hello_world"))
		}
	}, object{"silent": true})
}

func TestLimits_Pair(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		for range 45 {
			s.accepted(message(ada))
		}
		code, _ := s.refused(message(ada))
		require.Equal(t, 131056, code)
		s.accepted(message("15550100002"))
		s.pass(6 * time.Second)
		s.accepted(message(ada))
		code, _ = s.refused(message(ada))
		require.Equal(t, 131056, code, "six seconds earn one")
		s.pass(270 * time.Second)
		for range 45 {
			s.accepted(message(ada))
		}
	}, object{"silent": true})
}

func TestLimits_Management(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		for i := range 5000 {
			status, answer := s.graph(http.MethodGet, simulator.DefaultAccountID+"/phone_numbers", nil)
			require.Equal(t, http.StatusOK, status, "call %d: %v", i, answer)
		}
		recorder := s.serve(http.MethodGet, "/v24.0/"+simulator.DefaultAccountID, canary.Token, nil)
		require.Equal(t, http.StatusOK, recorder.Code, "a percent of the share is forgiven")
		for range 50 {
			recorder = s.serve(http.MethodGet, "/v24.0/"+simulator.DefaultAccountID, canary.Token, nil)
		}
		require.Contains(t, recorder.Body.String(), `"code":80008`)
		require.Contains(t, recorder.Header().Get("X-Business-Use-Case-Usage"), `"call_count":100`)
		s.pass(time.Hour)
		status, _ := s.graph(http.MethodGet, simulator.DefaultAccountID, nil)
		require.Equal(t, http.StatusOK, status)
	})
}

func TestScript_FirstFitWinsAndIsUsedUp(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		s.sim1("script", object{"match": object{"to": "+" + ada}, "outcome": object{"sync_code": 131000}, "times": 2})
		s.sim1("script", object{"match": object{"template": "hello_world"}, "outcome": object{"async_code": 131049}, "times": 1})
		s.sim1("script", object{"match": object{"edge": "register"}, "outcome": object{"http_status": 503}, "times": 1})
		for range 2 {
			code, status := s.refused(message(ada))
			require.Equal(t, []int{131000, 500}, []int{code, status})
		}
		s.accepted(message(ada))
		s.accepted(template(ada, "hello_world"))
		s.pass(3 * time.Second)
		require.ElementsMatch(t, []string{"sent", "delivered", "read", "failed"}, statusesOf(s.statuses()))
		status, _ := s.graph(http.MethodPost, simulator.DefaultPhoneNumberID+"/register", object{"messaging_product": "whatsapp", "pin": "123456"})
		require.Equal(t, http.StatusServiceUnavailable, status)
		status, _ = s.graph(http.MethodPost, simulator.DefaultPhoneNumberID+"/register", object{"messaging_product": "whatsapp", "pin": "123456"})
		require.Equal(t, http.StatusOK, status)
		_, left := s.call(http.MethodGet, "/sim/script", "", nil)
		require.Empty(t, left["data"])
	})
}

func statusesOf(statuses []object) (all []string) {
	for _, one := range statuses {
		all = append(all, one["status"].(string))
	}
	return all
}
