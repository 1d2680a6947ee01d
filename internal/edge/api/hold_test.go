package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/hold"
	"github.com/parley-chat/parley/internal/testkit/apitest"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/network"
)

// TestHold_RoutesThatCallTheProvider_503: everything else is served; a message is accepted and waits.
func TestHold_RoutesThatCallTheProvider_503(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	connect(t, client, "100000000000021", pending(canary.PIN), nil)
	connect(t, client, "100000000000022", map[string]any{"display_phone_number": "+351 21 000 0022"}, nil)
	stored := client.Post(t, "/100000000000022/templates/sync", nil, "Idempotency-Key", "before")
	require.Equal(t, 200, stored.Status)
	calls := func() int { return s.Network.Calls(http.MethodGet, "") + s.Network.Calls(http.MethodPost, "") }
	before := calls()
	require.Positive(t, before)

	held, err := client.World.Hold.Write(t.Context(), "ada")
	require.NoError(t, err)
	for path, body := range map[string]any{"/100000000000021/register": rightPIN, "/100000000000022/templates/sync": nil} {
		for _, header := range [][]string{nil, {"Idempotency-Key", "held" + path}} {
			refused := client.Post(t, path, body, header...)
			require.Equal(t, []any{503, "service_unavailable", "60"}, []any{refused.Status, refused.Code(), refused.Header.Get("Retry-After")}, path)
			require.Contains(t, refused.Error(t)["message"], "on hold")
		}
	}
	replayed := client.Post(t, "/100000000000022/templates/sync", nil, "Idempotency-Key", "before")
	require.Equal(t, stored.Body, replayed.Body, "a stored answer needs no call")
	_, err = client.World.Accounts.Connect(t.Context(), client.Org, audit.Operator(), accounts.Draft{
		BusinessAccountID: "400000000000001", PhoneNumberID: "100000000000001", Token: network.Token(),
	})
	require.Equal(t, fault.ServiceUnavailable, fault.Of(err))
	accepted := client.Post(t, "/100000000000022/messages",
		`{"messaging_product":"chat","to":"+351910000001","type":"text","text":{"body":"Hello"}}`)
	require.Equal(t, []any{http.StatusAccepted, "queued"}, []any{accepted.Status, accepted.Data(t)["status"]})
	require.Equal(t, before, calls(), "no call")

	require.NoError(t, client.World.Hold.Release(t.Context(), held, "ada", hold.Wait))
	for path, body := range map[string]any{"/100000000000021/register": rightPIN, "/100000000000022/templates/sync": nil} {
		require.Equal(t, 200, client.Post(t, path, body, "Idempotency-Key", "held"+path).Status, "the key was not used up, and no PIN was counted")
	}
}
