package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parley-chat/parley/internal/platform/ratelimit"
	"github.com/parley-chat/parley/internal/testkit/apitest"
)

// FuzzBearer checks that only an issued key is accepted, and that every other value of the
// Authorization header is refused with an error envelope.
func FuzzBearer(f *testing.F) {
	s := apitest.With(f, apitest.Options{Guesses: ratelimit.Limit{PerSecond: 1_000, Burst: 1_000_000}})
	s.Client(f)
	secret := strings.Repeat("A", 24)
	for _, value := range []string{
		"", " ", "Bearer", "Bearer ", "bearer svc_live_" + secret, "Bearer svc_live_" + secret, "Bearer  svc_live_" + secret, "Bearer\tsvc_live_" + secret,
		"Bearer svc_live_" + secret[1:], "Bearer svc_live_" + secret + "A", "Bearer svc_test_" + secret, "Basic c3ZjOg==", "svc_live_" + secret,
		"Bearer svc_live_" + secret + "\n", "Bearer svc_live_" + secret[:23] + "\x00", "Bearer \xff\xfe", "Bearer svc_live_" + secret + ", Bearer x",
	} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		s.Clock.Move(time.Millisecond) // refills the budget of guesses
		request := httptest.NewRequest(http.MethodGet, "/v1/me", http.NoBody)
		request.Header["Authorization"] = []string{value}
		recorder := httptest.NewRecorder()
		s.API.ServeHTTP(recorder, request)
		answer := apitest.Answer{Status: recorder.Code, Header: recorder.Header(), Body: recorder.Body.Bytes()}
		requireRefusal(t, refusal{401, "authentication_error", "invalid_api_key", ""}, answer)
	})
}
