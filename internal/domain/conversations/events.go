package conversations

import (
	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/orgs"
)

type assignedData struct {
	Conversation assignedConversation `json:"conversation"`
	Assignee     assignment           `json:"assignee"`
}

type assignedConversation struct {
	ID            ID      `json:"id"`
	Object        string  `json:"object"`
	Status        Status  `json:"status"`
	PhoneNumberID *string `json:"phone_number_id"`
}

type assignment struct {
	UserID         *orgs.UserID `json:"user_id"`
	TeamID         orgs.TeamID  `json:"team_id"`
	PreviousUserID *orgs.UserID `json:"previous_user_id"`
}

type closedData struct {
	Conversation closedConversation `json:"conversation"`
}

type closedConversation struct {
	ID             ID      `json:"id"`
	Object         string  `json:"object"`
	Status         Status  `json:"status"`
	ClosedByUserID *string `json:"closed_by_user_id"`
	PhoneNumberID  *string `json:"phone_number_id"`
}

const object = "conversation"

func eventDraft(of accounts.Account, what events.Type, c Conversation, data any) events.Draft {
	draft := events.Draft{Type: what, At: c.UpdatedAt, Resource: c.ID.Any(), Contact: c.ContactID.Any(), Data: data}
	if of.PhoneNumberID != nil {
		draft.PhoneNumberID = *of.PhoneNumberID
	}
	return draft
}

func assigned(of accounts.Account, c Conversation, previous *orgs.UserID) events.Draft {
	return eventDraft(of, events.ConversationAssigned, c, assignedData{
		Conversation: assignedConversation{ID: c.ID, Object: object, Status: c.Status, PhoneNumberID: of.PhoneNumberID},
		Assignee:     assignment{UserID: c.AssigneeID, TeamID: of.TeamID, PreviousUserID: previous},
	})
}

// closed names the user who closed the conversation; a key has none.
func closed(of accounts.Account, c Conversation, by audit.Principal) events.Draft {
	data := closedConversation{ID: c.ID, Object: object, Status: c.Status, PhoneNumberID: of.PhoneNumberID}
	if by.Kind == audit.User {
		data.ClosedByUserID = &by.ID
	}
	return eventDraft(of, events.ConversationClosed, c, closedData{Conversation: data})
}
