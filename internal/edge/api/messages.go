package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/domain/messages/content"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/provider"
)

// messageIn prints the messages of an account.
func messageIn(account accounts.Account) func(messages.Message) messages.Resource {
	return func(message messages.Message) messages.Resource { return message.Resource(account) }
}

func listMessages(c *call) (reply, error) {
	filter, err := messageFilter(c.query)
	if err != nil {
		return reply{}, err
	}
	account, err := c.account()
	if err != nil {
		return reply{}, err
	}
	type page = paging.Page[messages.Message, messages.ID]
	return list(c, messageIn(account), func(ctx context.Context, org orgs.ID, slice paging.Slice[messages.ID]) (page, error) {
		return c.cell.Messages.List(ctx, org, account, filter, slice)
	})
}

// messageFilter reads the filter from a query that the contract has checked.
func messageFilter(query url.Values) (filter messages.Filter, err error) {
	filter = messages.Filter{
		Direction: messages.Direction(query.Get("direction")), Status: messages.Status(query.Get("status")), Type: query.Get("type"),
	}
	if filter.ConversationID, err = queryID[conversations.ID](query, "conversation_id"); err != nil {
		return filter, err
	}
	if filter.ContactID, err = queryID[contacts.ID](query, "contact_id"); err != nil {
		return filter, err
	}
	if filter.CreatedAfter, err = queryTime(query, "created_after"); err != nil {
		return filter, err
	}
	filter.CreatedBefore, err = queryTime(query, "created_before")
	return filter, err
}

func getMessage(c *call) (reply, error) {
	account, id, err := accountItem[messages.ID](c, "message")
	if err != nil {
		return reply{}, err
	}
	message, err := c.cell.Messages.Get(c.ctx(), c.org(), account, id)
	if err != nil {
		return reply{}, err
	}
	return c.withTagOf(message.Resource(account))
}

// getMessageMedia redirects to the file of a message.
func getMessageMedia(c *call) (reply, error) {
	account, id, err := accountItem[messages.ID](c, "message")
	if err != nil {
		return reply{}, err
	}
	message, err := c.cell.Messages.Get(c.ctx(), c.org(), account, id)
	if err != nil {
		return reply{}, err
	}
	location := c.cell.Messages.FileURL(message)
	if location == nil {
		return reply{}, fault.New(fault.ResourceNotFound, "The message has no file, or its file is not stored (`media.status` of the message).")
	}
	return reply{status: http.StatusFound, header: http.Header{"Location": {*location}}}, nil
}

// sendBody is the body of POST messages: a message when it has a type, else a read receipt.
type sendBody struct {
	Type      string           `json:"type"`
	To        string           `json:"to"`
	Recipient string           `json:"recipient"`
	Context   *content.Context `json:"context"`
	Reference string           `json:"biz_opaque_callback_data"`

	Status    string           `json:"status"`
	MessageID string           `json:"message_id"`
	Typing    *json.RawMessage `json:"typing_indicator"`

	Text        json.RawMessage `json:"text"`
	Image       json.RawMessage `json:"image"`
	Document    json.RawMessage `json:"document"`
	Video       json.RawMessage `json:"video"`
	Audio       json.RawMessage `json:"audio"`
	Template    json.RawMessage `json:"template"`
	Interactive json.RawMessage `json:"interactive"`
	Reaction    json.RawMessage `json:"reaction"`
}

// object is the content object that the type names.
func (b *sendBody) object() json.RawMessage {
	return map[string]json.RawMessage{
		provider.TypeText: b.Text, provider.TypeImage: b.Image, provider.TypeDocument: b.Document, provider.TypeVideo: b.Video,
		provider.TypeAudio: b.Audio, provider.TypeTemplate: b.Template, provider.TypeInteractive: b.Interactive,
		provider.TypeReaction: b.Reaction,
	}[b.Type]
}

// draft reads the body, and returns what is wrong beyond its schema.
func (b *sendBody) draft() (messages.Draft, []*fault.Error) {
	parsed, faults := content.Inspect(b.Type, b.object())
	replyTo, err := b.Context.ReplyTo(b.Type)
	for _, err := range []error{err, content.CheckReference(b.Reference)} {
		if found := fault.As(err); found != nil {
			faults = append(faults, found)
		}
	}
	return messages.Draft{
		To: b.To, Recipient: b.Recipient, ReplyTo: replyTo, ClientReference: b.Reference, Content: parsed, Source: messages.FromAPI,
	}, faults
}

func (a *API) sendMessage(c *call) (reply, error) {
	body, err := a.decodeSend(c)
	if err != nil {
		return reply{}, err
	}
	if body.Type == "" {
		return markRead(c, messages.Receipt{MessageID: body.MessageID, Typing: body.Typing != nil})
	}
	draft, faults := body.draft()
	if len(faults) > 0 {
		return reply{}, faults[0]
	}
	account, err := c.account()
	if err != nil {
		return reply{}, err
	}
	terms := messages.Terms{MonthlyLimit: c.caller.MessagesPerMonth, RequireOptIn: c.caller.RequireOptIn}
	return write(c, http.StatusAccepted, messageIn(account), func(ctx context.Context) (messages.Message, error) {
		return c.cell.Messages.Send(ctx, c.org(), account, terms, draft)
	})
}

func markRead(c *call, receipt messages.Receipt) (reply, error) {
	account, err := c.account()
	if err != nil {
		return reply{}, err
	}
	return write(c, http.StatusOK, messageIn(account), func(ctx context.Context) (messages.Message, error) {
		return c.cell.Messages.MarkRead(ctx, c.org(), account, receipt)
	})
}
