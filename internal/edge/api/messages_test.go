package api_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/apitest"
)

// message is the body of a send of a type with its content to +351910000001. Each further field is
// written as it is in JSON and replaces a field of the same name; an empty one removes it.
func message(kind, content string, fields ...string) string {
	all := map[string]string{
		"messaging_product": `"chat"`, "to": `"+351910000001"`, "type": `"` + kind + `"`, kind: content,
	}
	order := []string{"messaging_product", "to", "type", kind}
	for i := 0; i+1 < len(fields); i += 2 {
		if _, known := all[fields[i]]; !known {
			order = append(order, fields[i])
		}
		all[fields[i]] = fields[i+1]
	}
	var members []string
	for _, name := range order {
		if all[name] != "" {
			members = append(members, fmt.Sprintf("%q:%s", name, all[name]))
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

func (n number) send(t *testing.T, body string, header ...string) apitest.Answer {
	t.Helper()
	return n.Post(t, n.path+"/messages", body, header...)
}

// mustSend sends a message that is accepted.
func (n number) mustSend(t *testing.T, body string, header ...string) map[string]any {
	t.Helper()
	sent := n.send(t, body, header...)
	require.Equal(t, 202, sent.Status, "%s", sent.Body)
	return sent.Data(t)
}

// exec runs a statement in the organization of the number.
func (n number) exec(t *testing.T, sql string, args postgres.Args) {
	t.Helper()
	changed, err := postgres.InTx(t.Context(), n.s.DB, n.Org, func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(t.Context(), sql, args)
	})
	require.NoError(t, err)
	require.EqualValues(t, 1, changed)
}

// template stores an approved template in en_US. An empty category is null.
func (n number) template(t *testing.T, name, category, components string) {
	t.Helper()
	n.exec(t, `
INSERT INTO templates (org_id, id, account_id, name, language, status, provider_status, category, content, variables, components,
    digest, updated_at)
VALUES (@org_id, @id, @account_id, @name, 'en_US', 'approved', 'APPROVED', nullif(@category, ''), '', '{}', @components::json,
    '', @now)`, postgres.Args{
		"id": ids.NewOrg(n.s.Clock.Now()), "account_id": n.account.ID, "name": name, "category": category, "components": components,
		"now": n.s.Clock.Now(),
	})
}

// stored counts the rows that a send makes.
func (n number) stored(t *testing.T) []int {
	t.Helper()
	counts, err := postgres.Many[int](t.Context(), n.s.DB.Of(n.Org), `
SELECT count(*)::int FROM contacts WHERE org_id = @org_id
UNION ALL SELECT count(*)::int FROM conversations WHERE org_id = @org_id
UNION ALL SELECT count(*)::int FROM messages WHERE org_id = @org_id
UNION ALL SELECT count(*)::int FROM message_states WHERE org_id = @org_id
UNION ALL SELECT count(*)::int FROM lane_rows WHERE lane_id = @lane_id
UNION ALL SELECT count(*)::int FROM idempotency_keys WHERE org_id = @org_id`, postgres.Args{"lane_id": n.account.ID})
	require.NoError(t, err)
	return counts
}

const orderTemplate = `[{"type":"BODY","text":"Order {{1}} is ready."}]`

// contents are accepted content objects of the eight types.
func contents() [][2]string {
	return [][2]string{
		{"text", `{"body":"Your order: https://harbour.example/o/1","preview_url":true}`},
		{"image", `{"link":"https://harbour.example/menu.jpg","caption":"The menu"}`},
		{"document", `{"link":"https://harbour.example/a.pdf","filename":"a.pdf","caption":"Invoice"}`},
		{"video", `{"link":"https://harbour.example/a.mp4"}`},
		{"audio", `{"link":"https://harbour.example/a.ogg","voice":true}`},
		{"template", `{"name":"order_ready","language":{"code":"en_US"},
			"components":[{"type":"body","parameters":[{"type":"text","text":"1042"}]}]}`},
		{"template", `{"name":"order_ready","language":"en_US",
			"components":[{"type":"BODY","parameters":[{"type":"text","text":"1042"}]}]}`},
		{"interactive", `{"type":"button","body":{"text":"Well?"},"action":{"buttons":[{"type":"reply","reply":{"id":"y","title":"Yes"}}]}}`},
		{"interactive", `{"type":"reply_buttons","body":{"text":"Well?"},
			"action":{"buttons":[{"type":"reply","reply":{"id":"y","title":"Yes"}}]}}`},
		{"interactive", `{"type":"list","body":{"text":"Well?"},
			"action":{"button":"Open","sections":[{"rows":[{"id":"1","title":"One"}]}]}}`},
		{"interactive", `{"type":"cta_url","header":{"type":"image","image":{"link":"https://harbour.example/a.jpg"}},"body":{"text":"Well?"},
			"footer":{"text":"F"},"action":{"name":"cta_url","parameters":{"display_text":"Open","url":"https://harbour.example"}}}`},
		{"interactive", `{"type":"flow","body":{"text":"Well?"},
			"action":{"name":"flow","parameters":{"flow_message_version":"3","flow_name":"book","flow_cta":"Book"}}}`},
		{"reaction", `{"message_id":"pmid.1","emoji":"👍"}`},
	}
}

func decoded(t *testing.T, object string) (value any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(object), &value))
	return value
}

func TestMessages_Send_EveryType(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	n.template(t, "order_ready", "UTILITY", orderTemplate)
	for i, one := range contents() {
		n.s.Clock.Move(time.Second)
		kind, content := one[0], one[1]
		sent := n.mustSend(t, message(kind, content))
		want := map[string]any{
			"id": sent["id"], "object": "message", "to": "+351910000001", "bsuid": nil, "parent_bsuid": nil, "username": nil, "type": kind,
			"status": "queued", "created_at": n.now(), "conversation_id": sent["conversation_id"], "direction": "outbound",
			"from": *n.account.PhoneNumber, "contact_id": sent["contact_id"], kind: decoded(t, content),
		}
		if slices.Contains([]string{"image", "document", "video", "audio"}, kind) {
			want["media"] = map[string]any{"status": "ready", "mime_type": nil, "size": nil}
		}
		require.Equal(t, want, sent)
		require.Regexp(t, `^msg_[0-9A-HJKMNP-TV-Z]{26}$`, sent["id"])
		require.Equal(t, sent, n.Get(t, n.path+"/messages/"+sent["id"].(string)).Data(t))

		key := fmt.Sprint("key-", i)
		first := n.send(t, message(kind, content), "Idempotency-Key", key)
		require.Equal(t, 202, first.Status)
		n.s.Clock.Move(time.Second)
		again := n.send(t, message(kind, content), "Idempotency-Key", key)
		require.Equal(t, []any{202, string(first.Body), "true", first.Header.Get("X-Request-Id")},
			[]any{again.Status, string(again.Body), again.Header.Get("Idempotent-Replayed"), again.Header.Get("X-Request-Id")})
		requireRefusal(t, refusal{422, "invalid_request_error", "idempotency_key_reuse", ""},
			n.send(t, message(kind, content, "biz_opaque_callback_data", `"x"`), "Idempotency-Key", key))
	}
	count := len(contents())
	require.Equal(t, []int{1, 1, 2 * count, 2 * count, 2 * count, count}, n.stored(t))
}

func TestMessages_Send_MakesContactAndConversation(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	sent := n.mustSend(t, message("text", `{"body":"Hello"}`, "to", `"351910000001"`, "recipient_type", `"individual"`))
	require.Equal(t, "+351910000001", sent["to"])
	contact := n.Get(t, n.path+"/contacts/"+sent["contact_id"].(string)).Data(t)
	require.Equal(t, "+351910000001", contact["phone_number"])
	conversation := n.Get(t, n.path+"/conversations/"+sent["conversation_id"].(string)).Data(t)
	require.Equal(t, []any{"open", 0.0, n.now(), nil}, []any{
		conversation["status"], conversation["unread_count"], conversation["last_message_at"], conversation["last_inbound_at"],
	})
	again := n.mustSend(t, message("text", `{"body":"Hello"}`))
	require.Equal(t, []any{sent["contact_id"], sent["conversation_id"]}, []any{again["contact_id"], again["conversation_id"]})
	require.NotEqual(t, sent["id"], again["id"])
}

func TestMessages_Send_Recipients(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	require.Equal(t, 201, n.Post(t, n.path+"/contacts",
		`{"phone_number":"+351910000007","bsuid":"PT.7","username":"ada","name":"Ada"}`).Status)
	for _, test := range []struct {
		name, to, recipient              string
		number, bsuid, parent, userNamed any
	}{
		{"BSUID of a new contact", "", `"PT.1"`, nil, "PT.1", nil, nil},
		{"parent BSUID of a new contact", "", `"PT.ENT.2"`, nil, nil, "PT.ENT.2", nil},
		{"BSUID of a contact with a number", "", `"PT.7"`, "+351910000007", "PT.7", nil, "ada"},
		{"number of a contact with a BSUID", `"351910000007"`, "", "+351910000007", "PT.7", nil, "ada"},
		{"to wins over recipient", `"+351910000008"`, `"PT.7"`, "+351910000008", nil, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			sent := n.mustSend(t, message("text", `{"body":"Hello"}`, "to", test.to, "recipient", test.recipient))
			require.Equal(t, []any{test.number, test.bsuid, test.parent, test.userNamed},
				[]any{sent["to"], sent["bsuid"], sent["parent_bsuid"], sent["username"]})
			require.Equal(t, sent, n.Get(t, n.path+"/messages/"+sent["id"].(string)).Data(t))
		})
	}
}

func TestMessages_Send_ReplyReferenceAndReaction(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	text := func(fields ...string) map[string]any {
		sent := n.mustSend(t, message("text", `{"body":"Hello"}`, fields...))
		require.Equal(t, sent, n.Get(t, n.path+"/messages/"+sent["id"].(string)).Data(t))
		return sent
	}
	require.Equal(t, map[string]any{"message_id": "pmid.1"}, text("context", `{"message_id":"pmid.1"}`)["context"])
	require.Equal(t, strings.Repeat("é", 512), text("biz_opaque_callback_data", `"`+strings.Repeat("é", 512)+`"`)["client_reference"])
	removed := n.mustSend(t, message("reaction", `{"message_id":"pmid.1","emoji":""}`))
	require.Equal(t, map[string]any{"message_id": "pmid.1", "emoji": ""}, removed["reaction"])
	longest := strings.Repeat("é", 16)
	require.Equal(t, longest, n.mustSend(t, message("reaction", `{"message_id":"pmid.1","emoji":"`+longest+`"}`))["reaction"].(map[string]any)["emoji"])
	body := strings.Repeat("😀", 4096)
	require.Equal(t, body, n.mustSend(t, message("text", `{"body":"`+body+`"}`))["text"].(map[string]any)["body"])
}

// TestMessages_Send_UnknownContentFields_PassedOn: content objects mirror those of the provider.
func TestMessages_Send_UnknownContentFields_PassedOn(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	sent := n.send(t, message("text", ` { "body" : "<a>" , "later" : { "n" : 1.50 } } `))
	require.Equal(t, 202, sent.Status)
	require.Contains(t, string(sent.Body), `"text":{"body":"<a>","later":{"n":1.50}}`)
	read := n.Get(t, n.path+"/messages/"+sent.Data(t)["id"].(string))
	require.Contains(t, string(read.Body), `"text":{"body":"<a>","later":{"n":1.50}}`)
	image := n.mustSend(t, message("image", `{"link":"https://harbour.example/a.jpg","alt":"A"}`))
	require.Equal(t, "A", image["image"].(map[string]any)["alt"])
}

func TestMessages_Send_BadInput_Refused(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	hello := `{"body":"Hello"}`
	missing := func(param string) refusal {
		return refusal{400, "invalid_request_error", "missing_required_field", param}
	}
	badNumber := refusal{400, "invalid_request_error", "invalid_phone_number", "to"}
	for _, test := range []struct {
		name, body string
		want       refusal
	}{
		{"empty body", `{}`, missing("type")},
		{"no messaging_product", message("text", hello, "messaging_product", ""), missing("messaging_product")},
		{"other messaging_product", message("text", hello, "messaging_product", `"whatsapp"`), faulty("messaging_product")},
		{"no recipient", message("text", hello, "to", ""), missing("to")},
		{"no recipient, bad content", message("image", `{"link":"https://a.example","id":"med_1"}`, "to", ""), missing("to")},
		{"empty to", message("text", hello, "to", `""`), badNumber},
		{"letters in to", message("text", hello, "to", `"+35191000000a"`), badNumber},
		{"leading zero in to", message("text", hello, "to", `"0351910000001"`), badNumber},
		{"blanks in to", message("text", hello, "to", `"+351 910 000 001"`), badNumber},
		{"short to", message("text", hello, "to", `"+35191"`), badNumber},
		{"long to", message("text", hello, "to", `"+3519100000012345"`), badNumber},
		{"number as to", message("text", hello, "to", `351910000001`), badNumber},
		{"null to", message("text", hello, "to", `null`), refusal{400, "invalid_request_error", "missing_required_field", "to"}},
		{"bad to with good recipient", message("text", hello, "to", `"x"`, "recipient", `"PT.1"`), badNumber},
		{"bad recipient", message("text", hello, "to", "", "recipient", `"pt.1"`), faulty("recipient")},
		{"recipient without id", message("text", hello, "to", "", "recipient", `"PT."`), faulty("recipient")},
		{"unknown type", message("sticker", `{}`), faulty("type")},
		{"null type", message("text", hello, "type", `null`), faulty("type")},
		{"list as type", message("text", hello, "type", `["text"]`), faulty("type")},
		{"no type", message("text", hello, "type", ""), missing("type")},
		{"receipt without message", `{"status":"read"}`, missing("message_id")},
		{"receipt without status", `{"message_id":"pmid.1"}`, missing("status")},
		{"receipt with another status", `{"status":"delivered","message_id":"pmid.1"}`, faulty("status")},
		{"receipt with an unknown field", `{"status":"read","message_id":"pmid.1","to":"+351910000001"}`, faulty("to")},
		{
			"receipt with another indicator", `{"status":"read","message_id":"pmid.1","typing_indicator":{"type":"audio"}}`,
			faulty("typing_indicator.type"),
		},
		{"no content", message("text", ""), missing("text")},
		{"content of another type", message("text", "", "image", `{"link":"https://a.example/"}`), missing("text")},
		{"two contents", message("text", hello, "image", `{"link":"https://a.example/"}`), faulty("image")},
		{"unknown field", message("text", hello, "preview_url", `true`), faulty("preview_url")},
		{"unknown field without a name", message("text", hello, "", `1`), faulty(`""`)},
		{"unknown field that is not ASCII", message("text", hello, "été 😀", `1`), faulty("été 😀")},
		{"receipt in a send", message("text", hello, "status", `"read"`), faulty("status")},
		{"fields of the resource", message("text", hello, "id", `"msg_1"`), faulty("id")},
		{"recipient_type", message("text", hello, "recipient_type", `"group"`), faulty("recipient_type")},
		{"empty text", message("text", `{"body":""}`), faulty("text.body")},
		{"text of 4097 characters", message("text", `{"body":"`+strings.Repeat("😀", 4097)+`"}`), faulty("text.body")},
		{"no text", message("text", `{}`), missing("text.body")},
		{"emoji of 17 characters", message("reaction", `{"message_id":"p","emoji":"`+strings.Repeat("é", 17)+`"}`), faulty("reaction.emoji")},
		{"reaction without emoji", message("reaction", `{"message_id":"p"}`), missing("reaction.emoji")},
		{"reaction without message", message("reaction", `{"emoji":"x"}`), missing("reaction.message_id")},
		{"context without message", message("text", hello, "context", `{}`), missing("context.message_id")},
		{
			"context with our own id", message("text", hello, "context", `{"message_id":"msg_01M7J861QBDER227SD3P02SWVM"}`),
			faulty("context.message_id"),
		},
		{"context with an empty message", message("text", hello, "context", `{"message_id":""}`), faulty("context.message_id")},
		{
			"reference of 513 characters", message("text", hello, "biz_opaque_callback_data", `"`+strings.Repeat("é", 513)+`"`),
			faulty("biz_opaque_callback_data"),
		},
		{"link and id", message("image", `{"link":"https://a.example/","id":"med_1"}`), faulty("image.id")},
		{"neither link nor id", message("audio", `{"voice":true}`), missing("audio.link")},
		{"four buttons", message("interactive", `{"type":"button","body":{"text":"a"},"action":{"buttons":[`+
			strings.TrimSuffix(strings.Repeat(`{"type":"reply","reply":{"id":"y","title":"Yes"}},`, 4), ",")+`]}}`), faulty("interactive.action.buttons")},
		{"long title", message("interactive", `{"type":"button","body":{"text":"a"},"action":{"buttons":[{"type":"reply","reply":{"id":"y","title":"`+
			strings.Repeat("é", 21)+`"}}]}}`), faulty("interactive.action.buttons[0].reply.title")},
	} {
		t.Run(test.name, func(t *testing.T) { requireRefusal(t, test.want, n.send(t, test.body)) })
	}
	require.Equal(t, []int{0, 0, 0, 0, 0, 0}, n.stored(t))
}
