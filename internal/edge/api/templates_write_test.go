package api_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/testkit/apitest"
	"github.com/parley-chat/parley/internal/testkit/network"
	"github.com/parley-chat/parley/internal/testkit/receiver"
)

const ownBusiness = "400000000000077"

// review has the provider decide about a template.
func review(t *testing.T, client *apitest.Client, path, event string) {
	t.Helper()
	id := client.Get(t, path).Data(t)["provider_template_id"].(string)
	client.World.Network.Control(t, "templates/"+id+"/review", map[string]any{"event": event})
}

// ownNumber connects a number of a business account without templates.
func ownNumber(t *testing.T, client *apitest.Client) string {
	t.Helper()
	client.World.Network.Number(t, ownBusiness, "100000000000077", nil)
	account, err := client.World.Accounts.Connect(t.Context(), client.Org, audit.Operator(), accounts.Draft{
		BusinessAccountID: ownBusiness, PhoneNumberID: "100000000000077", Token: network.Token(),
	})
	require.NoError(t, err)
	return *account.PhoneNumberID
}

const orderReady = `{"name":"order_done","language":"en_US","category":"UTILITY","components":[
	{"type":"BODY","text":"Your order {{1}} is done. See you.","example":{"body_text":[["1042"]]}}]}`

func TestTemplates_Create_Pending(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	number := ownNumber(t, client)
	made := client.Post(t, "/"+number+"/templates", orderReady, "Idempotency-Key", "t1")
	require.Equal(t, 201, made.Status, "%s", made.Body)
	template := made.Data(t)
	require.Equal(t, []any{"order_done", "en_US", "pending", "UTILITY", "Your order {{1}} is done. See you.", []any{"1"}, "PENDING"}, []any{
		template["name"], template["language"], template["status"], template["category"], template["content"], template["variables"],
		template["provider_status"],
	})
	require.Equal(t, "/v1/"+number+"/templates/order_done?language=en_US", made.Header.Get("Location"))
	require.Equal(t, template, client.Get(t, "/"+number+"/templates/order_done").Data(t))
	again := client.Post(t, "/"+number+"/templates", orderReady, "Idempotency-Key", "t1")
	require.Equal(t, made.Body, again.Body)

	duplicate := client.Post(t, "/"+number+"/templates", orderReady)
	requireRefused(t, duplicate, 400, "invalid_field_value", "name")
	require.Contains(t, duplicate.Error(t)["message"], "already")
	unknown := client.Do(t, "PATCH", "/"+number+"/templates/no_such", `{"components":[{"type":"BODY","text":"x"}]}`)
	requireRefused(t, unknown, 404, "resource_not_found", "")
	bad := client.Post(t, "/"+number+"/templates", strings.Replace(orderReady, "Your order", "", 1))
	requireRefused(t, bad, 400, "invalid_field_value", "components[0].text")
}

func TestTemplates_Edit_PendingAgain(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	number := ownNumber(t, client)
	require.Equal(t, 201, client.Post(t, "/"+number+"/templates", orderReady).Status)
	path := "/" + number + "/templates/order_done"
	edit := `{"components":[{"type":"BODY","text":"Order {{1}} is done. Come by.","example":{"body_text":[["7"]]}}]}`
	tooEarly := client.Do(t, "PATCH", path, edit)
	requireRefused(t, tooEarly, 400, "invalid_field_value", "name")
	require.Contains(t, tooEarly.Error(t)["message"], "still reviewing")

	review(t, client, path, "REJECTED")
	require.Equal(t, 200, client.Post(t, "/"+number+"/templates/sync", nil).Status)
	require.Equal(t, "rejected", client.Get(t, path).Data(t)["status"])
	edited := client.Do(t, "PATCH", path, edit)
	require.Equal(t, 200, edited.Status, "%s", edited.Body)
	require.Equal(t, []any{"pending", "Order {{1}} is done. Come by.", nil}, []any{
		edited.Data(t)["status"], edited.Data(t)["content"], edited.Data(t)["rejection_reason"],
	})
	// The same edit again, as after an answer that was lost: the provider has it, so that it is not made twice.
	before := client.World.Network.Calls("POST", "")
	repeated := client.Do(t, "PATCH", path, edit)
	require.Equal(t, 200, repeated.Status, "%s", repeated.Body)
	require.Equal(t, before, client.World.Network.Calls("POST", ""), "nothing is written at the provider")

	german := strings.Replace(orderReady, "en_US", "de", 1)
	require.Equal(t, 201, client.Post(t, "/"+number+"/templates", german).Status)
	requireRefused(t, client.Do(t, "PATCH", path, edit), 400, "missing_required_field", "language")
}

// TestTemplates_ProviderWouldRefuse_NamesTheField: what the provider refuses is named by its field, and where our own rules
// know it, nothing is written at the provider.
func TestTemplates_ProviderWouldRefuse_NamesTheField(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	number := ownNumber(t, client)
	templates := "/" + number + "/templates"
	require.Equal(t, 201, client.Post(t, templates, orderReady).Status)
	path := templates + "/order_done"
	review(t, client, path, "APPROVED")
	before := client.World.Network.Calls("POST", "")

	moved := client.Do(t, "PATCH", path, `{"category":"MARKETING","components":[{"type":"BODY","text":"All done."}]}`)
	requireRefused(t, moved, 400, "invalid_field_value", "category")
	strange := client.Do(t, "PATCH", path, `{"components":[{"type":"BODY","text":"All done."},{"type":"SOUND"}]}`)
	requireRefused(t, strange, 400, "invalid_field_value", "components[1].type")
	press := `{"name":"press","language":"en","category":"UTILITY","components":[{"type":"BODY","text":"Hi."},
		{"type":"BUTTONS","buttons":[{"type":"LEVER","text":"x"}]}]}`
	requireRefused(t, client.Post(t, templates, press), 400, "invalid_field_value", "components[1].buttons[0].type")
	require.Equal(t, before, client.World.Network.Calls("POST", ""), "nothing is written at the provider")

	client.World.Network.Twist(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":{"message":"Invalid parameter","code":100,"error_subcode":2388019,"error_user_msg":"The limit is reached."}}`)
	})
	full := client.Post(t, templates, strings.Replace(orderReady, "order_done", "one_more", 1))
	requireRefused(t, full, 400, "invalid_field_value", "name")
	require.Contains(t, full.Error(t)["message"], "Delete templates")
}

func TestTemplates_Language_MustBeACode(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	number := ownNumber(t, client)
	draft := func(language string) string { return strings.Replace(orderReady, "en_US", language, 1) }
	for _, language := range []string{"e", "EN", "en-US", "en_", "en_U", "english", "en_USAAA", " en", "en ", "e1", "_US", "en_US_x", "dé"} {
		requireRefused(t, client.Post(t, "/"+number+"/templates", draft(language)), 400, "invalid_field_value", "language")
	}
	require.Zero(t, client.World.Network.Calls("POST", "/message_templates"))
	for _, language := range []string{"en", "en_GB", "pt_BR", "fil", "zh_HK"} {
		made := client.Post(t, "/"+number+"/templates", draft(language))
		require.Equal(t, 201, made.Status, "%s: %s", language, made.Body)
	}
}

// TestTemplates_CreateUnanswered_NotCreatedTwice: the provider creates the template and its answer is lost.
func TestTemplates_CreateUnanswered_NotCreatedTwice(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	number := ownNumber(t, client)
	var created atomic.Int32
	client.World.Network.Twist(func(w http.ResponseWriter, r *http.Request, network http.Handler) {
		network.ServeHTTP(w, r)
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/message_templates") && created.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
	})
	lost := client.Post(t, "/"+number+"/templates", orderReady, "Idempotency-Key", "lost")
	requireRefused(t, lost, 502, "whatsapp_upstream_error", "")
	again := client.Post(t, "/"+number+"/templates", orderReady, "Idempotency-Key", "lost")
	require.Equal(t, 201, again.Status, "%s", again.Body)
	require.EqualValues(t, 1, created.Load())
	require.Equal(t, "pending", again.Data(t)["status"])
}

func TestTemplates_HeaderFromURL_Uploaded(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	number := ownNumber(t, client)
	host := receiver.New(t)
	host.Answer(receiver.Always(receiver.Answer{Status: 200, Body: []byte(png)}))
	header := func(example string) string {
		return fmt.Sprintf(`{"type":"HEADER","format":"IMAGE","example":%s}`, example)
	}
	draft := func(name, example string) string {
		return fmt.Sprintf(`{"name":%q,"language":"en","category":"MARKETING","components":[%s,{"type":"BODY","text":"Look."}]}`, name, header(example))
	}
	for i, example := range []string{fmt.Sprintf(`{"header_url":%q}`, host.URL+"/a.png"), fmt.Sprintf(`{"header_handle":[%q]}`, host.URL+"/a.png")} {
		made := client.Post(t, "/"+number+"/templates", draft(fmt.Sprintf("look_%d", i), example))
		require.Equal(t, 201, made.Status, "%s", made.Body)
		var components []struct {
			Example struct {
				Handle []string `json:"header_handle"`
				URL    string   `json:"header_url"`
			}
		}
		raw, err := json.Marshal(made.Data(t)["components"])
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(raw, &components))
		require.Len(t, components[0].Example.Handle, 1)
		require.NotContains(t, components[0].Example.Handle[0], "https://")
		require.Empty(t, components[0].Example.URL)
	}
	card := fmt.Sprintf(`{"components":[%s,{"type":"BUTTONS","buttons":[{"type":"QUICK_REPLY","text":"Yes"}]}]}`,
		header(fmt.Sprintf(`{"header_url":%q}`, host.URL+"/card.png")))
	asked := host.Count()
	made := client.Post(t, "/"+number+"/templates", `{"name":"cards","language":"en","category":"MARKETING","components":[{"type":"BODY","text":"Look."},
		{"type":"CAROUSEL","cards":[`+strings.Repeat(card+",", 9)+card+`]}]}`)
	require.Equal(t, 201, made.Status, "%s", made.Body)
	require.Equal(t, asked+1, host.Count(), "ten cards with one file fetch it once")

	host.Answer(receiver.Always(receiver.Answer{Status: 200, Body: []byte("<html>no picture</html>")}))
	refused := client.Post(t, "/"+number+"/templates", draft("page", fmt.Sprintf(`{"header_url":%q}`, host.URL+"/a.png")))
	requireRefused(t, refused, 400, "invalid_field_value", "components[0].example.header_url")
	host.Answer(receiver.Always(receiver.Answer{Status: 302}))
	refused = client.Post(t, "/"+number+"/templates", draft("moved", fmt.Sprintf(`{"header_handle":[%q]}`, host.URL+"/a.png")))
	requireRefused(t, refused, 400, "invalid_field_value", "components[0].example.header_handle[0]")
	refused = client.Post(t, "/"+number+"/templates", draft("metadata", `{"header_url":"https://169.254.169.254/latest"}`))
	requireRefused(t, refused, 400, "invalid_field_value", "components[0].example.header_url")
}

// TestTemplates_ReviewedBeforeTheAnswer_StaysReviewed: the notification of the review is applied before the answer is stored.
func TestTemplates_ReviewedBeforeTheAnswer_StaysReviewed(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	number := ownNumber(t, client)
	require.Equal(t, 201, client.Post(t, "/"+number+"/templates", orderReady).Status)
	path := "/" + number + "/templates/order_done"
	review(t, client, path, "REJECTED")
	id := client.Get(t, path).Data(t)["provider_template_id"].(string)
	require.Equal(t, 200, client.Post(t, "/"+number+"/templates/sync", nil).Status)
	s.Clock.Move(time.Minute)
	client.World.Network.Twist(func(w http.ResponseWriter, r *http.Request, network http.Handler) {
		network.ServeHTTP(w, r)
		if r.Method == http.MethodPost && !strings.Contains(r.URL.Path, "message_templates") {
			s.Clock.Move(time.Second)
			_, err := postgres.InTx(t.Context(), client.World.DB, client.Org, func(tx *postgres.Tx) (bool, error) {
				return client.World.Templates.NotifiedTx(t.Context(), tx, provider.Notification{
					BusinessAccountID: ownBusiness, At: s.Clock.Now(), Item: provider.TemplateStatus{
						Template: provider.TemplateRef{ID: id}, Status: "APPROVED", Review: provider.ReviewApproved,
					},
				})
			})
			require.NoError(t, err)
		}
	})
	edited := client.Do(t, "PATCH", path, `{"components":[{"type":"BODY","text":"All done."}]}`)
	require.Equal(t, 200, edited.Status, "%s", edited.Body)
	require.Equal(t, []any{"approved", "All done."}, []any{edited.Data(t)["status"], edited.Data(t)["content"]})
}
