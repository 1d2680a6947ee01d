package cloud_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/provider/cloud"
)

// recorder is a network that writes down what it is asked and answers what it was told to.
type recorder struct {
	mu      sync.Mutex
	text    bytes.Buffer
	answers []string
}

var boundary = regexp.MustCompile(`[0-9a-f]{60}`)

func (r *recorder) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	body, _ := io.ReadAll(request.Body)
	fmt.Fprintf(&r.text, "%s %s\n", request.Method, request.URL.String())
	for _, name := range []string{"Authorization", "Content-Type", "File_offset"} {
		if value := request.Header[name]; value != nil {
			fmt.Fprintf(&r.text, "  %s: %s\n", name, boundary.ReplaceAllString(value[0], "BOUNDARY"))
		}
	}
	if len(body) > 0 {
		shown := strings.ReplaceAll(boundary.ReplaceAllString(string(body), "BOUNDARY"), "\r\n", "⏎")
		fmt.Fprintf(&r.text, "  %s\n", shown)
	}
	answer := `{"success":true}`
	if len(r.answers) > 0 {
		answer, r.answers = r.answers[0], r.answers[1:]
	}
	_, _ = io.WriteString(w, answer)
}

// TestWire holds every request that can be made against testdata/requests.txt, which is
// written with -update and read by a person.
func TestWire(t *testing.T) {
	t.Parallel()
	network := &recorder{}
	server := httptest.NewServer(network)
	client, err := cloud.New(cloud.Config{BaseURL: server.URL, AppID: "2", AppSecrets: secrets("secret"), SignupConfigID: "77"})
	require.NoError(t, err)
	t.Cleanup(func() {
		client.Close()
		server.Close()
	})
	ctx := t.Context()
	number := provider.Number{ID: "100", Token: provider.NewToken("token")}
	owner := provider.BusinessAccount{ID: "400", Token: provider.NewToken("token")}
	ask := func(name string, call func() error, answers ...string) {
		network.mu.Lock()
		fmt.Fprintf(&network.text, "# %s\n", name)
		network.answers = answers
		network.mu.Unlock()
		require.NoError(t, call(), name)
	}
	const sent = `{"messages":[{"id":"w"}]}`
	outbound := func(message provider.Outbound) func() error {
		return func() error { _, err := client.Send(ctx, number, message); return err }
	}
	ask("send", outbound(provider.Outbound{
		To: "+1 (555) 010-0001", Recipient: "US.1", Type: "text", Content: json.RawMessage(`{"body":"<é & \u00e9>","new_field":1}`),
		Reference: "msg_1:1", ReplyTo: "wamid.1",
	}), sent)
	ask("send to a user id", outbound(provider.Outbound{Recipient: "US.ENT.1", Type: "text", Content: json.RawMessage(`{"body":"x"}`)}), sent)
	ask("send a reaction", outbound(provider.Outbound{
		To: "15550100001", Type: "reaction", Content: json.RawMessage(`{"message_id":"wamid.1","emoji":""}`), ReplyTo: "wamid.1",
	}), sent)
	ask("send a template", outbound(provider.Outbound{
		To: "+15550100001", Type: "template", Content: json.RawMessage(`{"name":"n","language":"en_US","components":[{"type":"body"}]}`),
	}), sent)
	ask("send buttons", outbound(provider.Outbound{
		To: "+15550100001", Type: "interactive", Content: json.RawMessage(`{"type":"reply_buttons","body":{"text":"x"},"action":{}}`),
	}), sent)
	ask("mark read", func() error { return client.MarkRead(ctx, number, provider.Receipt{MessageID: "wamid.1"}) })
	ask("mark read and type", func() error {
		return client.MarkRead(ctx, number, provider.Receipt{MessageID: "wamid.1", Typing: true})
	})
	file := small()
	file.Name = "a\"\\b\r\n.png"
	ask("upload media", func() error { _, err := client.UploadMedia(ctx, number, file); return err }, `{"id":"600"}`)
	ask("find media", func() error { _, err := client.FindMedia(ctx, number, "600"); return err }, `{"url":"https://x"}`)
	ask("delete media", func() error { return client.DeleteMedia(ctx, number, "600") })
	ask("list templates", func() error {
		page, err := client.ListTemplates(ctx, owner, provider.TemplateQuery{Name: "n", After: "cursor", Limit: 50})
		require.Equal(t, "next", page.Next)
		return err
	}, `{"data":[],"paging":{"cursors":{"after":"next"},"next":"https://x"}}`)
	ask("list the last templates", func() error {
		page, err := client.ListTemplates(ctx, owner, provider.TemplateQuery{})
		require.Empty(t, page.Next, "a cursor without a next page is the end")
		return err
	}, `{"data":[],"paging":{"cursors":{"after":"last"}}}`)
	ask("fetch a template", func() error { _, err := client.FetchTemplate(ctx, owner, "500"); return err }, `{"id":"500"}`)
	ask("create a template", func() error {
		_, err := client.CreateTemplate(ctx, owner, provider.TemplateDraft{
			Name: "n", Language: "en_US", Category: "UTILITY", ParameterFormat: "named", Components: json.RawMessage(`[{"type":"BODY","text":"x"}]`),
		})
		return err
	}, `{"id":"500","status":"PENDING","category":"MARKETING"}`)
	ask("edit a template", func() error {
		return client.EditTemplate(ctx, owner, "500", provider.TemplateEdit{Category: "UTILITY", Components: json.RawMessage(`[]`)})
	})
	ask("delete a template", func() error { return client.DeleteTemplate(ctx, owner, "n", "500") })
	ask("delete all languages", func() error { return client.DeleteTemplate(ctx, owner, "n", "") })
	ask("upload an example", func() error { _, err := client.UploadExample(ctx, owner.Token, small()); return err },
		`{"id":"upload:abc=?sig=x"}`, `{"h":"4::aW"}`)
	ask("fetch a number", func() error { _, err := client.FetchNumber(ctx, number); return err }, `{"id":"100"}`)
	ask("list numbers", func() error {
		numbers, err := client.ListNumbers(ctx, owner)
		require.Len(t, numbers, 2)
		return err
	}, `{"data":[{"id":"1"}],"paging":{"cursors":{"after":"c"},"next":"https://x"}}`, `{"data":[{"id":"2"}],"paging":{"cursors":{"after":"d"}}}`)
	ask("register", func() error { return client.Register(ctx, number, provider.NewPIN("123456")) })
	ask("deregister", func() error { return client.Deregister(ctx, number) })
	ask("sync contacts", func() error { return client.SyncPhoneApp(ctx, number, provider.PhoneAppContacts) }, `{"request_id":"r"}`)
	ask("sync history", func() error { return client.SyncPhoneApp(ctx, number, provider.PhoneAppHistory) }, `{"request_id":"r"}`)
	ask("exchange a code", func() error {
		_, err := client.ExchangeCode(ctx, provider.SignupCode{Code: "code", RedirectURL: "https://a/b"})
		return err
	}, `{"access_token":"t"}`)
	ask("inspect a token", func() error {
		state, err := client.InspectToken(ctx, provider.NewToken("other"))
		require.False(t, state.Valid, "a token of another app")
		require.Equal(t, []string{"4"}, state.BusinessAccounts)
		return err
	}, `{"data":{"app_id":"3","is_valid":true,"granular_scopes":[{"scope":"x","target_ids":["9"]},{"scope":"whatsapp_business_management","target_ids":["4"]}]}}`)
	ask("subscribe", func() error { return client.Subscribe(ctx, owner) })
	ask("unsubscribe", func() error { return client.Unsubscribe(ctx, owner) })
	ask("subscribed", func() error { _, err := client.Subscribed(ctx, owner); return err }, `{"data":[]}`)
	fmt.Fprintf(&network.text, "# signup\n%s\n", strings.TrimPrefix(client.SignupURL(provider.SignupDialog{
		RedirectURL: "https://a/b?c=d", State: "s", Coexistence: true,
	}), server.URL))
	if *update {
		require.NoError(t, os.WriteFile("testdata/requests.txt", network.text.Bytes(), 0o600))
	}
	want, err := os.ReadFile("testdata/requests.txt")
	require.NoError(t, err)
	require.Equal(t, strings.Split(string(want), "\n"), strings.Split(network.text.String(), "\n"))
}

func TestSignupURL_OfTheNetworkItself(t *testing.T) {
	t.Parallel()
	client, err := cloud.New(cloud.Config{AppID: "2"})
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(client.SignupURL(provider.SignupDialog{}), "https://www.facebook.com/"+cloud.DefaultVersion+"/dialog/oauth?"))
}

// TestFields_OneThatIsGoneTakesNoOtherWithIt plays a version of the network that knows the
// plain fields alone.
func TestFields_OneThatIsGoneTakesNoOtherWithIt(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fields := r.URL.Query().Get("fields")
		switch {
		case strings.Contains(fields, "is_on_biz_app") || strings.Contains(fields, "quality_score"):
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"code":100,"message":"(#100) Tried accessing nonexisting field"}}`)
		case strings.HasSuffix(r.URL.Path, "/100") || strings.HasSuffix(r.URL.Path, "/500"):
			_, _ = io.WriteString(w, `{"id":"7","status":"CONNECTED"}`)
		default:
			_, _ = io.WriteString(w, `{"data":[{"id":"7","status":"CONNECTED"}]}`)
		}
	}))
	client := secretClient(t, server.URL, server.Close)
	owner := provider.BusinessAccount{ID: "400", Token: provider.NewToken("t")}
	number, err := client.FetchNumber(t.Context(), provider.Number{ID: "100", Token: owner.Token})
	require.NoError(t, err)
	require.Equal(t, provider.NumberConnected, number.Status)
	numbers, err := client.ListNumbers(t.Context(), owner)
	require.NoError(t, err)
	require.Len(t, numbers, 1)
	template, err := client.FetchTemplate(t.Context(), owner, "500")
	require.NoError(t, err)
	require.Equal(t, "7", template.ID)
	page, err := client.ListTemplates(t.Context(), owner, provider.TemplateQuery{Limit: 5})
	require.NoError(t, err)
	require.Len(t, page.Templates, 1)
}
