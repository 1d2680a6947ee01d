package conversations

import (
	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/clock"
)

// Resource is the JSON of a conversation.
type Resource struct {
	ID            ID                `json:"id"`
	Object        string            `json:"object"`
	Status        Status            `json:"status"`
	Contact       ContactResource   `json:"contact"`
	ChatAccount   accounts.Embedded `json:"chat_account"`
	Assignee      *Assignee         `json:"assignee"`
	UnreadCount   int               `json:"unread_count"`
	LastMessageAt *clock.Stamp      `json:"last_message_at"`
	LastInboundAt *clock.Stamp      `json:"last_inbound_at"`
	CreatedAt     clock.Stamp       `json:"created_at"`
	UpdatedAt     clock.Stamp       `json:"updated_at"`
	Labels        []labels.Summary  `json:"labels"`
}

// ContactResource is with whom a conversation is, in a few words.
type ContactResource struct {
	ID          contacts.ID `json:"id"`
	PhoneNumber *string     `json:"phone_number"`
	Name        *string     `json:"name"`
}

// Assignee is the user that a conversation is assigned to.
type Assignee struct {
	ID    orgs.UserID `json:"id"`
	Name  *string     `json:"name"`
	Email *string     `json:"email"`
}

// Resource prints the conversation of an account.
func (c Conversation) Resource(of accounts.Account) Resource {
	resource := Resource{
		ID:            c.ID,
		Object:        "conversation",
		Status:        c.Status,
		Contact:       ContactResource{ID: c.ContactID, PhoneNumber: c.ContactNumber, Name: c.ContactName},
		ChatAccount:   of.Embedded(),
		UnreadCount:   c.UnreadCount,
		LastMessageAt: clock.StampOrNil(c.LastMessageAt),
		LastInboundAt: clock.StampOrNil(c.LastInboundAt),
		CreatedAt:     clock.Stamp(c.ID.CreatedAt()),
		UpdatedAt:     clock.Stamp(c.UpdatedAt),
		Labels:        c.Labels,
	}
	if resource.Labels == nil {
		resource.Labels = []labels.Summary{}
	}
	if c.AssigneeID != nil {
		resource.Assignee = &Assignee{ID: *c.AssigneeID, Name: c.AssigneeName, Email: c.AssigneeEmail}
	}
	return resource
}

// LabelResource is the JSON of a label that was attached or detached.
type LabelResource struct {
	ConversationID ID        `json:"conversation_id"`
	LabelID        labels.ID `json:"label_id"`
	Attached       bool      `json:"attached"`
}
