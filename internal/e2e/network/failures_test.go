package network_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/provider/cloud"
	"github.com/parley-chat/parley/internal/simulator/wire"
	"github.com/parley-chat/parley/internal/testkit/canary"
)

// TestErrorCodes_InAnswerAndCallback_MeanTheSame tries all codes that the simulator answers for
// reserved numbers of recipients.
func TestErrorCodes_InAnswerAndCallback_MeanTheSame(t *testing.T) {
	t.Parallel()
	f := start(t)
	classes := map[provider.Class]int{}
	for _, code := range slices.Sorted(slices.Values(wire.Known())) {
		if code > 999_999 {
			continue // more digits than a reserved number has
		}
		_, err := f.send(provider.Outbound{To: fmt.Sprintf("+15554%06d", code), Reference: "sync-" + strconv.Itoa(code)})
		answered := refused(t, err)
		require.NotNil(t, answered.ProviderCode, code)
		require.Equal(t, code, *answered.ProviderCode)
		require.Equal(t, provider.NotSent, answered.Delivery, "the provider refused %d itself", code)
		require.NotEmpty(t, answered.Words(), code)
		require.NotEmpty(t, answered.Trace, code)
		require.Equal(t, "send", answered.Operation)
		classes[answered.Class]++
		require.Empty(t, f.sent("sync-"+strconv.Itoa(code)))
		if code == 0 {
			continue // no code in a callback
		}
		accepted, err := f.send(provider.Outbound{To: fmt.Sprintf("+15552%06d", code)})
		require.NoError(t, err, code)
		_, status := next(f, func(status provider.Status) bool {
			return status.MessageID == accepted.MessageID && status.Status == "failed"
		})
		require.Len(t, status.Errors, 1, code)
		called := status.Errors[0]
		require.Equal(t, answered.Class, called.Class, code)
		require.Equal(t, answered.Code, called.Code, code)
		require.Equal(t, answered.Effect, called.Effect, code)
		require.Equal(t, code, *called.ProviderCode)
	}
	for _, class := range []provider.Class{provider.Retryable, provider.RateLimited, provider.AccountFault, provider.Terminal} {
		require.NotZero(t, classes[class], class)
	}
}

func TestSend_FailuresAtTheProvider_ClassAndDelivery(t *testing.T) {
	t.Parallel()
	f := start(t)
	for name, test := range map[string]struct {
		outcome  object
		class    provider.Class
		delivery provider.Delivery
		accepted int
	}{
		"the answer is cut off":             {object{"drop_answer": true}, provider.Retryable, provider.Ambiguous, 1},
		"the request is cut off":            {object{"drop_request": true}, provider.Retryable, provider.Ambiguous, 0},
		"the answer is garbage":             {object{"garbage": true}, provider.Retryable, provider.Ambiguous, 1},
		"an outage in the provider's words": {object{"http_status": 503}, provider.Retryable, provider.NotSent, 0},
		"throttled in the provider's words": {object{"http_status": 429}, provider.RateLimited, provider.NotSent, 0},
		"refused":                           {object{"sync_code": 131051}, provider.Terminal, provider.NotSent, 0},
		"the token is dead":                 {object{"sync_code": 190}, provider.AccountFault, provider.NotSent, 0},
	} {
		f.sim("script", object{"match": object{"to": ada}, "outcome": test.outcome, "times": 1})
		reference := name
		_, err := f.send(provider.Outbound{To: ada, Reference: reference})
		failed := refused(t, err)
		require.Equal(t, test.class, failed.Class, name)
		require.Equal(t, test.delivery, failed.Delivery, name)
		accepted := len(f.sent(reference))
		if test.delivery == provider.NotSent {
			require.Zero(t, accepted, "%s: not_sent means that nothing was sent", name)
		} else if test.accepted > 0 {
			require.Equal(t, test.accepted, accepted, name)
			next(f, func(status provider.Status) bool { return status.Reference == reference })
		}
	}
}

func TestSend_NoConnection_IsNotSent(t *testing.T) {
	t.Parallel()
	closed, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	refusing := "http://" + closed.Addr().String()
	require.NoError(t, closed.Close())
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = slog.NewLogLogger(canary.Logger(t).Handler(), slog.LevelError)
	untrusted.StartTLS()
	t.Cleanup(untrusted.Close)
	for name, test := range map[string]struct {
		base   string
		gaveUp bool
	}{
		"connection refused":    {base: refusing},
		"untrusted certificate": {base: untrusted.URL},
		"the caller gave up":    {base: untrusted.URL, gaveUp: true},
	} {
		client, err := cloud.New(cloud.Config{BaseURL: test.base})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		if test.gaveUp {
			stop()
		}
		_, err = client.Send(ctx, provider.Number{ID: "1", Token: provider.NewToken(token)},
			provider.Outbound{To: ada, Type: "text", Content: text("x")})
		failed := refused(t, err)
		require.Equal(t, provider.Retryable, failed.Class, name)
		require.Equal(t, provider.NotSent, failed.Delivery, name)
		require.Equal(t, fault.UpstreamError, failed.Code, name)
		client.Close()
	}
}

func TestSend_CanceledAfterTheRequestLeft_IsAmbiguous(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-release
	}))
	t.Cleanup(server.Close)
	defer close(release)
	client, err := cloud.New(cloud.Config{BaseURL: server.URL})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		<-arrived
		stop()
	}()
	_, err = client.Send(ctx, provider.Number{ID: "1", Token: provider.NewToken(token)}, provider.Outbound{To: ada, Type: "text", Content: text("x")})
	failed := refused(t, err)
	require.Equal(t, provider.Ambiguous, failed.Delivery)
	require.ErrorIs(t, err, context.Canceled, "the error shows that the caller canceled")
}

func TestTokens_Bad_DisconnectOrRevokePermission(t *testing.T) {
	t.Parallel()
	f := start(t)
	for name, test := range map[string]struct {
		token  string
		class  provider.Class
		code   fault.Code
		effect provider.Effect
	}{
		"unknown": {"canary-unknown", provider.AccountFault, provider.AuthExpired, provider.EffectDisconnected},
		"missing": {"", provider.AccountFault, provider.AuthExpired, provider.EffectDisconnected},
		"foreign": {f.sim("tokens", object{"accounts": []string{"9"}})["access_token"].(string), provider.AccountFault, provider.PermissionRevoked, provider.EffectNone},
	} {
		_, err := f.client.FetchNumber(t.Context(), provider.Number{ID: f.number.ID, Token: provider.NewToken(test.token)})
		failed := refused(t, err)
		require.Equal(t, test.class, failed.Class, name)
		require.Equal(t, test.code, failed.Code, name)
		require.Equal(t, test.effect, failed.Effect, name)
	}
	_, err := f.client.FetchNumber(t.Context(), provider.Number{ID: "999999999", Token: f.number.Token})
	require.True(t, refused(t, err).Missing)
}

func TestRateLimits_HaveScopeAndRetryAfter(t *testing.T) {
	t.Parallel()
	f := start(t)
	_, err := f.send(provider.Outbound{To: "+15554131048"})
	require.Equal(t, provider.LimitNumber, refused(t, err).Limit)
	require.NotZero(t, refused(t, err).RetryAfter)
	_, err = f.send(provider.Outbound{To: "+15554131056"})
	require.Equal(t, provider.LimitPair, refused(t, err).Limit)
	_, err = f.send(provider.Outbound{To: "+15554080007"})
	require.Equal(t, provider.LimitBusinessAccount, refused(t, err).Limit)
	_, err = f.send(provider.Outbound{To: "+15554000004"})
	require.Equal(t, provider.LimitApp, refused(t, err).Limit)
}
