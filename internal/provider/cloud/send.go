package cloud

import (
	"context"
	"encoding/json"
	"net/http"
	"unicode/utf8"

	"github.com/parley-chat/parley/internal/provider"
)

// product is the network's name in every request.
const product = "whatsapp"

// Send posts a message.
func (c *Client) Send(ctx context.Context, from provider.Number, message provider.Outbound) (provider.Accepted, error) {
	const operation = "send"
	if err := c.node(operation, from.ID, decimal); err != nil {
		return provider.Accepted{}, err
	}
	r := request{operation: operation, method: http.MethodPost, path: from.ID + "/messages", token: from.Token}
	body, wrong := outgoing(message)
	if wrong != "" {
		return provider.Accepted{}, c.impossible(r, wrong)
	}
	r.body = encode(body)
	var accepted acceptance
	if err := c.call(ctx, r, &accepted); err != nil {
		return provider.Accepted{}, err
	}
	return accepted.result(), nil
}

// outgoing is the body of a send, or an error that says what is wrong with the message.
func outgoing(message provider.Outbound) (body map[string]any, wrong string) {
	to := phone(text(message.To))
	switch {
	case to == "" && !bsuid.MatchString(message.Recipient):
		return nil, "the message has no recipient"
	case message.Type == "" || !json.Valid(message.Content):
		return nil, "the message has no content"
	case utf8.RuneCountInString(message.Reference) > provider.MaxReference:
		return nil, "the reference is too long"
	}
	body = map[string]any{
		"messaging_product": product, "recipient_type": "individual", "type": message.Type,
		message.Type: translated(message.Type, message.Content),
	}
	if to != "" {
		body["to"] = to // with its plus: else the business's country is put before it
	} else {
		body["recipient"] = message.Recipient
	}
	if message.ReplyTo != "" && message.Type != provider.TypeReaction {
		body["context"] = map[string]string{"message_id": message.ReplyTo}
	}
	if message.Reference != "" {
		body["biz_opaque_callback_data"] = message.Reference
	}
	return body, ""
}

// translated writes content the network's way where the specification has a way of its own.
func translated(kind string, content json.RawMessage) json.RawMessage {
	fields := read[members](content)
	switch {
	case kind == provider.TypeInteractive && read[text](fields["type"]) == "reply_buttons":
		fields["type"] = json.RawMessage(`"button"`)
	case kind == provider.TypeTemplate && read[text](fields["language"]) != "":
		fields["language"] = encode(map[string]text{"code": read[text](fields["language"])})
	default:
		return content
	}
	return encode(fields)
}

// acceptance is the answer to a send.
type acceptance struct {
	Contacts []struct {
		WaID   text `json:"wa_id"`
		UserID text `json:"user_id"`
	} `json:"contacts"`
	Messages []struct {
		ID     text `json:"id"`
		Status text `json:"message_status"`
	} `json:"messages"`
}

func (a *acceptance) complete() bool { return len(a.Messages) > 0 && a.Messages[0].ID != "" }

func (a *acceptance) result() provider.Accepted {
	first := a.Messages[0]
	accepted := provider.Accepted{MessageID: string(first.ID), Held: first.Status == "held_for_quality_assessment" || first.Status == "paused"}
	if len(a.Contacts) > 0 {
		accepted.Recipient = user(a.Contacts[0].WaID, a.Contacts[0].UserID, "")
	}
	return accepted
}

// MarkRead posts a read receipt.
func (c *Client) MarkRead(ctx context.Context, by provider.Number, receipt provider.Receipt) error {
	const operation = "mark_read"
	if err := c.node(operation, by.ID, decimal); err != nil {
		return err
	}
	body := map[string]any{"messaging_product": product, "status": "read", "message_id": receipt.MessageID}
	if receipt.Typing {
		body["typing_indicator"] = map[string]string{"type": "text"}
	}
	return c.call(ctx, request{
		operation: operation, method: http.MethodPost, path: by.ID + "/messages", token: by.Token, body: encode(body),
	}, new(done))
}
