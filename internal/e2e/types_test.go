package e2e_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/proc"
	"github.com/parley-chat/parley/openapi"
)

// everyType is one content of each type and form. FILES stands for a server with a picture.
func everyType() [][2]string {
	return [][2]string{
		{"text", `{"body":"Your order: https://harbour.example/o/1","preview_url":true}`},
		{"image", `{"link":"FILES/menu.png","caption":"The menu"}`},
		{"document", `{"link":"FILES/invoice.pdf","filename":"invoice.pdf","caption":"Your invoice"}`},
		{"video", `{"link":"FILES/table.mp4","caption":"Your table"}`},
		{"audio", `{"link":"FILES/hello.ogg","voice":true}`},
		{"template", `{"name":"hello_world","language":{"code":"en_US"}}`},
		{"template", `{"name":"order_update","language":"en_US","components":[
			{"type":"body","parameters":[{"type":"text","text":"Ada"},{"type":"text","text":"A-1042"}]},
			{"type":"button","sub_type":"url","index":"1","parameters":[{"type":"text","text":"A-1042"}]}]}`},
		{"interactive", `{"type":"button","body":{"text":"A table for two?"},
			"action":{"buttons":[{"type":"reply","reply":{"id":"y","title":"Yes"}}]}}`},
		{"interactive", `{"type":"list","body":{"text":"What would you like?"},
			"action":{"button":"Show dishes","sections":[{"rows":[{"id":"1","title":"Soup"}]}]}}`},
		{"interactive", `{"type":"cta_url","body":{"text":"The menu is online."},
			"action":{"name":"cta_url","parameters":{"display_text":"Open","url":"https://harbour.example"}}}`},
		{"interactive", `{"type":"flow","body":{"text":"Book a table."},
			"action":{"name":"flow","parameters":{"flow_message_version":"3","flow_name":"book","flow_cta":"Book"}}}`},
	}
}

// hook is a webhook endpoint that keeps bodies by the type of their event.
type hook struct {
	mu     sync.Mutex
	bodies map[string][]json.RawMessage
}

func (h *hook) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	h.mu.Lock()
	defer h.mu.Unlock()
	kind := r.Header.Get("X-Svc-Event")
	h.bodies[kind] = append(h.bodies[kind], body)
}

// about returns the bodies of a type that contain a text.
func (h *hook) about(kind, text string) (found []json.RawMessage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, body := range h.bodies[kind] {
		if strings.Contains(string(body), text) {
			found = append(found, body)
		}
	}
	return found
}

func fits(t *testing.T, schema *jsonschema.Schema, body []byte) {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	require.NoError(t, err)
	require.NoError(t, schema.Validate(value), "%s", body)
}

func files(t *testing.T) string {
	t.Helper()
	picture, err := base64.StdEncoding.DecodeString(
		"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
	require.NoError(t, err)
	types := map[string]string{"png": "image/png", "pdf": "application/pdf", "mp4": "video/mp4", "ogg": "audio/ogg; codecs=opus"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", types[r.URL.Path[strings.LastIndex(r.URL.Path, ".")+1:]])
		_, _ = w.Write(picture)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestDev_EveryType_AnswersAndEventsFitTheContract sends each type through `parley dev` until the
// person has read it.
func TestDev_EveryType_AnswersAndEventsFitTheContract(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	process, ready := develop(t, f.missingDatabase(t))
	caller := &client{base: ready["base_url"], key: ready["api_key"], http: newHTTP()}
	h := &hook{bodies: map[string][]json.RawMessage{}}
	endpoint := httptest.NewServer(h)
	t.Cleanup(endpoint.Close)
	must := func(status int, sent call) answer {
		t.Helper()
		got, err := caller.do(t.Context(), sent)
		require.NoError(t, err)
		require.Equal(t, status, got.status, "%s", got.body)
		return got
	}
	must(http.StatusCreated, call{method: http.MethodPost, path: "/webhook_subscriptions", body: fmt.Sprintf(
		`{"url":%q,"events":["message.sent","message.status"]}`, endpoint.URL)})
	contract, err := openapi.Load()
	require.NoError(t, err)
	operation, _ := contract.Operation(http.MethodPost, "/{phone_number_id}/messages")
	accepted, err := operation.Response(http.StatusAccepted)
	require.NoError(t, err)
	operation, _ = contract.Operation(http.MethodGet, "/{phone_number_id}/messages/{id}")
	shown, err := operation.Response(http.StatusOK)
	require.NoError(t, err)
	sentEvent, err := contract.Webhook("message.sent")
	require.NoError(t, err)
	statusEvent, err := contract.Webhook("message.status")
	require.NoError(t, err)

	address, messages := files(t), "/"+ready["phone_number_id"]+"/messages"
	var last string
	for _, one := range append(everyType(), [2]string{"reaction", `{"message_id":"LAST","emoji":"👍"}`}) {
		content := strings.NewReplacer("FILES", address, "LAST", last).Replace(one[1])
		got := must(http.StatusAccepted, call{method: http.MethodPost, path: messages, body: fmt.Sprintf(
			`{"messaging_product":"chat","to":"+15550100001","type":%q,%q:%s}`, one[0], one[0], content)})
		fits(t, accepted, got.body)
		id := got.data(t)["id"].(string)
		var now answer
		proc.Eventually(t, proc.Patience, one[0]+" is read", func() bool {
			now = must(http.StatusOK, call{method: http.MethodGet, path: messages + "/" + id})
			status := now.data(t)["status"]
			require.NotEqual(t, "failed", status, "%s", now.body)
			return status == "read" || one[0] == "reaction" && status == "sent"
		})
		fits(t, shown, now.body)
		last = now.data(t)["message_id"].(string)
		statuses := 3
		if one[0] == "reaction" {
			statuses = 0
		}
		require.Eventually(t, func() bool {
			return len(h.about("message.sent", last)) == 1 && len(h.about("message.status", last)) >= statuses
		}, proc.Patience, 20*time.Millisecond, "the events of %s", one[0])
		for _, body := range h.about("message.sent", last) {
			fits(t, sentEvent, body)
		}
		for _, body := range h.about("message.status", last) {
			fits(t, statusEvent, body)
		}
	}
	process.Stop()
	require.Equal(t, 0, process.ExitCode(t, stopWithin))
}
