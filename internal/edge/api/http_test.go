package api_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/apitest"
)

func TestHead_WorksWhereGetDoes(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	label := client.Post(t, "/labels", `{"name":"VIP"}`).Data(t)["id"].(string)
	for _, path := range []string{"/health", "/openapi.json", "/me", "/labels", "/labels/" + label} {
		get, head := client.Get(t, path), client.Do(t, http.MethodHead, path, nil)
		require.Equal(t, 200, head.Status, path)
		require.Empty(t, head.Body)
		require.Equal(t, get.Header.Get("Content-Type"), head.Header.Get("Content-Type"))
		require.Equal(t, get.Header.Get("ETag"), head.Header.Get("ETag"))
		if path != "/openapi.json" { // the client asks for it compressed, and then has no length
			require.Equal(t, get.Header.Get("Content-Length"), head.Header.Get("Content-Length"))
		}
	}
	require.Equal(t, 404, client.Do(t, http.MethodHead, "/labels/lbl_00000000000000000000000000", nil).Status)
	refused := client.Do(t, http.MethodHead, "/webhook_deliveries/replay", nil)
	require.Equal(t, 405, refused.Status)
	require.Equal(t, "POST", refused.Header.Get("Allow"))
	require.Equal(t, "GET, HEAD, POST", client.Do(t, http.MethodDelete, "/labels", nil).Header.Get("Allow"))
	require.Equal(t, 401, s.Anonymous().Do(t, http.MethodHead, "/labels", nil).Status)
}

// The path in Location of what was made answers GET with the same resource.
func TestCreate_Location_LeadsToTheResource(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	number := "/" + *s.Account(t, client.Org).PhoneNumberID
	subscription := client.Post(t, "/webhook_subscriptions", `{"url":"https://example.com/","events":["contact.created"]}`)
	hooks := "/webhook_subscriptions/" + subscription.Data(t)["id"].(string)
	made := map[string]apitest.Answer{
		"label":        client.Post(t, "/labels", `{"name":"VIP"}`, "Idempotency-Key", "once"),
		"customer":     client.Post(t, "/customers", `{"name":"Acme"}`),
		"contact":      client.Post(t, number+"/contacts", `{"phone_number":"+14155550101"}`),
		"subscription": subscription,
		"test":         client.Post(t, hooks+"/test", `{"event_type":"contact.created"}`),
	}
	made["replay"] = client.Post(t, "/webhook_deliveries/"+made["test"].Data(t)["id"].(string)+"/replay", nil)
	for name, answer := range made {
		require.Equal(t, 201, answer.Status, name)
		path, versioned := strings.CutPrefix(answer.Header.Get("Location"), "/v1")
		require.True(t, versioned, name)
		require.Equal(t, answer.Data(t)["id"], client.Get(t, path).Data(t)["id"], name)
	}
	again := client.Post(t, "/labels", `{"name":"VIP"}`, "Idempotency-Key", "once")
	require.Equal(t, "true", again.Header.Get("Idempotent-Replayed"))
	require.Equal(t, made["label"].Header.Get("Location"), again.Header.Get("Location"))
	require.Equal(t, "/v1"+hooks, client.Post(t, hooks+"/secrets", nil).Header.Get("Location"), "its subscription lists it")
}

func TestPost_WithoutABody_ReadsOneByTheSameRules(t *testing.T) {
	t.Parallel()
	client := apitest.New(t).Client(t)
	subscription := client.Post(t, "/webhook_subscriptions", `{"url":"https://example.com/","events":["contact.created"]}`).Data(t)["id"].(string)
	test := client.Post(t, "/webhook_subscriptions/"+subscription+"/test", `{"event_type":"contact.created"}`).Data(t)["id"].(string)
	path := "/webhook_deliveries/" + test + "/replay"
	require.Equal(t, 201, client.Post(t, path, nil).Status)
	require.Equal(t, 201, client.Post(t, path, `{}`).Status)
	requireRefusal(t, refusal{400, "invalid_request_error", "invalid_field_value", "dry_run"}, client.Post(t, path, `{"dry_run":true}`))
	requireRefusal(t, refusal{400, "invalid_request_error", "invalid_field_value", ""}, client.Post(t, path, `{`))
	requireRefusal(t, refusal{415, "invalid_request_error", "unsupported_media_type", ""}, client.Post(t, path, `{}`, "Content-Type", "text/plain"))
	requireRefusal(t, refusal{413, "invalid_request_error", "request_too_large", ""}, client.Post(t, path, strings.Repeat(" ", 1<<20)+"{}"))
	require.Equal(t, 201, client.Post(t, path, nil, "Idempotency-Key", "k").Status)
	requireRefusal(t, refusal{422, "invalid_request_error", "idempotency_key_reuse", ""}, client.Post(t, path, `{}`, "Idempotency-Key", "k"))
}

func TestPost_NullForAnOptionalField_IsNotGiven(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	number := "/" + *s.Account(t, client.Org).PhoneNumberID
	require.Equal(t, "gray", client.Post(t, "/labels", `{"name":"VIP","color":null,"team_id":null}`).Data(t)["color"])
	made := client.Post(t, number+"/contacts", `{"phone_number":"+14155550101","bsuid":null,"name":null,"email":null,"metadata":null}`)
	require.Equal(t, 201, made.Status, "%s", made.Body)
	require.Nil(t, made.Data(t)["name"])
	plain := client.Post(t, "/customers", `{"name":"Plain","metadata":null}`).Data(t)
	s.Clock.Move(time.Second)
	cleared := client.Do(t, http.MethodPatch, "/customers/"+plain["id"].(string), `{"metadata":null}`).Data(t)
	require.Equal(t, plain["updated_at"], cleared["updated_at"], "there was none to clear")
	kept := client.Post(t, "/customers", `{"name":"Acme","email":null,"metadata":{"a":null}}`).Data(t)
	require.Equal(t, map[string]any{"a": nil}, kept["metadata"], "inside of metadata null is a value")
	sent := client.Post(t, number+"/messages",
		`{"messaging_product":"chat","to":"+14155550101","recipient":null,"context":null,"type":"text","text":{"body":"Hello"}}`)
	require.Equal(t, 202, sent.Status, "%s", sent.Body)
	deep := client.Post(t, number+"/messages", `{"messaging_product":"chat","to":"+14155550101","type":"template","template":
		{"name":"hello","language":{"code":"en","policy":null},"components":null}}`)
	require.NotEqual(t, "invalid_field_value", deep.Code(), "also inside of the content: %s", deep.Body)
	image := client.Post(t, number+"/messages", `{"messaging_product":"chat","to":"+14155550101","type":"image","image":
		{"id":null,"link":"https://example.com/a.png","caption":null}}`)
	require.Equal(t, 202, image.Status, "%s", image.Body)
	replayed := client.Post(t, "/webhook_deliveries/replay", `{"subscription_id":null,"dry_run":null}`)
	require.Equal(t, 200, replayed.Status, "%s", replayed.Body)

	requireRefusal(t, refusal{400, "invalid_request_error", "invalid_field_value", "name"}, client.Post(t, "/labels", `{"name":null}`))
	requireRefusal(t, refusal{400, "invalid_request_error", "invalid_field_value", "colour"},
		client.Post(t, "/labels", `{"name":"Second","colour":null}`))
}

func TestBulkReplay_WithoutABody_ReplaysAllDead(t *testing.T) {
	t.Parallel()
	client := apitest.New(t).Client(t)
	require.Equal(t, map[string]any{"matched": 0.0, "replayed": 0.0}, client.Post(t, "/webhook_deliveries/replay", nil).Data(t))
}

func TestHeaders_TooLarge_AnsweredInTheEnvelope(t *testing.T) {
	t.Parallel()
	client := apitest.New(t).Client(t)
	require.Equal(t, 200, client.Get(t, "/me", "X-Padding", strings.Repeat("a", 15<<10)).Status)
	tooLarge := refusal{431, "invalid_request_error", "headers_too_large", ""}
	requireRefusal(t, tooLarge, client.Get(t, "/me", "X-Padding", strings.Repeat("a", 17<<10)))
	requireRefusal(t, tooLarge, client.Get(t, "/labels?cursor="+strings.Repeat("a", 17<<10)))
}

// The served document is for generated clients: they must accept what a later version adds.
func TestOpenAPI_Served_IsOpenAndNamesTheServer(t *testing.T) {
	t.Parallel()
	client := apitest.New(t).Client(t)
	answer := client.Get(t, "/openapi.json")
	require.Equal(t, 304, client.Get(t, "/openapi.json", "If-None-Match", answer.Header.Get("ETag")).Status)
	var document struct {
		Servers    []map[string]string
		Components struct {
			Schemas map[string]map[string]any
		}
	}
	require.NoError(t, json.Unmarshal(answer.Body, &document))
	require.Equal(t, []map[string]string{{"url": "https://api.parley.test/v1"}}, document.Servers)
	schemas := document.Components.Schemas
	require.Equal(t, false, schemas["LabelDraft"]["additionalProperties"], "what callers send stays closed")
	for _, open := range []string{"Label", "LabelAnswer", "LabelList", "ErrorEnvelope", "ContactCreatedEvent"} {
		require.NotEmpty(t, schemas[open]["properties"], open)
		require.NotContains(t, schemas[open], "additionalProperties", open)
	}
	require.NotContains(t, schemas["ErrorCode"], "enum")
	require.Contains(t, schemas["ErrorCode"]["x-extensible-enum"], "already_exists")
}

func TestOpenAPI_Compressed_IfTheCallerAcceptsIt(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	for accepted, encoding := range map[string]string{"br, gzip": "gzip", "gzip;q=0": "", "identity": "", "GZIP;q=0.5": "gzip"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/v1/openapi.json", http.NoBody)
		require.NoError(t, err)
		request.Header.Set("Accept-Encoding", accepted)
		response, err := http.DefaultTransport.RoundTrip(request)
		require.NoError(t, err)
		require.Equal(t, encoding, response.Header.Get("Content-Encoding"), accepted)
		var body io.Reader = response.Body
		if encoding == "gzip" {
			require.Less(t, response.ContentLength, int64(150_000))
			body, err = gzip.NewReader(body)
			require.NoError(t, err)
		}
		text, err := io.ReadAll(body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.True(t, bytes.Equal(s.Anonymous().Get(t, "/openapi.json").Body, text), accepted)
	}
}

func TestPatch_FieldThatTheResourceHas_CannotBeChanged(t *testing.T) {
	t.Parallel()
	client := apitest.New(t).Client(t)
	path := "/labels/" + client.Post(t, "/labels", `{"name":"VIP"}`).Data(t)["id"].(string)
	for field, message := range map[string]string{
		"team_id": "The field `team_id` cannot be changed.",
		"owner":   "The field `owner` is not a known field.",
	} {
		refused := client.Do(t, http.MethodPatch, path, `{"`+field+`":"x"}`)
		requireRefusal(t, refusal{400, "invalid_request_error", "invalid_field_value", field}, refused)
		require.Equal(t, message, refused.Error(t)["message"])
	}
}
