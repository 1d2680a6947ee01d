package network_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/provider"
)

func TestSend_EveryType_IsAccepted(t *testing.T) {
	t.Parallel()
	f := start(t)
	received := f.sim("inbound", object{"from": ada, "type": "text", "text": object{"body": "hi"}})["id"].(string)
	uploaded, err := f.client.UploadMedia(t.Context(), f.number, picture())
	require.NoError(t, err)
	for name, message := range map[string]provider.Outbound{
		"text":              {Type: "text", Content: json.RawMessage(`{"body":"hello <b>&</b> é","preview_url":true}`)},
		"reply":             {Type: "text", Content: text("an answer"), ReplyTo: received},
		"image by id":       {Type: "image", Content: json.RawMessage(`{"id":"` + uploaded + `","caption":"look"}`)},
		"image by link":     {Type: "image", Content: json.RawMessage(`{"link":"https://example.com/a.png"}`)},
		"video":             {Type: "video", Content: json.RawMessage(`{"link":"https://example.com/a.mp4"}`)},
		"document":          {Type: "document", Content: json.RawMessage(`{"link":"https://example.com/a.pdf","filename":"a.pdf"}`)},
		"audio":             {Type: "audio", Content: json.RawMessage(`{"link":"https://example.com/a.ogg","voice":true}`)},
		"sticker":           {Type: "sticker", Content: json.RawMessage(`{"link":"https://example.com/a.webp"}`)},
		"location":          {Type: "location", Content: json.RawMessage(`{"latitude":52.5,"longitude":13.4,"name":"here"}`)},
		"contacts":          {Type: "contacts", Content: json.RawMessage(`[{"name":{"formatted_name":"Ada","first_name":"Ada"},"phones":[{"phone":"+15550100001"}]}]`)},
		"reaction":          {Type: "reaction", Content: json.RawMessage(`{"message_id":"` + received + `","emoji":"👍"}`), ReplyTo: received},
		"template":          {Type: "template", Content: json.RawMessage(`{"name":"hello_world","language":{"code":"en_US"}}`)},
		"template, short":   {Type: "template", Content: json.RawMessage(`{"name":"hello_world","language":"en_US"}`)},
		"interactive list":  {Type: "interactive", Content: json.RawMessage(`{"type":"list","body":{"text":"choose"},"action":{"button":"Open","sections":[{"title":"A","rows":[{"id":"1","title":"One"}]}]}}`)},
		"interactive url":   {Type: "interactive", Content: json.RawMessage(`{"type":"cta_url","body":{"text":"see"},"action":{"name":"cta_url","parameters":{"display_text":"Go","url":"https://example.com"}}}`)},
		"interactive reply": {Type: "interactive", Content: json.RawMessage(`{"type":"reply_buttons","body":{"text":"well?"},"action":{"buttons":[{"type":"reply","reply":{"id":"y","title":"Yes"}}]}}`)},
		"interactive flow":  {Type: "interactive", Content: json.RawMessage(`{"type":"flow","body":{"text":"fill"},"action":{"name":"flow","parameters":{"flow_message_version":"3","flow_id":"1","flow_cta":"Open","flow_token":"t"}}}`)},
	} {
		message.To, message.Reference = ada, "ref-"+name
		accepted, err := f.send(message)
		require.NoError(t, err, name)
		require.NotEmpty(t, accepted.MessageID, name)
		require.Equal(t, ada, accepted.Recipient.Phone, name)
		notification, status := next(f, func(status provider.Status) bool {
			return status.MessageID == accepted.MessageID && status.Status == provider.StatusSent
		})
		require.Equal(t, "ref-"+name, status.Reference)
		require.Equal(t, ada, status.Recipient.Phone)
		require.Equal(t, f.number.ID, notification.NumberID)
		require.Equal(t, f.owner.ID, notification.BusinessAccountID)
		require.False(t, status.At.IsZero())
	}
}

func TestSend_UserWithoutPhoneNumber_ByUserID(t *testing.T) {
	t.Parallel()
	f := start(t)
	_, inbound := writes(f, "+15550100003", object{"type": "text", "text": object{"body": "hi"}})
	require.Empty(t, inbound.From.Phone, "Linus hides it")
	require.Equal(t, "linus_p", inbound.From.Username)
	accepted, err := f.send(provider.Outbound{Recipient: inbound.From.ID, Reference: "r"})
	require.NoError(t, err)
	require.Equal(t, inbound.From.ID, accepted.Recipient.ID)
	_, status := next(f, func(status provider.Status) bool {
		return status.MessageID == accepted.MessageID && status.Status == "delivered"
	})
	require.Equal(t, inbound.From.ID, status.Recipient.ID)
	require.Empty(t, status.Recipient.Phone)
}

func TestSend_HeldForQuality_IsMarked(t *testing.T) {
	t.Parallel()
	f := start(t)
	accepted, err := f.send(provider.Outbound{To: "+15559000001"})
	require.NoError(t, err)
	require.True(t, accepted.Held)
}

func TestSend_Statuses_SentDeliveredRead(t *testing.T) {
	t.Parallel()
	f := start(t)
	accepted, err := f.send(provider.Outbound{To: grace, Reference: "msg_1:1"})
	require.NoError(t, err)
	for _, want := range []string{provider.StatusSent, provider.StatusDelivered, provider.StatusRead} {
		_, status := next(f, func(status provider.Status) bool {
			return status.MessageID == accepted.MessageID && status.Status == want
		})
		require.Equal(t, "msg_1:1", status.Reference)
		require.Empty(t, status.Errors)
	}
}

func TestMarkRead_KnownAndUnknownMessage(t *testing.T) {
	t.Parallel()
	f := start(t)
	_, inbound := writes(f, ada, object{"type": "text", "text": object{"body": "hi"}})
	for _, typing := range []bool{false, true} {
		require.NoError(t, f.client.MarkRead(t.Context(), f.number, provider.Receipt{MessageID: inbound.ID, Typing: typing}))
	}
	failed := refused(t, f.client.MarkRead(t.Context(), f.number, provider.Receipt{MessageID: "no such message"}))
	require.Equal(t, provider.Terminal, failed.Class)
	require.Equal(t, "mark_read", failed.Operation)
}

func TestSend_InvalidMessage_FailsBeforeTheRequest(t *testing.T) {
	t.Parallel()
	f := start(t)
	for name, test := range map[string]struct {
		from    string
		message provider.Outbound
	}{
		"no recipient":   {f.number.ID, provider.Outbound{Type: "text", Content: text("x")}},
		"no content":     {f.number.ID, provider.Outbound{To: ada, Type: "text"}},
		"broken content": {f.number.ID, provider.Outbound{To: ada, Type: "text", Content: json.RawMessage(`{"body":`)}},
		"no type":        {f.number.ID, provider.Outbound{To: ada, Content: text("x")}},
		"long reference": {f.number.ID, provider.Outbound{To: ada, Type: "text", Content: text("x"), Reference: fmt.Sprintf("%513d", 1)}},
		"another path":   {"1/../../oauth/access_token?x=", provider.Outbound{To: ada, Type: "text", Content: text("x")}},
		"no number":      {"", provider.Outbound{To: ada, Type: "text", Content: text("x")}},
	} {
		_, err := f.client.Send(t.Context(), provider.Number{ID: test.from, Token: f.number.Token}, test.message)
		failed := refused(t, err)
		require.Equal(t, provider.Terminal, failed.Class, name)
		require.Equal(t, provider.NotSent, failed.Delivery, name)
		require.Zero(t, failed.HTTPStatus, name)
	}
}
