package webhooks_test

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/safehttp"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/proc"
	"github.com/parley-chat/parley/internal/testkit/receiver"
)

// Each answer of the endpoint is checked against what is stored of the delivery.
func TestAnswers_EachStatus_StoredOutcome(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	location := http.Header{"Location": {s.receiver.URL + "/elsewhere"}}
	long := strings.Repeat("é", 3000)
	for name, test := range map[string]struct {
		answer  receiver.Answer
		code    string
		status  int
		snippet string
	}{
		"200":                 {receiver.Answer{}, "", 200, ""},
		"201":                 {receiver.Answer{Status: 201, Body: []byte("made")}, "", 201, "made"},
		"202":                 {receiver.Answer{Status: 202}, "", 202, ""},
		"204":                 {receiver.Answer{Status: 204}, "", 204, ""},
		"299":                 {receiver.Answer{Status: 299}, "", 299, ""},
		"301":                 {receiver.Answer{Status: 301, Header: location}, "redirect", 301, ""},
		"302":                 {receiver.Answer{Status: 302, Header: location}, "redirect", 302, ""},
		"303":                 {receiver.Answer{Status: 303, Header: location}, "redirect", 303, ""},
		"304":                 {receiver.Answer{Status: 304}, "redirect", 304, ""},
		"307":                 {receiver.Answer{Status: 307, Header: location}, "redirect", 307, ""},
		"308":                 {receiver.Answer{Status: 308, Header: location}, "redirect", 308, ""},
		"400":                 {receiver.Answer{Status: 400, Body: []byte("what?")}, "status", 400, "what?"},
		"401":                 {receiver.Answer{Status: 401}, "status", 401, ""},
		"403":                 {receiver.Answer{Status: 403}, "status", 403, ""},
		"404":                 {receiver.Answer{Status: 404}, "status", 404, ""},
		"409":                 {receiver.Answer{Status: 409}, "status", 409, ""},
		"429":                 {receiver.Answer{Status: 429}, "status", 429, ""},
		"500":                 {receiver.Answer{Status: 500}, "status", 500, ""},
		"502":                 {receiver.Answer{Status: 502}, "status", 502, ""},
		"503":                 {receiver.Answer{Status: 503}, "status", 503, ""},
		"999":                 {receiver.Answer{Status: 999}, "status", 999, ""},
		"NUL":                 {receiver.Answer{Body: []byte("a\x00b\x00")}, "", 200, "ab"},
		"NUL and failure":     {receiver.Answer{Status: 500, Body: []byte("\x00\x00")}, "status", 500, ""},
		"invalid UTF-8":       {receiver.Answer{Status: 500, Body: []byte("a\xff\xfe\xc3(b")}, "status", 500, "a\uFFFD(b"},
		"a lone surrogate":    {receiver.Answer{Body: []byte("x\xed\xa0\x80y")}, "", 200, "x\uFFFDy"},
		"backslash and quote": {receiver.Answer{Body: []byte(`"\u0000\`)}, "", 200, `"\u0000\`},
		"long":                {receiver.Answer{Body: []byte(long)}, "", 200, long[:1024]},
		"cut in a character":  {receiver.Answer{Body: []byte("x" + long)}, "", 200, "x" + long[:1022]},
		"gzip":                {receiver.Answer{Header: http.Header{"Content-Encoding": {"gzip"}}, Body: []byte("\x1f\x8bxx")}, "", 200, "\x1f\uFFFDxx"},
		"endless":             {receiver.Answer{Body: []byte("start"), Zeroes: 8 << 20}, "", 200, "start"},
		"endless failure":     {receiver.Answer{Status: 500, Body: []byte("start"), Zeroes: 8 << 20}, "status", 500, "start"},
		"breaks off":          {receiver.Answer{Body: []byte("half"), Close: true}, "", 200, "half"},
		"announced too large": {
			receiver.Answer{Header: http.Header{"Content-Length": {"2097152"}}, Zeroes: 2 << 20}, "response_too_large", 0, "",
		},
		"headers too large": {
			receiver.Answer{Header: http.Header{"X-Much": {strings.Repeat("x", 1<<20)}}}, "response_too_large", 0, "",
		},
		"closed at once": {receiver.Answer{Close: true}, "connect", 0, ""},
	} {
		s.receiver.Answer(exceptBarriers(test.answer))
		s.requireAnswer(t, name, test.code, test.status, test.snippet)
		s.barrier(t) // the breaker stays shut
	}
	for _, request := range s.receiver.Requests() {
		require.NotEqual(t, "/elsewhere", request.Path, "redirects are not followed")
	}
}

// requireAnswer makes an event and checks what is stored of its first attempt.
func (s *fixture) requireAnswer(t *testing.T, name, code string, status int, snippet string) {
	t.Helper()
	want := webhooks.Succeeded
	if code != "" {
		want = webhooks.Failed
	}
	delivery := s.await(t, s.Customer(t, s.org), want, 1)
	resource := delivery.Resource()
	if code == "" {
		require.Nil(t, resource.ErrorCode, name)
		require.Empty(t, resource.ErrorMessage, name)
		require.Nil(t, resource.NextAttemptAt, name)
	} else {
		require.Equal(t, code, *resource.ErrorCode, name)
		require.NotEmpty(t, resource.ErrorMessage, name)
		require.NotNil(t, resource.NextAttemptAt, name)
	}
	if status == 0 {
		require.Nil(t, resource.ResponseStatus, name)
		require.Nil(t, resource.ResponseBodySnippet, name)
	} else {
		require.Equal(t, status, *resource.ResponseStatus, name)
		require.Equal(t, snippet, strings.TrimRight(*resource.ResponseBodySnippet, "\x00"), name)
		require.True(t, utf8.ValidString(*resource.ResponseBodySnippet), name)
		require.LessOrEqual(t, len(*resource.ResponseBodySnippet), 1024, name)
	}
	require.NotNil(t, resource.DurationMs, name)
	detail, err := s.Webhooks.Delivery(t.Context(), s.org, delivery.ID)
	require.NoError(t, err)
	require.Len(t, detail.Attempts, 1, name)
}

// The tests of safehttp cover the ways in which an answer can be slow.
func TestAnswers_Slow_TimesOut(t *testing.T) {
	t.Parallel()
	s := newFixtureWith(t, canary.Logger(t), safehttp.Config{Timeout: 500 * time.Millisecond})
	s.receiver.Answer(receiver.Always(receiver.Answer{Delay: time.Hour}))
	delivery := s.await(t, s.Customer(t, s.org), webhooks.Failed, 1)
	require.Equal(t, "timeout", *delivery.ErrorCode)
	require.GreaterOrEqual(t, *delivery.DurationMs, 490)
	require.Nil(t, delivery.ResponseStatus)
}

// Each way not to reach an endpoint has its error code.
func TestAnswers_NoConnection_ErrorCodes(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = slog.NewLogLogger(canary.Logger(t).Handler(), slog.LevelError)
	untrusted.StartTLS()
	t.Cleanup(untrusted.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	deaf, mute := proc.FreeAddress(t), hangsUp(t)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(s.receiver.URL, "https://"))
	require.NoError(t, err)
	want := map[string]string{}
	for url, code := range map[string]string{
		untrusted.URL: "tls",
		"https" + strings.TrimPrefix(plain.URL, "http"): "tls",
		"https://" + mute:                      "tls",
		"https://" + deaf:                      "connect",
		"https://127.0.0.2:" + port:            "connect",
		"https://no-such-name.invalid/hook":    "dns",
		"https://192.0.2.1:8443/documentation": "blocked_address",
	} {
		made, err := s.Webhooks.Create(t.Context(), s.org, audit.Operator(), webhooks.Draft{URL: s.receiver.URL, Events: s.Subscription.Events})
		require.NoError(t, err)
		s.exec(t, `UPDATE webhook_subscriptions SET url = @url WHERE org_id = @org_id AND id = @id`, postgres.Args{"url": url, "id": made.ID})
		want[made.ID.String()] = code + " " + url
	}
	s.Customer(t, s.org)
	s.awaitCount(t, webhooks.Failed, len(want))
	s.awaitCount(t, webhooks.Succeeded, 1)
	failed := s.list(t, webhooks.Filter{Status: new(webhooks.Failed)})
	require.Len(t, failed, len(want))
	for _, delivery := range failed {
		code, url, _ := strings.Cut(want[delivery.SubscriptionID.String()], " ")
		require.Equal(t, code, *delivery.ErrorCode, url)
	}
}

// hangsUp listens and closes each connection at once.
func hangsUp(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	return listener.Addr().String()
}

// The retry posts the same event with the same bytes.
func TestAnswers_ConnectionLost_SameEventAgain(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.receiver.Answer(receiver.Sequence(receiver.Answer{Close: true}, receiver.Answer{Close: true}, receiver.Answer{}))
	customer := s.Customer(t, s.org)
	for attempt := 1; attempt <= 2; attempt++ {
		delivery := s.await(t, customer, webhooks.Failed, attempt)
		require.Equal(t, "connect", *delivery.ErrorCode)
		s.until(t, *delivery.NextAttemptAt)
	}
	s.await(t, customer, webhooks.Succeeded, 3)
	requests := s.receiver.Requests()
	for i, request := range requests {
		require.Equal(t, requests[0].Body, request.Body)
		require.Equal(t, requests[0].EventUID(), request.EventUID())
		require.Equal(t, requests[0].DeliveryID(), request.DeliveryID(), fmt.Sprint(i))
	}
}

// The URL is changed while the old one answers: its 410 counts for the delivery, and not for the new URL.
func TestAnswers_GoneFromReplacedURL_SubscriptionStaysActive(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	hold := make(chan struct{})
	s.receiver.Answer(receiver.Always(receiver.Answer{Status: 410, Hold: hold}))
	customer := s.Customer(t, s.org)
	s.receiver.WaitCount(t, 1, patience)
	better := receiver.New(t)
	s.patch(t, webhooks.Patch{URL: to(better.URL)})
	close(hold)
	delivery := s.await(t, customer, webhooks.Failed, 1)
	require.Equal(t, 410, *delivery.ResponseStatus)
	found := s.subscription(t)
	require.Equal(t, webhooks.Active, found.Status)
	require.Zero(t, found.ConsecutiveFailures)
	s.until(t, *delivery.NextAttemptAt)
	better.WaitCount(t, 1, patience)
	s.await(t, customer, webhooks.Succeeded, 2)
}

// After a 410 nothing more is posted, and the waiting deliveries are kept.
func TestAnswers_Gone_DisablesAtOnce(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.receiver.Answer(receiver.Always(receiver.Answer{Status: 410, Body: []byte("bye")}))
	first := s.Customer(t, s.org)
	delivery := s.await(t, first, webhooks.Failed, 1)
	require.Equal(t, 410, *delivery.ResponseStatus)
	found := s.subscription(t)
	require.Equal(t, webhooks.Disabled, found.Status)
	require.Equal(t, webhooks.ReasonGone, *found.DisabledReason)
	require.Equal(t, 1, found.ConsecutiveFailures)
	second := s.Customer(t, s.org)
	s.Pass(t, time.Hour)
	s.Pass(t, 100*time.Hour)
	s.await(t, second, webhooks.Pending, 0)
	s.await(t, first, webhooks.Failed, 1)
	require.Equal(t, 1, s.receiver.Count())
}
