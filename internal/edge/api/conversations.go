package api

import (
	"context"
	"net/http"
	"net/url"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/paging"
)

// conversationIn prints the conversations of an account.
func conversationIn(account accounts.Account) func(conversations.Conversation) conversations.Resource {
	return func(conversation conversations.Conversation) conversations.Resource {
		return conversation.Resource(account)
	}
}

func listConversations(c *call) (reply, error) {
	filter, err := conversationFilter(c.query)
	if err != nil {
		return reply{}, err
	}
	account, err := c.account()
	if err != nil {
		return reply{}, err
	}
	type page = paging.Page[conversations.Conversation, conversations.Position]
	type slice = paging.Slice[conversations.Position]
	answer, err := list(c, conversationIn(account), func(ctx context.Context, org orgs.ID, slice slice) (page, error) {
		return c.cell.Conversations.List(ctx, org, account, filter, slice)
	})
	if err != nil {
		return reply{}, err
	}
	return c.withETag(answer)
}

// conversationFilter reads the filter from a query that the contract has checked.
func conversationFilter(query url.Values) (filter conversations.Filter, err error) {
	filter.Status = conversations.Status(query.Get("status"))
	if filter.ContactID, err = queryID[contacts.ID](query, "contact_id"); err != nil {
		return filter, err
	}
	if filter.LabelID, err = queryID[labels.ID](query, "label_id"); err != nil {
		return filter, err
	}
	if filter.AssignedTo, err = queryID[orgs.UserID](query, "assigned_to"); err != nil {
		return filter, err
	}
	if given := query.Get("unread"); given != "" {
		filter.Unread = new(given == "true")
	}
	filter.UpdatedSince, err = queryTime(query, "updated_since")
	return filter, err
}

func getConversation(c *call) (reply, error) {
	account, id, err := accountItem[conversations.ID](c, "conversation")
	if err != nil {
		return reply{}, err
	}
	conversation, err := c.cell.Conversations.Get(c.ctx(), c.org(), account, id)
	return read(c, conversationIn(account), conversation, err)
}

func updateConversation(c *call) (reply, error) {
	change, err := decode[conversations.Patch](c)
	if err != nil {
		return reply{}, err
	}
	account, id, err := accountItem[conversations.ID](c, "conversation")
	if err != nil {
		return reply{}, err
	}
	return write(c, http.StatusOK, conversationIn(account), func(ctx context.Context) (conversations.Conversation, error) {
		return c.cell.Conversations.Update(ctx, c.org(), account, c.by(), id, change)
	})
}

func attachConversationLabel(c *call) (reply, error) {
	body, err := decode[attachment](c)
	if err != nil {
		return reply{}, err
	}
	return labelConversation(c, body.LabelID, true)
}

func detachConversationLabel(c *call) (reply, error) {
	label, err := pathID[labels.ID](c, "label_id", "label")
	if err != nil {
		return reply{}, err
	}
	return labelConversation(c, label, false)
}

func labelConversation(c *call, label labels.ID, attach bool) (reply, error) {
	account, id, err := accountItem[conversations.ID](c, "conversation")
	if err != nil {
		return reply{}, err
	}
	return write(c, http.StatusOK, asIs[conversations.LabelResource], func(ctx context.Context) (conversations.LabelResource, error) {
		return c.cell.Conversations.Label(ctx, c.org(), account, id, label, attach)
	})
}
