package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/apitest"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/network"
)

// TestAccounts_TokensAndPINs_NeverShown runs every operation on a number with a canary token and PINs.
// The testkit searches answers, logs and all tables for them.
func TestAccounts_TokensAndPINs_NeverShown(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	connect(t, client, "100000000000077", pending(canary.PIN), nil)
	path := "/100000000000077/register"
	register := func(body, key string) int { return client.Post(t, path, body, "Idempotency-Key", key).Status }
	s.Network.Twist(func(w http.ResponseWriter, r *http.Request, network http.Handler) {
		if strings.HasSuffix(r.URL.Path, "/register") {
			panic(http.ErrAbortHandler)
		}
		network.ServeHTTP(w, r)
	})
	require.Equal(t, 502, register(wrongPIN, "broken"))
	s.Network.Twist(nil)
	require.Equal(t, 422, register(wrongPIN, "wrong"))
	require.Equal(t, 400, register(strings.Replace(wrongPIN, `"}`, `x"}`, 1), "malformed"))
	require.Equal(t, 400, register(strings.Replace(wrongPIN, `}`, `,"x":1}`, 1), "with more"))
	require.Equal(t, 200, register(rightPIN, "right"))
	require.Equal(t, 200, register(rightPIN, "right"))
	require.Equal(t, 200, client.Post(t, "/100000000000077/templates/sync", nil).Status)
	s.Network.Control(t, "tokens", map[string]any{"access_token": network.Token().Reveal(), "revoke": true})
	require.Equal(t, 422, client.Post(t, "/100000000000077/templates/sync", nil).Status)
	require.Equal(t, 200, client.Get(t, "/accounts?status=all").Status)
}
