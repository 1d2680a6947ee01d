package cloud_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/telemetry"
	"github.com/parley-chat/parley/internal/provider"
)

func secrets(values ...string) []telemetry.Secret {
	all := make([]telemetry.Secret, len(values))
	for i, value := range values {
		all[i] = telemetry.Secret(value)
	}
	return all
}

// TestAnswers_OfAnyKind sends once and is answered in every way that a network, a proxy or
// an outage can answer.
func TestAnswers_OfAnyKind(t *testing.T) {
	t.Parallel()
	const ok = http.StatusOK
	for name, test := range map[string]struct {
		status   int
		body     string
		class    provider.Class
		delivery provider.Delivery
	}{
		"an id":                     {ok, `{"messages":[{"id":"wamid.1"}]}`, "", provider.Sent},
		"an id and unknown fields":  {ok, `{"x":[{}],"contacts":[{"input":"1","y":1}],"messages":[{"id":"wamid.1","z":{}}]}`, "", provider.Sent},
		"an id that is a number":    {ok, `{"messages":[{"id":17}]}`, "", provider.Sent},
		"two ids":                   {ok, `{"messages":[{"id":"wamid.1"},{"id":"wamid.2"}]}`, "", provider.Sent},
		"contacts of another type":  {ok, `{"contacts":"x","messages":[{"id":"wamid.1"}]}`, "", provider.Sent},
		"created":                   {http.StatusCreated, `{"messages":[{"id":"wamid.1"}]}`, "", provider.Sent},
		"nothing":                   {ok, ``, provider.Retryable, provider.Ambiguous},
		"null":                      {ok, `null`, provider.Retryable, provider.Ambiguous},
		"a list":                    {ok, `[]`, provider.Retryable, provider.Ambiguous},
		"an object without an id":   {ok, `{}`, provider.Retryable, provider.Ambiguous},
		"no messages":               {ok, `{"messages":[]}`, provider.Retryable, provider.Ambiguous},
		"an empty id":               {ok, `{"messages":[{"id":""}]}`, provider.Retryable, provider.Ambiguous},
		"an id of another type":     {ok, `{"messages":[{"id":{"x":1}}]}`, provider.Retryable, provider.Ambiguous},
		"half an answer":            {ok, `{"messages":[{"id":"wam`, provider.Retryable, provider.Ambiguous},
		"a page":                    {ok, `<html>Welcome to the airport</html>`, provider.Retryable, provider.Ambiguous},
		"too long":                  {ok, `{"messages":[{"id":"wamid.1"}],"x":"` + strings.Repeat("x", 10<<20) + `"}`, provider.Retryable, provider.Ambiguous},
		"a long tail":               {ok, `{"messages":[{"id":"wamid.1"}]}` + strings.Repeat(" ", 2<<20), provider.Retryable, provider.Ambiguous},
		"an error beside an id":     {ok, `{"error":{"message":"x"},"messages":[{"id":"wamid.1"}]}`, provider.Retryable, provider.Ambiguous},
		"deep":                      {ok, strings.Repeat(`{"a":`, 20_000), provider.Retryable, provider.Ambiguous},
		"a redirect":                {http.StatusFound, ``, provider.Retryable, provider.Ambiguous},
		"an outage without words":   {http.StatusBadGateway, `<html>bad gateway</html>`, provider.Retryable, provider.Ambiguous},
		"503 without words":         {http.StatusServiceUnavailable, ``, provider.Retryable, provider.Ambiguous},
		"504 without words":         {http.StatusGatewayTimeout, `{}`, provider.Retryable, provider.Ambiguous},
		"400 without words":         {http.StatusBadRequest, `bad`, provider.Retryable, provider.NotSent},
		"401 of a proxy":            {http.StatusUnauthorized, `<html>`, provider.Retryable, provider.NotSent},
		"404 without words":         {http.StatusNotFound, ``, provider.Retryable, provider.NotSent},
		"413 without words":         {http.StatusRequestEntityTooLarge, ``, provider.Terminal, provider.NotSent},
		"429 without words":         {http.StatusTooManyRequests, ``, provider.RateLimited, provider.NotSent},
		"an error with 200":         {ok, `{"error":{"code":131047,"message":"x"}}`, provider.Terminal, provider.NotSent},
		"an error and an id":        {ok, `{"error":{"code":131047},"messages":[{"id":"w"}]}`, provider.Terminal, provider.NotSent},
		"an error without a code":   {http.StatusBadRequest, `{"error":{"message":"x"}}`, provider.Retryable, provider.NotSent},
		"an error that is a text":   {http.StatusInternalServerError, `{"error":"boom"}`, provider.Retryable, provider.Ambiguous},
		"200 with an empty error":   {ok, `{"error":{}}`, provider.Retryable, provider.Ambiguous},
		"a code in quotes":          {http.StatusBadRequest, `{"error":{"code":"131056"}}`, provider.RateLimited, provider.NotSent},
		"a code with a fraction":    {http.StatusBadRequest, `{"error":{"code":131056.0}}`, provider.RateLimited, provider.NotSent},
		"an unknown code":           {http.StatusBadRequest, `{"error":{"code":424242}}`, provider.Terminal, provider.NotSent},
		"an unknown transient code": {http.StatusBadRequest, `{"error":{"code":424242,"is_transient":true}}`, provider.Retryable, provider.NotSent},
		"an unknown code with 500":  {http.StatusInternalServerError, `{"error":{"code":424242}}`, provider.Retryable, provider.NotSent},
		"an unknown code with 429":  {http.StatusTooManyRequests, `{"error":{"code":424242}}`, provider.RateLimited, provider.NotSent},
		"a known code with 500":     {http.StatusInternalServerError, `{"error":{"code":131047}}`, provider.Terminal, provider.NotSent},
		"wrong types everywhere":    {http.StatusBadRequest, `{"error":{"code":190,"message":{},"error_data":[1],"error_subcode":"x","fbtrace_id":7}}`, provider.AccountFault, provider.NotSent},
	} {
		accepted, err := send(t, answering(t, test.status, nil, []byte(test.body)))
		if test.delivery == provider.Sent {
			require.NoError(t, err, name)
			require.NotEmpty(t, accepted.MessageID, name)
			continue
		}
		failed := failure(t, err)
		require.Equal(t, test.class, failed.Class, name)
		require.Equal(t, test.delivery, failed.Delivery, name)
		require.NotEmpty(t, failed.Code, name)
		require.Equal(t, test.status, failed.HTTPStatus, name)
	}
}

// TestAnswers_WritesWantASuccess asks for what answers nothing but a success.
func TestAnswers_WritesWantASuccess(t *testing.T) {
	t.Parallel()
	number := provider.Number{ID: "1", Token: provider.NewToken("t")}
	for body, done := range map[string]bool{
		`{"success":true}`: true, `{"success":"true"}`: true, `{"success":false}`: false, `{}`: false, ``: false, `{"success":null}`: false,
	} {
		err := answering(t, http.StatusOK, nil, []byte(body)).Register(t.Context(), number, provider.NewPIN("123456"))
		if done {
			require.NoError(t, err, body)
		} else {
			require.Equal(t, provider.Ambiguous, failure(t, err).Delivery, body)
		}
	}
}

// TestErrors_AreFitToBeShown lets the network answer with words that nobody wants to read.
func TestErrors_AreFitToBeShown(t *testing.T) {
	t.Parallel()
	const token = "EAAcanarytoken"
	body := []byte(`{"error":{"code":190,"message":"(#190) Malformed access token ` + token + `\u0000\u001b[31m\nsecret\tEAAabcdefghijklmnopqrstuvwxyz",
		"error_data":{"details":"` + strings.Repeat("long ", 1000) + `"},"fbtrace_id":"a\nb"}}`)
	_, err := send(t, answering(t, http.StatusUnauthorized, nil, body))
	failed := failure(t, err)
	require.Equal(t, "Malformed access token [hidden] [31m [hidden] [hidden]", failed.Title)
	require.LessOrEqual(t, len(failed.Details), 310)
	require.NotContains(t, err.Error(), "\n")
	require.NotContains(t, err.Error(), "canary")
}

// TestErrors_CarryNoSecret makes every operation fail in several ways, and reads what is printed.
func TestErrors_CarryNoSecret(t *testing.T) {
	t.Parallel()
	token := provider.NewToken("canary-token")
	number, owner := provider.Number{ID: "1", Token: token}, provider.BusinessAccount{ID: "4", Token: token}
	ctx := t.Context()
	echo := []byte(`{"error":{"code":1,"message":"canary-token canary-secret canary-verify","error_user_msg":"canary-token"}}`)
	dead := unreachable(t, "canary-secret")
	var printed bytes.Buffer
	show := func(err error) {
		require.Error(t, err)
		words := fmt.Sprintf("%v\n%+v\n%#v\n%q\n", err, err, err, err)
		require.NotContains(t, words, "canary", "a secret")
		printed.WriteString(words)
		for cause := err; cause != nil; {
			fmt.Fprintf(&printed, "%+v\n", cause)
			unwrapper, is := cause.(interface{ Unwrap() error })
			if !is {
				break
			}
			cause = unwrapper.Unwrap()
		}
	}
	for _, client := range []provider.Port{dead, secretive(t, http.StatusBadRequest, echo), secretive(t, http.StatusOK, []byte("canary-token"))} {
		_, err := client.Send(ctx, number, provider.Outbound{To: "+15550100001", Type: "text", Content: []byte(`{"body":"canary-token"}`)})
		show(err)
		show(client.MarkRead(ctx, number, provider.Receipt{MessageID: "x"}))
		_, err = client.UploadMedia(ctx, number, small())
		show(err)
		_, err = client.FindMedia(ctx, number, "6")
		show(err)
		_, err = client.DownloadMedia(ctx, number, "https://elsewhere.example/?canary-token")
		show(err)
		show(client.DeleteMedia(ctx, number, "6"))
		_, err = client.ListTemplates(ctx, owner, provider.TemplateQuery{})
		show(err)
		_, err = client.FetchTemplate(ctx, owner, "5")
		show(err)
		_, err = client.CreateTemplate(ctx, owner, provider.TemplateDraft{Components: []byte(`[]`)})
		show(err)
		show(client.EditTemplate(ctx, owner, "5", provider.TemplateEdit{}))
		show(client.DeleteTemplate(ctx, owner, "n", ""))
		_, err = client.UploadExample(ctx, token, small())
		show(err)
		_, err = client.FetchNumber(ctx, number)
		show(err)
		_, err = client.ListNumbers(ctx, owner)
		show(err)
		show(client.Register(ctx, number, provider.NewPIN("canary-token")))
		show(client.Deregister(ctx, number))
		show(client.SyncPhoneApp(ctx, number, provider.PhoneAppHistory))
		_, err = client.ExchangeCode(ctx, provider.SignupCode{Code: "canary-token"})
		show(err)
		_, err = client.InspectToken(ctx, token)
		show(err)
		show(client.Subscribe(ctx, owner))
		show(client.Unsubscribe(ctx, owner))
		_, err = client.Subscribed(ctx, owner)
		show(err)
	}
	require.NotContains(t, printed.String(), "canary")
	require.Contains(t, printed.String(), "[hidden]")
}
