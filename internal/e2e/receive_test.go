package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/proc"
	"github.com/parley-chat/parley/openapi"
)

// inbox is a `parley dev` with an endpoint for all events about messages and contacts.
type inbox struct {
	t       *testing.T
	ready   map[string]string
	caller  *client
	hook    *hook
	schemas map[string]*jsonschema.Schema
	shown   *jsonschema.Schema
}

func newInbox(t *testing.T, databaseURL string, more ...proc.Settings) (*inbox, *proc.Process) {
	t.Helper()
	process, ready := develop(t, databaseURL, more...)
	i := &inbox{
		t: t, ready: ready, hook: &hook{bodies: map[string][]json.RawMessage{}}, schemas: map[string]*jsonschema.Schema{},
		caller: &client{base: ready["base_url"], key: ready["api_key"], http: newHTTP()},
	}
	endpoint := httptest.NewServer(i.hook)
	t.Cleanup(endpoint.Close)
	contract, err := openapi.Load()
	require.NoError(t, err)
	events := []string{
		"message.received", "message.sent", "message.revoked", "message.edited", "contact.created", "contact.updated", "contact.identity_updated",
	}
	for _, event := range events {
		i.schemas[event], err = contract.Webhook(event)
		require.NoError(t, err)
	}
	operation, _ := contract.Operation(http.MethodGet, "/{phone_number_id}/messages/{id}")
	i.shown, err = operation.Response(http.StatusOK)
	require.NoError(t, err)
	listed, err := json.Marshal(events)
	require.NoError(t, err)
	i.do(http.StatusCreated, http.MethodPost, "/webhook_subscriptions", fmt.Sprintf(`{"url":%q,"events":%s}`, endpoint.URL, listed))
	return i, process
}

func (i *inbox) do(status int, method, path, body string) answer {
	i.t.Helper()
	got, err := i.caller.do(i.t.Context(), call{method: method, path: path, body: body})
	require.NoError(i.t, err)
	require.Equal(i.t, status, got.status, "%s", got.body)
	return got
}

// sim posts to the simulator's control.
func (i *inbox) sim(path, body string) map[string]any {
	i.t.Helper()
	request, err := http.NewRequestWithContext(i.t.Context(), http.MethodPost, i.ready["simulator_url"]+"/sim/"+path, bytes.NewBufferString(body))
	require.NoError(i.t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(i.t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(i.t, err)
	require.Equal(i.t, http.StatusOK, response.StatusCode, "%s", text)
	var decoded map[string]any
	require.NoError(i.t, json.Unmarshal(text, &decoded))
	return decoded
}

// writes has a person write, or the business in the phone app, and returns the provider's id.
func (i *inbox) writes(path, kind, content string) string {
	i.t.Helper()
	return i.sim(path, fmt.Sprintf(`{"phone_number_id":%q,"from":"15550100001","type":%q,%q:%s}`,
		i.ready["phone_number_id"], kind, kind, content))["id"].(string)
}

// told waits for an event that contains a text, and checks it against the contract.
func (i *inbox) told(kind, text string) map[string]any {
	i.t.Helper()
	require.Eventually(i.t, func() bool { return len(i.hook.about(kind, text)) > 0 }, proc.Patience, 20*time.Millisecond, "%s with %s", kind, text)
	body := i.hook.about(kind, text)[0]
	fits(i.t, i.schemas[kind], body)
	var decoded map[string]any
	require.NoError(i.t, json.Unmarshal(body, &decoded))
	return decoded
}

// message reads a message and checks it against the contract.
func (i *inbox) message(id string) map[string]any {
	i.t.Helper()
	got := i.do(http.StatusOK, http.MethodGet, "/"+i.ready["phone_number_id"]+"/messages/"+id, "")
	fits(i.t, i.shown, got.body)
	return got.data(i.t)
}

// everyInbound is one content of each type that a person can send; null has the simulator choose.
func everyInbound() [][2]string {
	return [][2]string{
		{"text", `{"body":"Hello"}`},
		{"image", `{"caption":"The menu"}`},
		{"video", `{"caption":"The table"}`},
		{"audio", `{"voice":true}`},
		{"document", `{"filename":"bill.pdf","caption":"The bill"}`},
		{"sticker", `{"animated":true}`},
		{"location", `null`},
		{"contacts", `null`},
		{"interactive", `{"type":"button_reply","button_reply":{"id":"y","title":"Yes"}}`},
		{"interactive", `{"type":"list_reply","list_reply":{"id":"1","title":"Soup","description":"Hot"}}`},
		{"interactive", `{"type":"nfm_reply","nfm_reply":{"name":"flow","body":"Sent","response_json":"{}"}}`},
		{"button", `null`},
		{"order", `null`},
		{"unsupported", `{"type":"poll"}`},
	}
}

// TestDev_ReceiveEveryType_RowsAndEventsFitTheContract has a person write every type, and follows each to the
// row, the event at the webhook and, where there is one, the file.
func TestDev_ReceiveEveryType_RowsAndEventsFitTheContract(t *testing.T) {
	t.Parallel()
	i, process := newInbox(t, newFixture(t).missingDatabase(t))
	withFile := map[string]bool{"image": true, "video": true, "audio": true, "document": true, "sticker": true}
	var last string
	for _, one := range everyInbound() {
		id := i.writes("inbound", one[0], one[1])
		known := i.told("message.received", id)["svc"].(map[string]any)
		message := i.message(known["message_id"].(string))
		require.Equal(t, []any{id, "inbound", "delivered", known["conversation_id"], known["contact_id"]},
			[]any{message["message_id"], message["direction"], message["status"], message["conversation_id"], message["contact_id"]})
		if !withFile[one[0]] {
			require.Nil(t, known["media_url"])
			i.do(http.StatusNotFound, http.MethodGet, "/"+i.ready["phone_number_id"]+"/messages/"+message["id"].(string)+"/media", "")
		} else {
			require.Equal(t, "ready", message["media"].(map[string]any)["status"])
			i.requireFile(message, known["media_url"].(string))
		}
		last = id
	}
	reaction := i.writes("inbound", "reaction", fmt.Sprintf(`{"message_id":%q,"emoji":"👍"}`, last))
	i.told("message.received", reaction)
	i.told("contact.created", "15550100001")

	answer := i.writes("echo", "text", `{"body":"From the phone"}`)
	require.Equal(t, "app", i.told("message.sent", answer)["data"].(map[string]any)["message"].(map[string]any)["source"])
	picture := i.writes("echo", "image", `{"caption":"Ours"}`)
	sent := i.told("message.sent", picture)["data"].(map[string]any)["message"].(map[string]any)
	require.Equal(t, "ready", sent["media_status"])

	text := i.writes("inbound", "text", `{"body":"Helo"}`)
	i.told("message.received", text)
	i.writes("inbound", "edit", fmt.Sprintf(`{"original_message_id":%q,"message":{"type":"text","text":{"body":"Hello"}}}`, text))
	require.Equal(t, "Hello", i.told("message.edited", text)["data"].(map[string]any)["new_content"])
	i.writes("inbound", "revoke", fmt.Sprintf(`{"original_message_id":%q}`, text))
	revoked := i.told("message.revoked", text)["data"].(map[string]any)
	require.Equal(t, true, i.message(revoked["message_id"].(string))["is_revoked"])

	i.sim("system", fmt.Sprintf(`{"phone_number_id":%q,"from":"15550100001","type":"user_changed_number","new_phone":"15550100077"}`, i.ready["phone_number_id"]))
	i.told("contact.identity_updated", "15550100077")
	process.Stop()
	require.Equal(t, 0, process.ExitCode(t, stopWithin))
	require.Regexp(t, `INF callback\.received says="text message from \+15550100001 to [^"]+" answer=200`, process.Log(t))
	require.Regexp(t, `INF webhook\.delivered event=message\.received to=http://127\.0\.0\.1:\d+ attempt=1 took=\S+ answer=20\d`, process.Log(t))
}

// requireFile reads the file of a message at the media host, to which the API redirects.
func (i *inbox) requireFile(message map[string]any, url string) {
	i.t.Helper()
	path := "/" + i.ready["phone_number_id"] + "/messages/" + message["id"].(string) + "/media"
	request, err := http.NewRequestWithContext(i.t.Context(), http.MethodGet, i.ready["base_url"]+path, http.NoBody)
	require.NoError(i.t, err)
	request.Header.Set("Authorization", "Bearer "+i.ready["api_key"])
	response, err := http.DefaultTransport.RoundTrip(request)
	require.NoError(i.t, err)
	_ = response.Body.Close()
	require.Equal(i.t, http.StatusFound, response.StatusCode)
	require.Equal(i.t, url, response.Header.Get("Location"))
	request, err = http.NewRequestWithContext(i.t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(i.t, err)
	response, err = http.DefaultClient.Do(request)
	require.NoError(i.t, err)
	defer func() { _ = response.Body.Close() }()
	file, err := io.ReadAll(response.Body)
	require.NoError(i.t, err)
	require.Equal(i.t, http.StatusOK, response.StatusCode)
	media := message["media"].(map[string]any)
	require.Len(i.t, file, int(media["size"].(float64)))
	require.Equal(i.t, media["mime_type"], response.Header.Get("Content-Type"))
}
