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
