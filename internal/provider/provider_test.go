package provider_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/provider"
)

func TestToken_PrintsNowhere(t *testing.T) {
	t.Parallel()
	const canary = "canary-4711"
	number := provider.Number{ID: "1", Token: provider.NewToken(canary)}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+verb+verb, number, number.Token, provider.NewPIN(canary))
	}
	logger := slog.New(slog.NewJSONHandler(&out, nil))
	logger.Info("call", "number", number, "token", number.Token, "pin", provider.NewPIN(canary))
	logger = slog.New(slog.NewTextHandler(&out, nil))
	logger.Info("call", "number", number, "token", number.Token)
	encoded, err := json.Marshal(map[string]any{"number": number, "token": number.Token})
	require.NoError(t, err)
	out.Write(encoded)
	require.NotContains(t, out.String(), canary)
	require.NotContains(t, out.String(), fmt.Sprintf("%x", canary))
	require.Equal(t, canary, number.Token.Reveal())
	require.True(t, provider.Token{}.Empty())
}

func TestNotification_Envelope(t *testing.T) {
	t.Parallel()
	notification := provider.Notification{
		BusinessAccountID: "4", NumberID: "1", DisplayNumber: "+15550199001", Field: "messages",
		Raw:     json.RawMessage(`{"id":"m","text":{"body":"<é \u00e9>"}}`),
		Contact: json.RawMessage(`{"wa_id":"15550100001"}`),
	}.In("messages")
	got, err := notification.Envelope()
	require.NoError(t, err)
	want := []byte(`{"object":"chat_business_account","entry":[{"id":"4","changes":[{"value":{"messaging_product":"chat",` +
		`"metadata":{"display_phone_number":"15550199001","phone_number_id":"1"},"contacts":[{"wa_id":"15550100001"}],` +
		`"messages":[{"id":"m","text":{"body":"<é \u00e9>"}}]},"field":"messages"}]}]}`)
	require.True(t, bytes.Equal(want, got), "the item's bytes are not touched: %s", got)

	got, err = provider.Notification{
		BusinessAccountID: "4", Portfolio: "3", Field: "account_update", At: time.Unix(1700000000, 0), Raw: json.RawMessage(`{"event":"X"}`),
	}.Envelope()
	require.NoError(t, err)
	require.JSONEq(t, `{"object":"chat_business_account","entry":[{"id":"3","time":1700000000,
		"changes":[{"field":"account_update","value":{"event":"X"}}]}]}`, string(got))
}

func TestRegistrationFault(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		given provider.Error
		want  fault.Code
	}{
		"wrong PIN":    {provider.Error{Class: provider.Terminal, Code: fault.RegistrationFailed, Details: "PIN mismatch"}, fault.RegistrationFailed},
		"not verified": {provider.Error{Class: provider.Terminal, Code: fault.NumberNotVerified}, fault.NumberNotVerified},
		"outage":       {provider.Error{Class: provider.Retryable, Code: fault.UpstreamError}, fault.ProviderUpstreamError},
		"token":        {provider.Error{Class: provider.AccountFault, Code: provider.AuthExpired}, fault.RegistrationFailed},
	} {
		require.Equal(t, test.want, fault.Of(provider.RegistrationFault(&test.given)), name)
	}
	plain := fmt.Errorf("plain")
	require.Equal(t, plain, provider.RegistrationFault(plain))
}
